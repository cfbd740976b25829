"""V-trace: lambda-returns where the acting policy is the current one, the paper's sum where it is another."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rl_training.functional import VTrace, gae, lambda_returns, v_trace
from tests.functional.test_returns import column, flags, random_rollout
from tests.properties import examples

INFINITE = math.inf


@pytest.mark.parametrize("lam", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("num_steps", [1, 6, 37])
def test_of_the_acting_policy_it_is_the_lambda_return(num_steps: int, lam: float) -> None:
    reward, value, next_value, terminated, truncated = random_rollout(num_steps)
    ended = (terminated | truncated)[:-1]
    value[1:] = torch.where(ended, value[1:], next_value[:-1])  # within an episode, a step's successor is the next step
    ends = {"terminated": terminated, "truncated": truncated}
    found = v_trace(torch.zeros_like(reward), reward, value, next_value, **ends, gamma=0.97, lam=lam)
    returns = lambda_returns(reward, next_value, **ends, gamma=0.97, lam=lam)
    torch.testing.assert_close(found.target, returns, rtol=1e-12, atol=1e-12)
    advantage = gae(reward, value, next_value, **ends, gamma=0.97, gae_lambda=lam)
    torch.testing.assert_close(found.advantage, advantage, rtol=1e-12, atol=1e-12)
    assert torch.equal(found.rho, torch.ones_like(reward))


@pytest.mark.parametrize(
    ("last", "target", "advantage"),
    [
        # delta = 1.4, 2.35, 3.3; rho = 0.5, 2, 1.5; c = 0.5, 1, 1: corrections by hand, from the end
        (
            "cut",
            (0.5 + 0.7 + 0.45 * 9.155, 1 + 4.7 + 0.9 * 4.95, 1.5 + 4.95),
            (1.4 + 0.9 * 9.155, 2.35 + 0.9 * 4.95, 3.3),
        ),
        # delta = 1.4, 2.35, 1.5
        (
            "terminated",
            (0.5 + 0.7 + 0.45 * 6.725, 1 + 4.7 + 0.9 * 2.25, 1.5 + 2.25),
            (1.4 + 0.9 * 6.725, 2.35 + 0.9 * 2.25, 1.5),
        ),
    ],
)
def test_known_answer_with_clipped_ratios(last: str, target: tuple, advantage: tuple) -> None:
    ratio = column(0.5, 4, 1.5)  # rho clips the second at 2, c the second and the third at 1
    found = v_trace(
        ratio.log(),
        column(1, 2, 3),
        column(0.5, 1, 1.5),
        column(1, 1.5, 2),
        flags(0, 0, last == "terminated"),
        flags(0, 0, last == "cut"),
        gamma=0.9,
        rho_bar=2.0,
        c_bar=1.0,
    )
    expected = VTrace(column(*target), column(*advantage), column(0.5, 2, 1.5))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


SOME = st.floats(-3, 3)
STEPS = st.lists(
    st.tuples(SOME, SOME, SOME, SOME, st.sampled_from(["", "", "terminated", "truncated", "both"])),
    min_size=1,
    max_size=10,
)


@examples(100)
@given(rows=STEPS, lam=st.floats(0, 1), rho_bar=st.floats(0.5, 3), share=st.floats(0.1, 1))
def test_it_is_the_papers_sum(rows: list, lam: float, rho_bar: float, share: float) -> None:
    log_ratio, reward, value, next_value = (column(*numbers) for numbers in list(zip(*rows, strict=True))[:4])
    ends = [row[4] for row in rows]
    gamma, c_bar = 0.9, share * rho_bar
    found = v_trace(
        log_ratio,
        reward,
        value,
        next_value,
        flags(*(end in ("terminated", "both") for end in ends)),
        flags(*(end in ("truncated", "both") for end in ends)),
        gamma=gamma,
        lam=lam,
        rho_bar=rho_bar,
        c_bar=c_bar,
    )

    def delta(t: int) -> float:
        _, paid, before, after, end = rows[t]
        return paid + (0.0 if end in ("terminated", "both") else gamma * after) - before

    def correction(start: int) -> float:
        """Eq. 1 of the paper, term by term, up to where the episode or the rollout ends."""
        total, weight = 0.0, 1.0
        for t in range(start, len(rows)):
            ratio = math.exp(rows[t][0])
            total += weight * min(rho_bar, ratio) * delta(t)
            weight *= gamma * lam * min(c_bar, ratio)
            if rows[t][4]:
                break
        return total

    for t, (_, _, before, _, end) in enumerate(rows):
        later = 0.0 if end or t + 1 == len(rows) else correction(t + 1)
        assert found.target[t].item() == pytest.approx(before + correction(t), abs=1e-9)
        assert found.advantage[t].item() == pytest.approx(delta(t) + gamma * lam * later, abs=1e-9)


# Of two arms: the chances by the policy that acted and by the current one, and what they pay.
ACTED, NOW, PAYS = torch.tensor([[0.8, 0.2], [0.4, 0.6], [1.0, 3.0]], dtype=torch.float64)
# Every ten pulls of the older policy, in proportion to its chances: means over them are expectations.
PULLS = torch.tensor([0] * 8 + [1] * 2)


def pulled(value: float, rho_bar: float) -> VTrace:
    """Ten episodes of one step each."""
    ended = torch.ones(1, 10, dtype=torch.bool)
    values = torch.full((1, 10), value, dtype=torch.float64)
    log_ratio = (NOW.log() - ACTED.log())[PULLS].unsqueeze(0)
    return v_trace(
        log_ratio, PAYS[PULLS].unsqueeze(0), values, values, ended, ~ended, gamma=0.9, rho_bar=rho_bar, c_bar=1.0
    )


@pytest.mark.parametrize(
    ("rho_bar", "point"),
    [
        (INFINITE, 0.4 * 1 + 0.6 * 3),  # the current policy's value: 2.2
        (3.0, 2.2),  # the ratios are 0.5 and 3: the bound does not bind
        (1.0, (0.4 * 1 + 0.2 * 3) / 0.6),  # of the policy in between, which takes each arm with min(acted, now) / 0.6
    ],
)
def test_values_of_a_bandit_converge_to_the_analytic_point(rho_bar: float, point: float) -> None:
    value = 0.0
    for _ in range(200):
        value += 0.2 * (pulled(value, rho_bar).target.mean().item() - value)
    assert value == pytest.approx(point, abs=1e-9)


def gradient(logits: Tensor, rho_bar: float) -> Tensor:
    found = pulled(2.2, rho_bar)
    log_prob = logits.log_softmax(0)[PULLS]
    return torch.autograd.grad((found.rho * found.advantage * log_prob).mean(), logits)[0]


def test_the_policy_gradient_of_a_bandit_is_that_of_its_expected_pay() -> None:
    logits = NOW.log().requires_grad_()
    exact = torch.autograd.grad((logits.softmax(0) * PAYS).sum(), logits)[0]
    torch.testing.assert_close(gradient(logits, INFINITE), exact, rtol=0, atol=1e-12)
    # Arm 1 counts with 0.2 instead of 0.6, and arm 0 in full: 0.4 * (1 - 2.2) and 0.2 * (3 - 2.2), times (1 - chance).
    clipped = 0.4 * 1.2 * 0.6 + 0.2 * 0.8 * 0.4
    assert gradient(logits, 1.0).tolist() == pytest.approx([-clipped, clipped], abs=1e-12)
    assert exact[1].item() == pytest.approx(0.4 * 0.6 * 2, abs=1e-12)  # which is more
