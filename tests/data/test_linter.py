"""The linter finds every planted fault, names its rows, and is silent about clean data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rl_training.data import Dataset, Finding, Provenance, lint
from tests.data.making import LENGTHS, count_up, make, with_stored_successors

EQUAL = (20,) * 6


def faults(dataset: Dataset) -> dict[str, Finding]:
    return {found.fault: found for found in lint(dataset)}


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(
    ("obs", "action"), [("box", "box"), ("dict", "discrete"), ("image", "several"), ("discrete", "bits")]
)
def test_clean_data_have_no_findings(obs: str, action: str, stored: bool) -> None:
    assert lint(make(obs, action, stored=stored, log_prob=True, extras=True)) == []


def plant_nan(dataset: Dataset) -> None:
    dataset.obs[5, 1] = np.nan
    dataset.obs[7, 0] = -np.inf


def plant_nan_last(dataset: Dataset) -> None:
    dataset.last_obs[2] = np.nan


def plant_nan_reward(dataset: Dataset) -> None:
    dataset.reward[22] = np.nan


def plant_action(dataset: Dataset) -> None:
    dataset.action[3, 0] = 2.001
    dataset.action[9, 1] = -7.0


def plant_open_end(dataset: Dataset) -> None:
    dataset.truncated[-1] = False


def plant_constant(dataset: Dataset) -> None:
    dataset.obs[:, 2] = 0.25


def plant_log_prob(dataset: Dataset) -> None:
    dataset.columns.log_prob[4] = np.inf


PLANTED: dict[str, tuple[Callable[[Dataset], None], str, str, tuple[int, ...]]] = {
    "nan": (plant_nan, "not-finite", "error", (5, 7)),
    "nan at the end": (plant_nan_last, "not-finite", "error", (17,)),
    "nan reward": (plant_nan_reward, "not-finite", "error", (22,)),
    "action": (plant_action, "action-outside", "error", (3, 9)),
    "open end": (plant_open_end, "open-end", "warning", (22,)),
    "constant": (plant_constant, "constant-observation", "warning", (0,)),
    "log_prob": (plant_log_prob, "log-prob", "error", (4,)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_alone_with_its_rows(name: str) -> None:
    plant, fault, severity, rows = PLANTED[name]
    dataset = make(log_prob=True)
    plant(dataset)
    (found,) = lint(dataset)
    assert (found.fault, found.severity, found.rows, found.count) == (fault, severity, rows, len(rows))
    assert found.meaning
    assert found.advice
    assert str(found).startswith(f"{severity}: {fault}: ")


def test_rounding_at_the_bounds_is_no_fault() -> None:
    dataset = make()
    dataset.action[3, 0] = 2.0 + 1e-5
    assert lint(dataset) == []


def test_choices_outside() -> None:
    dataset = make(action="shifted")
    dataset.action[1:3] = (-2, 3)
    assert faults(dataset)["action-outside"].rows == (1, 2)


def test_timeouts_stored_as_terminals() -> None:
    (found,) = lint(make(lengths=EQUAL, terminated=(True,) * 6))
    assert (found.fault, found.severity, found.count) == ("timeout-as-terminal", "error", 6)
    assert found.rows == (19, 39, 59, 79, 99, 119)
    assert "all 6 episodes terminate after exactly 20 steps" in found.meaning
    assert lint(make(lengths=EQUAL, terminated=(False,) * 6)) == []
    assert lint(make(lengths=EQUAL, terminated=(True,) * 5 + (False,))) == []  # somebody knew the difference
    assert lint(make(lengths=(1,) * 6, terminated=(True,) * 6)) == []  # one-step problems


def test_many_episodes_of_the_greatest_length() -> None:
    (found,) = lint(make(lengths=(3, 20, 9, *EQUAL), terminated=(True,) * 9))
    assert (found.fault, found.severity, found.count) == ("timeout-as-terminal", "warning", 7)
    assert lint(make(lengths=(3, 20, 19, 18, 9), terminated=(True,) * 5)) == []
    assert lint(make(lengths=(3, 20, 20, 20, 19, 19), terminated=(True,) * 6)) == []


def test_broken_chains() -> None:
    dataset = make("dict", "discrete", stored=True)
    dataset.next_obs["grid"][[1, 8]] += 1
    (found,) = lint(dataset)
    assert (found.fault, found.severity, found.rows) == ("broken-chain", "error", (1, 8))
    ends = np.cumsum(LENGTHS) - 1
    fine = make(stored=True)
    fine.next_obs[ends] += 1  # what follows the end of an episode is not the next row
    assert lint(fine) == []


@pytest.mark.parametrize("stored", [False, True])
def test_the_first_observation_of_the_next_episode_is_no_successor(stored: bool) -> None:
    dataset = make(lengths=(5, 6, 7, 8, 9), terminated=(False,) * 5)
    dataset.last_obs[:-1] = dataset.obs[dataset.episodes().start[1:]]
    found = faults(with_stored_successors(dataset) if stored else dataset)
    assert list(found) == ["reset-as-successor"]
    assert found["reset-as-successor"].rows == (4, 10, 17, 25)


def test_duplicated_episodes() -> None:
    dataset = make()
    twice = Dataset.concatenate([dataset, dataset.select(np.array([2]))])
    (found,) = lint(twice)
    assert (found.fault, found.severity, found.rows, found.count) == ("duplicated-episode", "warning", (23,), 1)
    similar = Dataset.concatenate([dataset, dataset.select(np.array([2]))])
    similar.action[30] += 0.01
    assert lint(similar) == []
    assert lint(Dataset.concatenate([dataset, dataset.select(np.array([3]))])) == []  # so short that it may be chance


def test_constant_observations_say_which() -> None:
    dataset = make()
    dataset.obs[:, 1] = 3.0
    assert "elements [1]" in faults(dataset)["constant-observation"].meaning
    dataset.obs[:] = 3.0
    assert "all of it" in faults(dataset)["constant-observation"].meaning


def test_log_probabilities() -> None:
    discrete, continuous = make(action="discrete", log_prob=True), make(log_prob=True)
    for dataset in (discrete, continuous):
        dataset.log_prob[5] = 0.5
    assert faults(discrete)["log-prob"].rows == (5,)
    assert lint(continuous) == []  # a density may be above 1
    continuous.log_prob[[2, 3]] = np.nan
    assert faults(continuous)["log-prob"].severity == "warning"


def test_guessed_spaces_are_said() -> None:
    dataset = make().replace(provenance=Provenance(spec_inferred=True))
    assert list(faults(dataset)) == ["guessed-spaces"]


def test_many_rows_are_counted_and_the_first_named() -> None:
    dataset = make()
    dataset.reward[:] = np.nan
    found = faults(dataset)["not-finite"]
    assert (found.count, found.rows) == (23, tuple(range(10)))
    assert "(rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...)" in str(found)


def test_one_row_is_enough_for_every_check() -> None:
    assert lint(count_up((1,), (True,))) == []
    assert lint(with_stored_successors(count_up((1,), (False,)))) == []
