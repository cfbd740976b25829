"""The measure in which policies that clip, squash or draw uniformly are compared: its probabilities sum to 1."""

import math
from statistics import NormalDist

import pytest
import torch

from rl_training.algorithms import (
    BCAlgorithm,
    BCConfig,
    DQNAlgorithm,
    DQNConfig,
    IQLAlgorithm,
    IQLConfig,
    SACAlgorithm,
    SACConfig,
)
from rl_training.core import Box, Discrete, Policy, Spec, UniformPolicy
from rl_training.core.converters import EDGE
from rl_training.models.executed_actions import at_bounds, executed_log_prob

LOW, HIGH = -2.0, 1.0
SPEC = Spec(Box((1,), (-1.0,), (1.0,)), Box((1,), (LOW,), (HIGH,)))
GRID = 20_001


def gaussian(log_std: float = 0.0, spec: Spec = SPEC) -> Policy:
    return BCAlgorithm(BCConfig(net_arch=(), log_std_init=log_std), spec).policy


def squashed(mean: float, log_std: float) -> Policy:
    policy = SACAlgorithm(SACConfig(net_arch=()), SPEC).policy
    with torch.no_grad():
        policy.network.net.bias0.copy_(torch.tensor([mean, log_std]))
    return policy


def clipped() -> Policy:
    return IQLAlgorithm(IQLConfig(net_arch=()), SPEC).policy


POLICIES = {
    "gaussian": gaussian,
    "narrow": lambda: gaussian(-3.0),
    "squashed": lambda: squashed(0.3, 0.0),
    "saturated": lambda: squashed(9.0, 1.5),  # most of its actions are rounded to the bound
    "clipped": clipped,
    "uniform": lambda: UniformPolicy(SPEC),
}


@pytest.mark.parametrize("name", POLICIES)
@torch.no_grad()
def test_the_mass_at_the_bounds_and_the_density_between_them_sum_to_1(name: str) -> None:
    policy = POLICIES[name]()
    last = math.atanh(1 - EDGE) - 1e-4
    share = torch.tanh(torch.linspace(-last, last, GRID, dtype=torch.float64))  # dense near the bounds, where one peaks
    inside = LOW + (share + 1) / 2 * (HIGH - LOW)
    action = torch.cat([torch.tensor([LOW, HIGH], dtype=torch.float64), inside]).unsqueeze(-1)
    action = policy.to_env.inverse(action)
    found = executed_log_prob(policy, torch.zeros(len(action), 1), action)
    bounds, density = found[:2].exp(), found[2:].exp()
    assert (bounds.sum() + torch.trapezoid(density, inside)).item() == pytest.approx(1, abs=1e-4)


@torch.no_grad()
def test_what_a_policy_draws_is_at_the_bounds_as_often_as_it_says() -> None:
    """Also after the way into the environment's units and back."""
    torch.manual_seed(0)
    for make in (gaussian, clipped, POLICIES["saturated"]):
        policy, obs = make(), torch.zeros(20_000, 1)
        executed = policy.to_env.inverse(policy.to_env(policy.act(obs).action))
        for at, bound in zip(at_bounds(policy, executed), (LOW, HIGH), strict=True):
            action = policy.to_env.inverse(torch.tensor([[bound]]))
            mass = executed_log_prob(policy, obs[:1], action).exp().item()
            assert at.double().mean().item() == pytest.approx(mass, abs=4 * math.sqrt(mass / len(obs)) + 1e-4)


@torch.no_grad()
def test_components_at_a_bound_give_their_probability_and_the_others_their_density() -> None:
    policy = gaussian(spec=Spec(SPEC.obs, Box((3,), (-1.0, -math.inf, 2.0), (1.0, math.inf, 2.0))))
    action = torch.tensor([[1.0, 0.5, 2.0], [-1.5, 0.5, 2.0]])  # the third cannot be anything else
    at_bound, beyond = executed_log_prob(policy, torch.zeros(2, 1), action).tolist()
    normal = NormalDist()
    assert at_bound == pytest.approx(math.log(normal.cdf(-1.0) * normal.pdf(0.5)), abs=1e-5)
    assert beyond == pytest.approx(math.log(normal.pdf(-1.5) * normal.pdf(0.5)), abs=1e-5)  # logged before clipping


def test_a_policy_without_a_distribution_has_none() -> None:
    policy = DQNAlgorithm(DQNConfig(net_arch=()), Spec(SPEC.obs, Discrete(2))).policy
    assert executed_log_prob(policy, torch.zeros(2, 1), torch.zeros(2)) is None
