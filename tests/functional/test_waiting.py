"""Advantages and n-step returns of agents that wait."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rl_training.functional import gae
from rl_training.functional.waiting import own_return, waiting_gae

GAMMA, LAM = 0.9, 0.7


def test_an_agent_that_always_acts_has_the_usual_advantages() -> None:
    torch.manual_seed(0)
    reward, value, next_value = torch.randn(3, 20, 4)
    terminated, truncated = torch.rand(2, 20, 4) < 0.2
    always = torch.ones(20, 4, dtype=torch.bool)
    usual = gae(reward, value, next_value, terminated, truncated & ~terminated, gamma=GAMMA, gae_lambda=LAM)
    # Between two actions both take the value of the next row, which is that of the true successor.
    found = waiting_gae(
        reward, value, next_value, terminated, truncated & ~terminated, always, always, gamma=GAMMA, gae_lambda=LAM
    )
    torch.testing.assert_close(found.advantage, usual)
    assert found.counts.all()


def slowly(reward: list, value: list, next_value: list, ends: list, acting: list, acts_after: bool) -> dict[int, float]:
    """The advantages of one agent's actions by row, transition after transition; `ends`: 1 terminated, 2 truncated."""
    transitions, row = [], 0
    while row < len(reward):
        if not acting[row]:
            row += 1
            continue
        start, total = row, 0.0
        while True:
            total += reward[row]
            row += 1
            if ends[row - 1] or row == len(reward) or acting[row]:
                break
        end = ends[row - 1]
        if not end and row == len(reward) and not acts_after:
            break  # cut while it waits
        transitions.append((start, total, 0.0 if end == 1 else next_value[row - 1], bool(end)))
    found, later, joined = {}, 0.0, False
    for start, total, bootstrap, end in reversed(transitions):
        delta = total + GAMMA * bootstrap - value[start]
        later = delta + (GAMMA * LAM * later if joined and not end else 0.0)
        found[start], joined = later, True
    return found


@given(st.integers(0, 10_000))
def test_any_waiting_and_dying_equals_the_plain_computation(seed: int) -> None:
    torch.manual_seed(seed)
    reward, value, next_value = torch.randn(3, 12, 1, dtype=torch.float64)
    ends = torch.tensor([0, 0, 0, 1, 2])[torch.randint(5, (12, 1))]
    acting = torch.rand(12, 1) < 0.5
    next_acting = torch.cat([acting[1:], torch.rand(1, 1) < 0.5])
    found = waiting_gae(
        reward, value, next_value, ends == 1, ends == 2, acting, next_acting, gamma=GAMMA, gae_lambda=LAM
    )
    columns: list[Tensor] = [x[:, 0] for x in (reward, value, next_value, ends, acting)]
    expected = slowly(*(x.tolist() for x in columns), acts_after=bool(next_acting[-1]))
    assert found.counts[:, 0].nonzero().flatten().tolist() == sorted(expected)
    for row, advantage in expected.items():
        torch.testing.assert_close(found.advantage[row, 0], torch.tensor(advantage, dtype=torch.float64))


def own_slowly(reward: list, ends: list, acting: list, num_stored: int, n: int) -> tuple[float, float, int] | None:
    """The reward, discount and length of the n-step return of one agent's action in the first row; None: not known."""
    found, total, scale, times = None, 0.0, 1.0, 0
    for row in range(num_stored):
        total += scale * reward[row]
        if ends[row]:
            return total, 0.0 if ends[row] == 1 else scale * GAMMA, row + 1
        if acting[row + 1]:
            scale, times = scale * GAMMA, times + 1
            found = total, scale, row + 1
            if times == n:
                break
    return found


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_any_return_over_own_transitions_equals_the_plain_computation(seed: int, n: int) -> None:
    torch.manual_seed(seed)
    reward = torch.randn(8, 5, 1, dtype=torch.float64)
    ends = torch.tensor([0, 0, 0, 0, 1, 2])[torch.randint(6, (8, 5, 1))]
    acting = torch.rand(9, 5, 1) < 0.4
    num_stored = torch.randint(1, 9, (5,))
    stored = (torch.arange(8).unsqueeze(-1) < num_stored).unsqueeze(-1)
    found = own_return(reward, ends == 1, ends > 0, acting, stored, n=n, gamma=GAMMA)
    for row in range(5):
        columns = (x[:, row, 0].tolist() for x in (reward, ends, acting))
        expected = own_slowly(*columns, num_stored=int(num_stored[row]), n=n)
        assert found.counts[row, 0] == (bool(acting[0, row, 0]) and expected is not None)
        if found.counts[row, 0]:
            assert expected is not None
            got = found.reward[row, 0], found.discount[row, 0], found.steps[row, 0]
            torch.testing.assert_close(torch.stack(got), torch.tensor(expected, dtype=torch.float64))
