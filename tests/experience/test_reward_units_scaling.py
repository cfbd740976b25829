import copy

import pytest
import torch

from rl_training.core import Transition, tree_map
from rl_training.experience import RewardScaling
from tests.rollouts import random_steps


def constant_steps(reward: float, num_steps: int, num_envs: int = 2) -> Transition:
    """Steps of an episode that never ends."""
    steps = random_steps(num_steps, num_envs, done_rate=0.0)
    return steps._replace(reward=torch.full((num_steps, num_envs), reward))


def part(steps: Transition, start: int, end: int) -> Transition:
    return tree_map(lambda x: x[start:end], steps)


@pytest.mark.parametrize(("reward", "gamma"), [(1.0, 0.9), (-0.5, 0.99), (3.0, 0.0)])
def test_the_return_of_a_constant_reward(reward: float, gamma: float) -> None:
    scaling = RewardScaling(gamma, clip=10.0)
    for _ in range(5):  # carried on from rollout to rollout
        scaling.scale(constant_steps(reward, 500))
    assert scaling.last.tolist() == pytest.approx([reward / (1 - gamma)] * 2)
    assert scaling.moments.mean.item() == pytest.approx(reward / (1 - gamma), rel=0.05)


def test_equals_the_loop_over_steps() -> None:
    gamma, num_envs = 0.9, 3
    scaling = RewardScaling(gamma, clip=10.0)
    running, seen = [0.0] * num_envs, []
    for rollout in range(4):
        steps = random_steps(25, num_envs, seed=rollout)
        for t in range(25):
            for env in range(num_envs):
                running[env] = gamma * running[env] + steps.reward[t, env].item()
                seen.append(running[env])
                if steps.terminated[t, env] or steps.truncated[t, env]:
                    running[env] = 0.0
        # The rollout is scaled by the statistics that include it; the mean is not subtracted.
        deviation = torch.tensor(seen, dtype=torch.float64).std(correction=0)
        expected = (steps.reward / deviation).clamp(-10, 10).float()
        torch.testing.assert_close(scaling.scale(steps).reward, expected)
    assert scaling.moments.count.item() == 300


def test_sign_and_zero_are_preserved() -> None:
    steps = random_steps(50, 2)
    steps = steps._replace(reward=torch.where(steps.log_prob > -0.3, 0.0, steps.reward + 0.5))
    scaled = RewardScaling(0.99, clip=10.0).scale(steps)
    assert torch.equal(scaled.reward.sign(), steps.reward.sign())
    assert (steps.reward == 0).any()
    assert not torch.equal(scaled.reward, steps.reward)


def test_the_scale_of_the_reward_goes() -> None:
    steps = random_steps(50, 2)
    small = RewardScaling(0.99, clip=10.0).scale(steps).reward
    large = RewardScaling(0.99, clip=10.0).scale(steps._replace(reward=1000 * steps.reward)).reward
    torch.testing.assert_close(small, large, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_the_return_starts_afresh_after_an_episode(flag: str) -> None:
    steps = constant_steps(1.0, 6, num_envs=1)
    getattr(steps, flag)[3] = True
    scaling = RewardScaling(0.5, clip=10.0)
    scaling.scale(steps)
    assert scaling.last.tolist() == [1.5]  # two steps of the new episode
    getattr(steps, flag)[:] = False
    getattr(steps, flag)[5] = True
    scaling.scale(steps)
    scaling.scale(constant_steps(1.0, 1, num_envs=1))
    assert scaling.last.tolist() == [1.0]  # an episode that ended with the rollout does not leak into the next


def test_result_is_clipped() -> None:
    steps = constant_steps(0.01, 100)
    steps.reward[50] = 1e3
    steps.reward[60] = -1e3
    scaled = RewardScaling(0.9, clip=0.5).scale(steps).reward
    assert (scaled.max().item(), scaled.min().item()) == (0.5, -0.5)


def test_only_the_reward_changes() -> None:
    steps = random_steps(10, 2)
    raw = steps.reward.clone()
    scaled = RewardScaling(0.9, clip=10.0).scale(steps)
    assert torch.equal(steps.reward, raw)
    assert scaled.reward.dtype == torch.float32
    for name in set(Transition._fields) - {"reward"}:
        assert getattr(scaled, name) is getattr(steps, name)


def test_rows_that_are_not_valid_are_not_counted() -> None:
    # A backend that resets on its own step: one step of reward 0, before the new episode, that never happened.
    steps = constant_steps(1.0, 5, num_envs=1)
    steps.terminated[1] = True
    with_reset = steps._replace(reward=torch.tensor([[1.0], [1.0], [0.0], [1.0], [1.0]]))
    with_reset.valid[2] = False
    without_reset = tree_map(lambda x: x[torch.tensor([0, 1, 3, 4])], with_reset)
    one, other = RewardScaling(0.9, clip=10.0), RewardScaling(0.9, clip=10.0)
    one.scale(with_reset)
    other.scale(without_reset)
    assert one.moments.count.item() == 4
    torch.testing.assert_close(tuple(one.moments), tuple(other.moments))
    assert torch.equal(one.last, other.last)


def test_a_rollout_without_valid_rows_changes_no_statistics() -> None:
    scaling = RewardScaling(0.9, clip=10.0)
    scaling.scale(random_steps(10, 2))
    before = scaling.moments
    nothing = random_steps(1, 2, seed=1)
    scaling.scale(nothing._replace(valid=torch.zeros(1, 2, dtype=torch.bool)))
    assert scaling.moments == before


def test_state_round_trip() -> None:
    one, other = RewardScaling(0.9, clip=10.0), RewardScaling(0.9, clip=10.0)
    one.scale(random_steps(13, 3, seed=0))
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    assert torch.equal(one.scale(random_steps(13, 3, seed=1)).reward, other.scale(random_steps(13, 3, seed=1)).reward)
    assert one.moments == other.moments


def test_state_before_the_first_rollout() -> None:
    one, other = RewardScaling(0.9, clip=10.0), RewardScaling(0.9, clip=10.0)
    other.scale(random_steps(5, 3))
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    assert torch.equal(one.scale(random_steps(13, 3)).reward, other.scale(random_steps(13, 3)).reward)


def test_returns_are_the_same_in_chunks_and_in_one_piece() -> None:
    steps, whole, pieces = random_steps(20, 3), RewardScaling(0.9, clip=10.0), RewardScaling(0.9, clip=10.0)
    whole.scale(steps)
    for start, end in ((0, 1), (1, 8), (8, 20)):
        last = pieces.scale(part(steps, start, end))
    torch.testing.assert_close(tuple(pieces.moments), tuple(whole.moments))
    torch.testing.assert_close(pieces.last, whole.last)
    # A chunk is scaled after it was counted: the last one by the statistics of all.
    torch.testing.assert_close(last.reward, (steps.reward[8:] / (whole.moments.var + 1e-8).sqrt()).float())
