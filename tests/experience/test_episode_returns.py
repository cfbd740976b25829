"""What own steps earned: the return up to the end of the episode, and nothing before it has ended."""

import copy
import math

import pytest
import torch

from rl_training.core import Column, StepBatch, Transition
from rl_training.experience import Replay
from tests.experience.test_replay import GAMMA, draw, in_pieces, make_replay, part, tagged_steps

RETURN_TO_GO = Column("return_to_go", source="episode")


def by_hand(steps: Transition, *, cut: bool = False) -> dict[float, float]:
    """The return of every row that can be learned from, by its tag; `cut` ends what is open."""
    found = {}
    for env in range(steps.reward.shape[1]):
        rest = 0.0 if cut else -math.inf
        for t in reversed(range(len(steps.reward))):
            if not steps.valid[t, env]:
                rest = -math.inf
                continue
            ended = bool(steps.terminated[t, env] | steps.truncated[t, env])
            rest = float(steps.reward[t, env]) + GAMMA * (0.0 if ended else rest)
            found[float(steps.obs[t, env, 0])] = rest
    return found


def assert_right(batch: StepBatch, wanted: dict[float, float]) -> None:
    counts = batch.weight > 0
    found = batch.columns["return_to_go"][counts]
    right = torch.tensor([wanted[tag] for tag in batch.obs[counts, 0].tolist()])
    torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-5)
    assert found.isfinite().any()


@pytest.mark.parametrize(("num_envs", "invalid"), [(1, 0.0), (3, 0.5)])
def test_returns_are_those_of_a_loop_over_the_episode(num_envs: int, invalid: float) -> None:
    """A ring that is written round more than twice, in pieces of any length, and read again from its state."""
    steps = tagged_steps(160, num_envs, seed=1, invalid=invalid)
    replay, other = (make_replay(num_envs, 60 * num_envs, columns=(RETURN_TO_GO,)) for _ in range(2))
    for start, end in in_pieces(160):
        replay.add(part(steps, start, end))
        if end > 40:
            assert_right(draw(replay, 200), by_hand(part(steps, 0, end)))
    other.load_state_dict(copy.deepcopy(replay.state_dict()))
    assert torch.equal(stored(other), stored(replay))
    for one in (replay, other):  # the loaded one goes on as the other does
        one.add(part(steps, 0, 10))
    assert torch.equal(stored(other), stored(replay))


def stored(replay: Replay) -> torch.Tensor:
    assert replay.returns is not None
    return replay.columns.returns[replay.ring.rows_between(replay.returns.oldest, replay.columns.written)]


def test_a_cut_ends_open_episodes() -> None:
    steps = tagged_steps(20, 2, terminated=0.0, truncated=0.0)
    replay = make_replay(2, 60, columns=(RETURN_TO_GO,))
    replay.add(steps)
    assert returns(replay).eq(-math.inf).all()
    replay.cut()
    assert_right(draw(replay, 200), by_hand(steps, cut=True))


def returns(replay: Replay) -> torch.Tensor:
    batch = draw(replay, 200)
    return batch.columns["return_to_go"][batch.weight > 0]


def test_rewards_are_in_the_units_that_are_learned_in() -> None:
    steps = tagged_steps(40, 1)
    plain, scaled = (make_replay(1, 60, columns=(RETURN_TO_GO,), reward_scale=scale) for scale in (1.0, 10.0))
    for replay in (plain, scaled):
        replay.add(steps)
    torch.testing.assert_close(scaled.columns.returns, 10 * plain.columns.returns)


def test_it_is_not_recorded_with_the_steps_and_costs_nothing_unless_asked_for() -> None:
    assert make_replay(columns=(RETURN_TO_GO,)).why_not_recorded == "returns are found when episodes end"
    plain = make_replay()
    assert plain.why_not_recorded is None
    assert plain.columns.returns.numel() == 0
