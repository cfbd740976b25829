"""Every public method of a dataset answers every wrong argument with a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import pytest

from rl_training import PPO
from rl_training.core.arguments import SEED, as_python, row_numbers, whole_number
from rl_training.data import Dataset, DatasetError, ReferenceScore, convert, info, lint
from rl_training.data.reference_scores import normalized_score
from tests.data.making import count_up, with_stored_successors
from tests.wrong_values import WRONG, raw_tracebacks

COMPACT = count_up()
STORED = with_stored_successors(COMPACT)
RNG = np.random.default_rng(0)
COLUMNS = COMPACT.columns._asdict() | {"spec": COMPACT.spec}
METHODS: dict[str, Callable[[Dataset, object], object]] = {
    "select": lambda data, value: data.select(value),
    "take": lambda data, value: data.take(value),
    "successors": lambda data, value: data.successors(value),
    "rows of episodes": lambda data, value: data.episodes().rows_of(value),
    "episodes of rows": lambda data, value: data.episodes().index_of(value),
    "top": lambda data, value: data.top(value),
    "split": lambda data, value: data.split(value, 0),
    "split's seed": lambda data, value: data.split(0.5, value),
    "sample": lambda data, value: data.sample(RNG, 10**13 if value is WRONG["huge"] else value),
    "sample's rng": lambda data, value: data.sample(value, 1),
    "return_to_go": lambda data, value: data.return_to_go(value),
    "n_step": lambda data, value: data.n_step(value, 0.9),
    "n_step's gamma": lambda data, value: data.n_step(2, value),
    "n_step's rows": lambda data, value: data.n_step(2, 0.9, value),
    "concatenate": lambda data, value: Dataset.concatenate(value),
    "concatenate one": lambda data, value: Dataset.concatenate([data, value]),
    "replace spec": lambda data, value: data.replace(spec=value),
    "replace provenance": lambda data, value: data.replace(provenance=value),
    "replace reference": lambda data, value: data.replace(reference=value),
    "normalized_score": lambda data, value: data.replace(reference=ReferenceScore(0, 1)).normalized_score(value),
    "ReferenceScore": lambda data, value: ReferenceScore(value, 5),
    "ReferenceScore.d4rl": lambda data, value: ReferenceScore.d4rl(value),
    "normalized scores": lambda data, value: normalized_score(value, "hopper"),
    "open": lambda data, value: Dataset.open(value),
    "save": lambda data, value: data.save(value) if not isinstance(value, str) or not value else None,
    "lint": lambda data, value: lint(value),
    "lint's limit": lambda data, value: lint(data, time_limit=value),
    "info": lambda data, value: info(value),
    "convert": lambda data, value: convert(value, "x.npz"),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [COMPACT, STORED], ids=["following rows", "stored successors"])
def test_a_wrong_argument_is_a_sentence(data: Dataset, method: str) -> None:
    assert raw_tracebacks(lambda value: METHODS[method](data, value)) == []


@pytest.mark.parametrize("column", [*COLUMNS, "provenance", "reference"])
def test_a_wrong_column_is_a_sentence(column: str) -> None:
    rows = {"nan rows": np.full(len(COMPACT), np.nan), "objects": np.array([None] * len(COMPACT))}
    assert raw_tracebacks(lambda value: Dataset.from_arrays(**(COLUMNS | {column: value})), WRONG | rows) == []


def test_what_a_method_cannot_mean_is_refused() -> None:
    refused = {
        "index=[] selects no episode": lambda: COMPACT.select([]),
        "index runs from 0 to 2, and there are 2 episodes": lambda: COMPACT.select([0, 2]),
        "num=-1 must be at least 0": lambda: COMPACT.sample(RNG, -1),
        "num=1000000000000 needs": lambda: COMPACT.sample(RNG, 10**12),
        "gamma=2.0 must be at most 1": lambda: COMPACT.return_to_go(2),
        "gamma=nan must be finite": lambda: COMPACT.return_to_go(np.nan),
        "datasets[1]=5 is not a Dataset": lambda: Dataset.concatenate([COMPACT, 5]),
        "rows is a mask of 1 for 5 rows": lambda: COMPACT.take([True]),
    }
    for sentence, call in refused.items():
        with pytest.raises(ValueError, match=re.escape(sentence)):
            call()


def test_more_steps_than_an_episode_has_sum_the_whole_episode() -> None:
    assert COMPACT.n_step(10**9, 1.0).reward.tolist() == COMPACT.return_to_go().tolist()


def test_masks_and_numbers_of_numpy_are_taken() -> None:
    assert COMPACT.take(np.arange(5) == 2).reward.tolist() == COMPACT.take([2]).reward.tolist()
    assert len(COMPACT.sample(RNG, np.int16(3)).reward) == 3
    assert row_numbers(np.array([], bool), "rows", 0, "rows").tolist() == []
    for value in (np.float16(0.5), np.longdouble(0.5), np.array(0.5), np.uint8(1), np.bool_(True), np.str_("a")):
        assert type(as_python(value)) in (float, int, bool, str)
    assert whole_number(2**63 - 1, "seed", SEED) == 2**63 - 1
    with pytest.raises(ValueError, match=r"seed=18446744073709551616 must be at most 9223372036854775807"):
        whole_number(2**64, "seed", SEED)


def test_spaces_may_be_given_as_one_has_them() -> None:
    columns = {
        "obs": np.zeros((4, 4)),
        "action": np.zeros(4, int),
        "reward": np.zeros(4),
        "truncated": np.zeros(4, bool),
    }
    columns["terminated"] = np.arange(4) == 3
    env = gym.make("CartPole-v1")
    agent = PPO("CartPole-v1")
    spaces = (env.observation_space, env.action_space)
    named = {"observation_space": spaces[0], "action": spaces[1]}
    for given in (spaces, named, env, "CartPole-v1", lambda: gym.make("CartPole-v1"), agent, agent.env):
        data = Dataset.from_arrays(**columns, spec=given)
        assert data.spec == agent.spec
        assert not data.provenance.spec_inferred
    with pytest.raises(DatasetError, match="is not a pair of spaces: give spec="):
        Dataset.from_arrays(**columns, spec=[env.observation_space])
    with pytest.raises(DatasetError, match=r"Tuple.* is not supported"):
        Dataset.from_arrays(**columns, spec=(gym.spaces.Tuple([]), env.action_space))
