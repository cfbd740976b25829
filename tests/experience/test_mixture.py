"""Batches of two sources: how many rows of each, in which place, and what is logged of them."""

import numpy as np
import pytest
import torch

from rl_training.core import ActionConverter, Box, Discrete, Pass, Spec, StepBatch, Transition
from rl_training.data import Dataset
from rl_training.experience import LoggedSteps, Mixture
from rl_training.experience.mixture import Pool
from rl_training.experience.sequences import Sequences
from tests.replays import build_replay

SPEC = Spec(Box((1,), (-np.inf,), (np.inf,)), Discrete(3))
OWN, LOGGED = 7.0, -1.0  # rewards: whose a row is


def dataset(rows: int = 11) -> Dataset:
    ended = np.zeros(rows, bool)
    ended[-1] = True
    return Dataset.from_arrays(
        obs=np.arange(rows, dtype=np.float32)[:, None],
        action=np.arange(rows) % 3,
        reward=np.full(rows, LOGGED),
        terminated=ended,
        truncated=np.zeros(rows, bool),
        next_obs=np.arange(1, rows + 1, dtype=np.float32)[:, None],
        spec=SPEC,
    )


def own_steps(num: int = 16) -> Transition:
    obs = 100 + torch.arange(num + 1.0)[:, None, None]
    no = torch.zeros(num, 1, dtype=torch.bool)
    zeros, reward = torch.zeros(num, 1), torch.full((num, 1), OWN)
    return Transition(obs[:-1], zeros.long(), zeros, reward, obs[1:], no, no, ~no, {})


def make(ratio: float, *, n_steps: int = 1) -> Mixture:
    data = LoggedSteps(dataset(), ActionConverter(SPEC.action, squashed=False), gamma=0.5, seed=1, n_steps=n_steps)
    settings = {"buffer_size": 64, "learning_starts": 16, "train_freq": 4, "gamma": 0.5, "seed": 2, "n_steps": n_steps}
    mixture = Mixture(build_replay(SPEC, 1, **settings), data, ratio)
    mixture.add(own_steps())
    return mixture


def batches(mixture: Mixture, num: int = 5, batch_size: int = 8) -> list[StepBatch]:
    storage, _ = mixture.prepare(Quiet())
    (epoch,) = mixture.draws(Pass(num, batch_size))
    mixture.count_learned([Pass(num, batch_size)])
    return [mixture.gather(storage, draw) for draw in epoch]


class Quiet:
    observes = False


@pytest.mark.parametrize(
    ("ratio", "batch_size", "num"),
    [(0.5, 8, 4), (0.5, 256, 128), (0.25, 8, 2), (0.75, 8, 6), (0.1, 8, 1), (0.01, 8, 0), (1.0, 8, 8), (0.0, 8, 0)],
)
def test_every_batch_holds_exactly_so_many_logged_rows(ratio: float, batch_size: int, num: int) -> None:
    mixture = make(ratio)
    for batch in batches(mixture, batch_size=batch_size):
        assert batch.reward.tolist() == [LOGGED] * num + [OWN] * (batch_size - num)
        assert batch.columns["logged"].tolist() == [1.0] * num + [0.0] * (batch_size - num)
        assert batch.weight.tolist() == [1.0] * batch_size
        assert ((batch.obs[:, 0] < 50).sum(), len(batch.obs)) == (num, batch_size)
        assert batch.action.dtype == torch.int64
        assert mixture.describe(batch, {})["offline_batch_ratio"] == pytest.approx(num / batch_size)
    assert (mixture.logged.drawn, mixture.replay.drawn) == (5 * num, 5 * (batch_size - num))


def test_rows_of_either_side_are_those_that_the_sides_would_draw() -> None:
    both, alone = make(0.5), make(0.5)
    for batch in batches(both):
        logged = alone.logged.gather(alone.logged.columns, alone.logged.draw(4))
        own = alone.replay.gather(alone.replay.columns, alone.replay.draw(4))
        for name in ("obs", "action", "reward", "discount", "next_obs"):
            assert torch.equal(getattr(batch, name), torch.cat([getattr(logged, name), getattr(own, name)])), name


def test_all_rows_of_the_data_and_all_steps_are_drawn() -> None:
    seen = {row for batch in batches(make(0.5), num=60) for row in batch.obs[:, 0].tolist()}
    assert seen == {*range(11), *range(100, 116)}


def test_n_step_returns_end_with_the_episode_on_either_side() -> None:
    for batch in batches(make(0.5, n_steps=2), num=20):
        last = batch.obs[:, 0] == 10  # the dataset's terminated row
        newest = batch.obs[:, 0] == 115
        single = last | newest
        assert torch.equal(batch.reward[:4], torch.where(last[:4], LOGGED, LOGGED * 1.5))
        assert torch.equal(batch.reward[4:], torch.where(newest[4:], OWN, OWN * 1.5))
        ends = last | (batch.obs[:, 0] == 9)
        assert torch.equal(batch.discount, torch.where(ends, 0.0, torch.where(single, 0.5, 0.25)))


def test_metrics_are_kept_apart_by_side() -> None:
    mixture = make(0.25)
    (batch,) = batches(mixture, num=1)
    batch = batch._replace(reward=torch.tensor([1.0, 3.0, 5.0, 5.0, 5.0, 5.0, 5.0, 11.0]))
    td_error = torch.tensor([0.5, 1.5, 2.0, 2.0, 2.0, 2.0, 2.0, 8.0])
    found = {name: value.item() for name, value in mixture.describe(batch, {"priority": td_error}).items()}
    assert found == {
        "reward_logged": 2.0,
        "reward_own": 6.0,
        "td_error_logged": 1.0,
        "td_error_own": 3.0,
        "offline_batch_ratio": 0.25,
    }
    assert set(mixture.describe(batch, {})) == {"reward_logged", "reward_own", "offline_batch_ratio"}
    ignored = batch._replace(weight=torch.tensor([1.0, 0.0, *[1.0] * 5, 0.0]))  # rows that do not count
    found = mixture.describe(ignored, {"priority": td_error})
    assert (found["reward_logged"].item(), found["reward_own"].item()) == (1.0, 5.0)


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_metrics_of_an_absent_side_are_numbers(ratio: float) -> None:
    mixture = make(ratio)
    (batch,) = batches(mixture, num=1)
    found = mixture.describe(batch, {"priority": torch.ones(8)})
    assert all(torch.isfinite(value) for value in found.values())
    assert found["td_error_logged" if ratio else "td_error_own"].item() == 1.0


def test_collecting_is_the_replays_affair() -> None:
    mixture = make(0.5)
    assert mixture.wanted_steps == mixture.replay.wanted_steps == 0
    assert mixture.replay.added == 16
    mixture.settle(Quiet())
    mixture.count_learned(())
    assert mixture.wanted_steps == 4
    fresh = make(0.5)
    fresh.replay.added = 0
    assert fresh.warming_up
    assert mixture.sample(3).reward.tolist() == [OWN] * 3
    assert set(mixture.health()) == {"replay_age", "replay_reuse", "data_reuse"}


def test_state_holds_the_replay_alone() -> None:
    """The trainer keeps the data's state, which serves updates from data alone too."""
    mixture, other = make(0.5), make(0.5)
    batches(mixture)
    assert mixture.state_dict().keys() == mixture.replay.state_dict().keys()
    other.load_state_dict(mixture.state_dict())
    other.logged.load_state_dict(mixture.logged.state_dict())
    ours, theirs = batches(mixture), batches(other)
    assert all(torch.equal(a.obs, b.obs) for a, b in zip(ours, theirs, strict=True))


def pool(sequences: Sequences | None = None) -> Pool:
    convert = ActionConverter(SPEC.action, squashed=False)
    data = LoggedSteps(dataset(), convert, gamma=0.5, seed=1, sequences=sequences)
    settings = {"buffer_size": 64, "learning_starts": 16, "train_freq": 4, "gamma": 0.5, "seed": 2}
    return Pool(build_replay(SPEC, 1, sequences=sequences, **settings), data)


def test_in_a_pool_all_rows_are_equally_likely() -> None:
    mixture = pool()
    (empty,) = batches(mixture, 1, 100)
    assert (empty.columns["logged"] == 1).all()  # nothing else is there yet
    mixture.add(own_steps())
    (batch,) = batches(mixture, 1, 27_000)  # 11 logged rows, 16 own ones
    assert torch.equal(batch.columns["logged"] == 1, batch.reward == LOGGED)
    found, times = batch.obs[:, 0].unique(return_counts=True)
    assert found.tolist() == [*range(11), *range(100, 116)]
    assert (times.sub(1_000).abs() < 5 * 31).all()
    assert torch.equal(batch.next_obs, batch.obs + 1)
    assert mixture.describe(batch, {})["offline_batch_ratio"].item() == pytest.approx(11 / 27, abs=0.02)
    assert mixture.logged.drawn == 100 + 11_000


def test_pieces_of_a_pool_are_of_one_side_each() -> None:
    mixture = pool(Sequences(4))
    mixture.add(own_steps())
    (batch,) = batches(mixture, 1, 400)
    assert batch.weight.shape == batch.columns["logged"].shape == (4, 100)
    assert torch.equal(
        (batch.columns["logged"] == 1) & (batch.weight > 0), (batch.reward == LOGGED) & (batch.weight > 0)
    )
    assert 0 < batch.columns["logged"].mean() < 1
