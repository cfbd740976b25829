"""Columns that an algorithm declares: what stores give of them, and what they refuse."""

import copy

import numpy as np
import pytest
import torch

from rl_training.core import ActionConverter, Column, Transition, tree_leaves
from rl_training.data import Dataset
from rl_training.experience import LoggedSteps, Mixture, allocation
from rl_training.experience.sequences import Sequences
from rl_training.runtime.cuda_graph import CudaGraph
from tests.data.making import count_up, make
from tests.experience.test_logged import GAMMA, all_rows
from tests.experience.test_mixture import Quiet
from tests.experience.test_replay import draw, make_replay, part, tagged_steps
from tests.gpu import needs_gpu

NEXT_ACTION = Column("next_action", source="episode")
LOG_PROB = Column("log_prob", source="policy")


def logged(dataset: Dataset, *columns: Column, n_steps: int = 1, squashed: bool = False) -> LoggedSteps:
    convert = ActionConverter(dataset.spec.action, squashed=squashed)
    return LoggedSteps(dataset, convert, gamma=GAMMA, seed=0, n_steps=n_steps, columns=columns)


@pytest.mark.parametrize("squashed", [False, True])
@pytest.mark.parametrize("action", ["box", "shifted", "several"])
@pytest.mark.parametrize("stored", [False, True], ids=["last_obs", "next_obs"])
def test_the_next_action_is_what_the_dataset_says(stored: bool, action: str, squashed: bool) -> None:
    dataset = make("box", action, stored=stored)
    experience, following = logged(dataset, NEXT_ACTION, squashed=squashed), dataset.next_action()
    batch = all_rows(experience)
    expected = experience.convert.inverse(torch.from_numpy(following.action))
    assert torch.equal(batch.columns["next_action"], expected)
    learned = following.known | dataset.terminated  # a cut episode was not over, but nobody knows what it did next
    assert torch.equal(batch.weight, torch.from_numpy(learned).float())
    assert not batch.discount[torch.from_numpy(dataset.terminated)].any()
    assert dataset.truncated.any()


def test_the_next_action_is_that_after_n_steps() -> None:
    batch = all_rows(logged(count_up((4, 3)), NEXT_ACTION, n_steps=2))  # row i does i % 4; terminated, cut
    assert batch.columns["next_action"][[0, 1, 4]].tolist() == [2, 3, 2]
    assert batch.weight.tolist() == [1, 1, 1, 1, 1, 0, 0]
    assert batch.discount[2:4].tolist() == [0, 0]


def test_what_follows_from_the_episode_and_what_the_data_have() -> None:
    dataset = make("dict", "discrete", log_prob=True, extras=True)
    columns = (
        Column("return_to_go", source="episode"),
        Column("steps_left", dtype=torch.int64, source="episode"),
        Column("first", dtype=torch.bool, source="policy"),
        Column("cost", (2, 3)),
        Column("task", dtype=torch.int64),
        LOG_PROB,
    )
    found = all_rows(logged(dataset, *columns)).columns
    assert set(found) == {column.name for column in columns}
    np.testing.assert_allclose(found["return_to_go"], dataset.return_to_go(GAMMA), rtol=1e-6)
    assert found["steps_left"].tolist() == [4, 3, 2, 1, 1, *range(13, 0, -1), 5, 4, 3, 2, 1]
    assert found["first"].nonzero().flatten().tolist() == dataset.episodes().start.tolist()
    np.testing.assert_allclose(found["cost"], dataset.extras["cost"], rtol=1e-6)
    assert (found["cost"].dtype, found["task"].dtype) == (torch.float32, torch.int64)
    assert torch.equal(found["log_prob"], torch.from_numpy(dataset.log_prob))


def test_log_probabilities_are_in_the_policys_units() -> None:
    """Bounds (-2, -1) to (2, 1): a density over [-1, 1] is twice as high."""
    dataset = make("box", "box", log_prob=True)
    found = all_rows(logged(dataset, LOG_PROB, squashed=True)).columns["log_prob"]
    np.testing.assert_allclose(found, dataset.log_prob + np.log(2), rtol=1e-5)


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (LOG_PROB, "'log_prob' of every step, which this dataset cannot give: it does not know the log-probability"),
        (Column("goal", (2,)), "'goal' .* its extras are: cost, task; add extras/goal"),
        (Column("cost", (2,)), r"extras/cost has shape \(2, 3\), not \(2,\)"),
        (Column("age", source="episode"), "it is not one of next_action, return_to_go, steps_left"),
    ],
)
def test_a_dataset_refuses_what_it_does_not_have(column: Column, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        logged(make("dict", "discrete", extras=True), column)


MEMORY = Column("memory0", (2,), source="policy")


def with_columns(steps: Transition) -> Transition:
    """The tag of every step, as a log-probability and as a memory of two numbers."""
    tag = steps.obs[..., 0]
    return steps._replace(log_prob=-tag, columns={"memory0": torch.stack([tag, 2 * tag], -1), "unused": tag})


@pytest.mark.parametrize("num_envs", [1, 3])  # single steps of one environment are written by code of their own
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_replay_keeps_what_the_policy_gave(num_envs: int, prioritized: bool) -> None:
    steps = with_columns(tagged_steps(80, num_envs, seed=1))
    replay, other = (make_replay(num_envs, 30, columns=(MEMORY, LOG_PROB), prioritized=prioritized) for _ in range(2))
    for start in range(80):
        replay.add(part(steps, start, start + 1))
    other.load_state_dict(copy.deepcopy(replay.state_dict()))
    for one in (replay, other):
        batch = draw(one, 200)
        tag = batch.obs[:, 0]
        counts = batch.weight > 0
        assert torch.equal(batch.columns["log_prob"][counts], -tag[counts])
        assert torch.equal(batch.columns["memory0"][counts], torch.stack([tag, 2 * tag], -1)[counts])
        assert "unused" not in batch.columns


@needs_gpu
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_recording_on_the_gpu_keeps_what_the_policy_gave(prioritized: bool) -> None:
    """Three environments whose steps are written one at a time, which a CUDA graph does from the second on."""
    steps = with_columns(tagged_steps(80, 3, seed=1))
    settings = {"columns": (MEMORY, LOG_PROB), "prioritized": prioritized}
    here, there = make_replay(3, 30, **settings), make_replay(3, 30, **settings, device="cuda")
    there.record(CudaGraph)
    assert there.run_write is not None
    for start in range(80):
        for replay in (here, there):
            replay.add(part(steps, start, start + 1))
    for kept, recorded in zip(tree_leaves(here.columns), tree_leaves(there.columns), strict=True):
        assert torch.equal(kept, recorded.cpu())


def test_the_room_for_declared_columns_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row has 4 bytes of observation, 8 of action, 4 of reward and 1 of flags."""
    monkeypatch.setattr(allocation, "memory_free", lambda device: 20 * 61)
    make_replay(1, 60)
    with pytest.raises(ValueError, match="61 rows of 25 bytes"):
        make_replay(1, 60, columns=(MEMORY,))


@pytest.mark.parametrize("n_steps", [1, 3])
def test_the_next_action_of_a_replay_is_that_of_the_following_step(n_steps: int) -> None:
    steps = tagged_steps(60, 2, seed=3)
    replay = make_replay(2, 50, columns=(NEXT_ACTION,), n_steps=n_steps)
    replay.add(steps)
    batch = draw(replay, 2_000)
    newest = steps.obs[-1].max(), steps.obs[-1].min()
    known = batch.weight > 0
    goes_on = known & (batch.discount > 0)
    assert goes_on.any()
    assert torch.equal(batch.columns["next_action"][goes_on], batch.next_obs[goes_on, 0].long() % 5)  # it does tag % 5
    assert batch.discount[goes_on].tolist() == pytest.approx([GAMMA**n_steps] * int(goes_on.sum()))
    ends = batch.obs[(batch.discount == 0) & known, 0]
    assert len(ends)  # terminated: nothing follows, and it counts
    assert not torch.isin(batch.obs[known, 0], torch.stack(newest)).any()  # what follows is not taken yet
    cut = steps.obs[(steps.truncated & ~steps.terminated)][:, 0]
    assert not torch.isin(batch.obs[known, 0], cut).any()


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (
            Column("steps_left", source="episode"),
            "a replay cannot give: it follows from steps that are not taken yet",
        ),
        (Column("age", source="episode"), "it is not one of next_action, return_to_go, steps_left"),
        (Column("cost"), "environments give it with no step; learn from a dataset that has it"),
    ],
)
def test_a_replay_refuses_what_it_cannot_know(column: Column, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_replay(columns=(column,))


def test_a_mixture_keeps_the_columns_of_both_sides() -> None:
    dataset = count_up((6, 5))
    replay = make_replay(1, 30, columns=(NEXT_ACTION,), spec=dataset.spec)
    replay.add(tagged_steps(20, 1, terminated=0.0, truncated=0.0))
    mixture = Mixture(replay, logged(dataset, NEXT_ACTION), 0.5)
    batch = mixture.gather(mixture.prepare(Quiet())[0], mixture.draw(400))  # pyrefly: ignore
    going = (batch.weight > 0) & (batch.discount > 0)
    wanted = torch.where(batch.columns["logged"] > 0, batch.next_obs[:, 0].long() % 4, batch.next_obs[:, 0].long() % 5)
    assert torch.equal(batch.columns["next_action"][going], wanted[going])
    assert going[:200].any()
    assert going[200:].any()


def test_mixed_sequences_are_side_by_side() -> None:
    dataset = count_up((6, 5))
    replay = make_replay(1, 30, sequences=Sequences(4), spec=dataset.spec)
    replay.add(tagged_steps(20, 1, terminated=0.0, truncated=0.0))
    convert = ActionConverter(dataset.spec.action, squashed=False)
    mixture = Mixture(replay, LoggedSteps(dataset, convert, gamma=0.9, seed=0, sequences=Sequences(4)), 0.25)
    batch = mixture.gather(mixture.prepare(Quiet())[0], mixture.draw(32))  # pyrefly: ignore
    assert batch.weight.shape == (4, 8)
    assert batch.columns["logged"].tolist() == [[1, 1, 0, 0, 0, 0, 0, 0]] * 4
    assert batch.obs[:, :, 0].diff(dim=0)[(batch.weight[1:] > 0)].eq(1).all()
