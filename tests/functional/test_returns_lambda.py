import pytest
import torch
from torch import Tensor

from rl_training.functional import lambda_returns

GAMMA = 0.9


def steps(num_steps: int, *, seed: int, end_rate: float = 0.2) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rewards, next values, terminated, truncated [time, env]; both flags may be true."""
    gen = torch.Generator().manual_seed(seed)
    reward, next_value = torch.randn(2, num_steps, 6, generator=gen, dtype=torch.float64)
    terminated, truncated = torch.rand(2, num_steps, 6, generator=gen) < end_rate
    return reward, next_value, terminated, truncated


def n_step_returns(reward: Tensor, value: Tensor, terminated: Tensor, truncated: Tensor, start: int) -> list[float]:
    """The 1-step, 2-step ... returns of one environment from `start`, up to where the episode or the rollout ends."""
    returns, total = [], 0.0
    for t in range(start, len(reward)):
        total += GAMMA ** (t - start) * reward[t].item()
        bootstrap = 0.0 if terminated[t] else GAMMA ** (t - start + 1) * value[t].item()
        returns.append(total + bootstrap)
        if terminated[t] or truncated[t]:
            break
    return returns


def mixture(returns: list[float], lam: float) -> float:
    weights = [(1 - lam) * lam**n for n in range(len(returns) - 1)] + [lam ** (len(returns) - 1)]
    return sum(w * r for w, r in zip(weights, returns, strict=True))


@pytest.mark.parametrize("lam", [0.0, 0.65, 1.0])
@pytest.mark.parametrize("num_steps", [1, 4, 11])
def test_equals_the_mixture_of_n_step_returns(num_steps: int, lam: float) -> None:
    for seed in range(8):
        columns = steps(num_steps, seed=seed)
        expected = [
            [mixture(n_step_returns(*(c[:, env] for c in columns), start), lam) for env in range(6)]
            for start in range(num_steps)
        ]
        result = lambda_returns(*columns, gamma=GAMMA, lam=lam)
        torch.testing.assert_close(result, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)


def test_lambda_zero_is_the_one_step_target() -> None:
    reward, next_value, terminated, truncated = steps(9, seed=1)
    expected = reward + GAMMA * torch.where(terminated, 0.0, next_value)
    result = lambda_returns(reward, next_value, terminated, truncated, gamma=GAMMA, lam=0.0)
    torch.testing.assert_close(result, expected)


def one_env(terminated: list[bool], truncated: list[bool]) -> list[float]:
    """Rewards 1, 2, 3, 4 and a next value of 10 everywhere, lambda 1."""
    flags = (torch.tensor(flag).unsqueeze(-1) for flag in (terminated, truncated))
    reward = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    return lambda_returns(reward, torch.full((4, 1), 10.0), *flags, gamma=GAMMA, lam=1.0).squeeze(-1).tolist()


def test_lambda_one_is_monte_carlo_and_bootstraps_where_the_data_end() -> None:
    no = [False] * 4
    second = [False, True, False, False]

    end = [3 + 0.9 * 13, 13]
    assert one_env(no, no) == pytest.approx([1 + 0.9 * (2 + 0.9 * 14.7), 2 + 0.9 * 14.7, *end])
    assert one_env(second, no) == pytest.approx([1 + 0.9 * 2, 2, *end])  # terminated: nothing follows
    assert one_env(no, second) == pytest.approx([1 + 0.9 * 11, 2 + 9, *end])  # cut: the next value follows
    assert one_env(second, second) == pytest.approx([1 + 0.9 * 2, 2, *end])  # both: terminated
    assert one_env([False] * 3 + [True], no)[-1] == pytest.approx(4)


def test_inputs_are_left_alone() -> None:
    columns = steps(5, seed=2)
    before = [c.clone() for c in columns]
    lambda_returns(*columns, gamma=GAMMA, lam=0.5)
    assert all(torch.equal(a, b) for a, b in zip(columns, before, strict=True))
