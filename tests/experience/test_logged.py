"""Steps of a dataset, drawn: the same numbers as the dataset's own views, whatever layout it is stored in."""

from pathlib import Path

import numpy as np
import pytest
import torch

from rl_training import DQN
from rl_training.core import ActionConverter, Pass, StepBatch, tree_leaves, tree_map
from rl_training.data import Dataset
from rl_training.experience import LoggedSteps
from tests.data.making import count_up, make

GAMMA = 0.9
both_layouts = pytest.mark.parametrize("stored", [False, True], ids=["last_obs", "next_obs"])


def logged(dataset: Dataset, *, n_steps: int = 1, seed: int = 0, squashed: bool = False) -> LoggedSteps:
    convert = ActionConverter(dataset.spec.action, squashed=squashed)
    return LoggedSteps(dataset, convert, gamma=GAMMA, seed=seed, n_steps=n_steps)


def all_rows(experience: LoggedSteps) -> StepBatch:
    """Every row once, in order."""
    num = experience.num_rows
    draw = (torch.arange(num, dtype=torch.float64) + 0.5) / num
    return experience.gather(experience.columns, draw)


@both_layouts
@pytest.mark.parametrize("n_steps", [1, 2, 3, 20])
@pytest.mark.parametrize(
    ("obs", "action"), [("box", "box"), ("dict", "shifted"), ("image", "bits"), ("discrete", "several")]
)
def test_a_batch_is_what_the_dataset_says_of_its_rows(stored: bool, n_steps: int, obs: str, action: str) -> None:
    dataset = make(obs, action, stored=stored)
    batch, rows = all_rows(logged(dataset, n_steps=n_steps)), np.arange(len(dataset))
    expected = dataset.n_step(n_steps, GAMMA)
    np.testing.assert_allclose(batch.reward, expected.reward, rtol=1e-5)
    np.testing.assert_allclose(batch.discount, expected.discount, rtol=1e-5)
    wanted = [dataset.obs, dataset.successors(expected.last)]
    for found, right in zip((batch.obs, batch.next_obs), wanted, strict=True):
        assert isinstance(found, dict) == (obs == "dict")
        tree_map(lambda a, b: np.testing.assert_array_equal(a, b) or a, found, right)
        assert {leaf.shape[0] for leaf in tree_leaves(found)} == {len(dataset)}
    assert batch.weight.tolist() == [1.0] * len(dataset)
    assert batch.columns == {}
    start = dataset.spec.action.start if action == "shifted" else 0
    np.testing.assert_array_equal(batch.action, dataset.action[rows] - start)


def test_known_returns_discounts_and_successors() -> None:
    """Episodes of three steps (terminated) and two (cut): only the first ends without a future."""
    batch = all_rows(logged(count_up()))
    assert batch.reward.tolist() == [1, 2, 3, 4, 5]
    torch.testing.assert_close(batch.discount, torch.tensor([0.9, 0.9, 0.0, 0.9, 0.9]))
    assert batch.next_obs.flatten().tolist() == [1, 2, 100, 4, 101]
    batch = all_rows(logged(count_up(), n_steps=2))
    torch.testing.assert_close(batch.reward, torch.tensor([2.8, 4.7, 3.0, 8.5, 5.0]))
    torch.testing.assert_close(batch.discount, torch.tensor([0.81, 0.0, 0.0, 0.81, 0.9]))
    assert batch.next_obs.flatten().tolist() == [2, 100, 100, 101, 101]


def test_an_end_that_nobody_marked_is_cut() -> None:
    dataset = count_up()
    ended = np.zeros(5, bool)
    columns = {"obs": dataset.obs, "action": dataset.action, "reward": dataset.reward}
    open_end = Dataset.from_arrays(**columns, terminated=ended, truncated=ended, next_obs=dataset.obs + 1)
    batch = all_rows(logged(open_end, n_steps=9))
    torch.testing.assert_close(batch.discount, torch.tensor([0.9**5, 0.9**4, 0.9**3, 0.9**2, 0.9]))
    assert batch.next_obs.flatten().tolist() == [5] * 5


def test_actions_are_in_the_policys_units() -> None:
    dataset = make("box", "box")  # bounds (-2, -1) to (2, 1)
    np.testing.assert_allclose(all_rows(logged(dataset, squashed=True)).action, dataset.action / [2, 1], atol=1e-6)
    np.testing.assert_array_equal(all_rows(logged(dataset)).action, dataset.action)


def test_every_row_is_drawn_equally_often() -> None:
    dataset = make()
    experience = logged(dataset)
    (epoch,) = experience.draws(Pass(400, 230))
    experience.count_learned([Pass(400, 230)])
    counts = sum(torch.bincount((draw * len(dataset)).long(), minlength=len(dataset)) for draw in epoch)
    expected = 400 * 230 / len(dataset)
    assert counts.sum() == 400 * 230
    assert ((counts - expected).abs() < 5 * expected**0.5).all()
    assert experience.health() == {"data_reuse": 400 * 230 / len(dataset)}


def test_the_ends_of_the_draw_are_the_first_and_the_last_row() -> None:
    experience = logged(count_up())
    batch = experience.gather(experience.columns, torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64))
    assert batch.obs.flatten().tolist() == [0, 4]


def test_it_asks_for_no_steps_and_takes_none() -> None:
    experience = logged(make())
    assert experience.wanted_steps == 0
    with pytest.raises(TypeError, match="LoggedSteps takes no steps"):
        experience.add(make().take(np.arange(3)))


@both_layouts
def test_a_mapped_folder_stays_on_disk(stored: bool, tmp_path: Path) -> None:
    dataset = make("dict", "box", stored=stored)
    dataset.save(tmp_path / "columns")
    mapped = Dataset.open(tmp_path / "columns")
    experience = logged(mapped)
    after = mapped.next_obs if stored else mapped.last_obs
    pairs = [(experience.columns.action, mapped.action), (experience.columns.reward, mapped.reward)]
    pairs += [(experience.columns.obs[key], mapped.obs[key]) for key in mapped.obs]
    pairs += [(experience.columns.after[key], after[key]) for key in after]
    for tensor, column in pairs:
        assert isinstance(column, np.memmap) or isinstance(column.base, np.memmap)
        assert tensor.data_ptr() == column.ctypes.data
    ours, theirs = all_rows(experience), all_rows(logged(dataset))
    tree_map(lambda a, b: torch.testing.assert_close(a, b, rtol=0, atol=0) or a, ours, theirs)


def test_statistics_are_those_of_all_rows_and_taken_once() -> None:
    dataset = make("box", "discrete")
    algorithm = DQN(dataset=dataset, normalize_observation=True, compile=False).algorithm
    experience = logged(dataset)
    for _ in range(2):
        storage, metrics = experience.prepare(algorithm)
        assert storage is experience.columns
        assert metrics == {}
    normalised = algorithm.normalizer(torch.from_numpy(dataset.obs))
    torch.testing.assert_close(normalised.mean(0), torch.zeros(3), rtol=0, atol=1e-4)
    torch.testing.assert_close(normalised.std(0, correction=0), torch.ones(3), rtol=0, atol=1e-3)


def draws(experience: LoggedSteps, num: int = 3) -> torch.Tensor:
    (epoch,) = experience.draws(Pass(num, 5))
    experience.count_learned([Pass(num, 5)])
    return torch.stack(list(epoch))


def test_state_goes_on_with_the_same_draws() -> None:
    dataset = make()
    experience, other = logged(dataset, seed=1), logged(dataset, seed=2)
    assert not torch.equal(draws(logged(dataset, seed=1)), draws(logged(dataset, seed=2)))
    draws(experience)
    experience.observed = True
    state = experience.state_dict()
    following = draws(experience)
    other.load_state_dict(state)
    assert (other.drawn, other.observed) == (15, True)
    assert torch.equal(draws(other), following)
    assert other.state_dict()["counts"] == experience.state_dict()["counts"] == [30, 1, len(dataset)]


def test_the_state_of_another_size_is_refused() -> None:
    state = logged(make()).state_dict()
    with pytest.raises(ValueError, match="learned from a dataset of 23 rows, and this one has 5: go on with the same"):
        logged(count_up()).load_state_dict(state)


def test_a_sample_leaves_the_draws_as_they_are() -> None:
    experience = logged(make())
    before = experience.state_dict()["order"].clone()
    assert experience.sample(7).reward.shape == (7,)
    assert torch.equal(experience.state_dict()["order"], before)
    assert experience.drawn == 0
