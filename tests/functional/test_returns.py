import pytest
import torch
from torch import Tensor

from rl_training.functional import discounted_returns, gae, reverse_scan


def column(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64).unsqueeze(-1)


def flags(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.bool).unsqueeze(-1)


def random_rollout(num_steps: int, num_envs: int = 3) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Reward, value, next value, terminated, truncated; some rows have both flags."""
    gen = torch.Generator().manual_seed(num_steps)
    reward, value, next_value = torch.randn(3, num_steps, num_envs, generator=gen, dtype=torch.float64)
    terminated, truncated = torch.rand(2, num_steps, num_envs, generator=gen) < 0.25
    return reward, value, next_value, terminated, truncated


@pytest.mark.parametrize("num_steps", [1, 2, 3, 5, 7, 8, 13, 64, 100])
def test_reverse_scan_solves_the_recurrence(num_steps: int) -> None:
    gen = torch.Generator().manual_seed(num_steps)
    value, decay = torch.randn(2, num_steps, 4, generator=gen, dtype=torch.float64)
    expected, later = torch.empty_like(value), torch.zeros(4, dtype=torch.float64)
    for t in reversed(range(num_steps)):
        later = expected[t] = value[t] + decay[t] * later
    torch.testing.assert_close(reverse_scan(value, decay), expected, rtol=1e-12, atol=1e-12)


def test_reverse_scan_leaves_its_input_alone() -> None:
    value, decay = torch.ones(5, 1), torch.full((5, 1), 0.5)
    reverse_scan(value, decay)
    assert torch.equal(value, torch.ones(5, 1))
    assert torch.equal(decay, torch.full((5, 1), 0.5))


@pytest.mark.parametrize(("last_terminated", "expected"), [(False, (4.80272, 4.726, 3.3)), (True, (3.8696, 3.43, 1.5))])
def test_gae_known_answer(last_terminated: bool, expected: tuple[float, ...]) -> None:
    reward, value, next_value = column(1, 2, 3), column(0.5, 1, 1.5), column(1, 1.5, 2)
    advantage = gae(
        reward,
        value,
        next_value,
        flags(0, 0, last_terminated),
        flags(0, 0, 0),
        gamma=0.9,
        gae_lambda=0.8,
    )
    torch.testing.assert_close(advantage, column(*expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("num_steps", [1, 6, 37])
def test_gae_equals_the_loop_over_time(num_steps: int) -> None:
    reward, value, next_value, terminated, truncated = random_rollout(num_steps)
    expected, later = torch.empty_like(reward), torch.zeros(3, dtype=torch.float64)
    for t in reversed(range(num_steps)):
        for env in range(3):
            bootstrap = 0.0 if terminated[t, env] else next_value[t, env]
            carried = 0.0 if terminated[t, env] or truncated[t, env] else later[env]
            later[env] = reward[t, env] + 0.97 * bootstrap - value[t, env] + 0.97 * 0.9 * carried
        expected[t] = later
    advantage = gae(reward, value, next_value, terminated, truncated, gamma=0.97, gae_lambda=0.9)
    torch.testing.assert_close(advantage, expected, rtol=1e-12, atol=1e-12)


def test_lambda_one_is_monte_carlo_minus_value() -> None:
    reward, value = column(1, -2, 3, 0.5), column(0.3, 0.1, -0.2, 0.7)
    next_value = torch.cat([value[1:], column(9.0)])  # 9 must not count: the last step terminates
    advantage = gae(reward, value, next_value, flags(0, 0, 0, 1), flags(0, 0, 0, 0), gamma=0.9, gae_lambda=1.0)
    returns = column(1 - 2 * 0.9 + 3 * 0.81 + 0.5 * 0.729, -2 + 3 * 0.9 + 0.5 * 0.81, 3 + 0.5 * 0.9, 0.5)
    torch.testing.assert_close(advantage, returns - value, rtol=0, atol=1e-12)


def test_lambda_zero_is_the_td_error() -> None:
    reward, value, next_value, terminated, truncated = random_rollout(20)
    advantage = gae(reward, value, next_value, terminated, truncated, gamma=0.9, gae_lambda=0.0)
    expected = reward + 0.9 * torch.where(terminated, 0.0, next_value) - value
    torch.testing.assert_close(advantage, expected, rtol=0, atol=1e-12)


def test_truncation_bootstraps_and_cuts() -> None:
    advantage = gae(
        column(1, 2),
        column(0.5, 0.25),
        column(4, 8),
        flags(0, 0),
        flags(1, 0),
        gamma=0.9,
        gae_lambda=0.8,
    )
    # The second row belongs to another episode: the first sees its own successor's value and nothing later.
    torch.testing.assert_close(advantage, column(1 + 0.9 * 4 - 0.5, 2 + 0.9 * 8 - 0.25), rtol=0, atol=1e-12)


def test_both_flags_act_as_terminated() -> None:
    reward, value, next_value, terminated, truncated = random_rollout(30)
    assert (terminated & truncated).any()
    only_terminated = truncated & ~terminated
    settings = {"gamma": 0.9, "gae_lambda": 0.8}
    both = gae(reward, value, next_value, terminated, truncated, **settings)
    assert torch.equal(both, gae(reward, value, next_value, terminated, only_terminated, **settings))


def test_fixed_points_of_a_time_limited_constant_reward() -> None:
    # One state, reward 1, gamma 0.9, an episode is cut after 5 steps: V = 10; as if terminated, V = 3.571.
    one, never, last = torch.ones(5, 1, dtype=torch.float64), flags(0, 0, 0, 0, 0), flags(0, 0, 0, 0, 1)
    settings = {"gamma": 0.9, "gae_lambda": 0.0}
    cut = gae(one, 10 * one, 10 * one, never, last, **settings)
    torch.testing.assert_close(cut, torch.zeros_like(cut), rtol=0, atol=1e-12)
    wrong = one / (1 - 0.9 * 4 / 5)
    ended = gae(one, wrong, wrong, last, never, **settings)
    assert ended.mean().item() == pytest.approx(0.0, abs=1e-12)
    by_time = gae(one, 0 * one, 0 * one, last, never, gamma=0.9, gae_lambda=1.0)
    assert by_time[0].item() == pytest.approx(4.0951)


@pytest.mark.parametrize("num_steps", [1, 3, 12, 33])
def test_discounted_returns_equal_the_loop(num_steps: int) -> None:
    gen = torch.Generator().manual_seed(num_steps)
    reward = torch.randn(num_steps, 3, generator=gen, dtype=torch.float64)
    last = torch.randn(3, generator=gen, dtype=torch.float64)
    first = torch.rand(num_steps, 3, generator=gen) < 0.2
    first[0] = torch.tensor([True, False, False])  # one environment starts afresh, two carry `last` on
    expected, running = torch.empty_like(reward), last.clone()
    for t in range(num_steps):
        running = expected[t] = reward[t] + 0.9 * torch.where(first[t], 0.0, running)
    result = discounted_returns(reward, last, first, gamma=0.9)
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)


def test_discounted_returns_leave_the_reward_alone() -> None:
    reward = torch.ones(4, 1)
    discounted_returns(reward, torch.full((1,), 5.0), flags(0, 0, 0, 0), gamma=0.9)
    assert torch.equal(reward, torch.ones(4, 1))
