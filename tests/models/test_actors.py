import math

import pytest
import torch
from torch import Tensor

from rl_training.core import Box, Spec
from rl_training.models import (
    MLP,
    Actor,
    DeterministicPolicy,
    ObservationNormalizer,
    RenormActor,
    RenormMLP,
    SquashedGaussianPolicy,
)

OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)
SPEC = Spec(OBS, Box((2,), (-1.0,) * 2, (1.0,) * 2))


def normalizer() -> ObservationNormalizer:
    return ObservationNormalizer(OBS, enabled=False)


def observations(num: int = 50) -> Tensor:
    return torch.randn(num, 3, generator=torch.Generator().manual_seed(1))


def actor(outputs: int) -> Actor:
    torch.manual_seed(0)
    return Actor(OBS, lambda inputs: MLP(inputs, (8,), outputs, ortho_init=False))


def deterministic(noise: str, std: float = 0.1) -> DeterministicPolicy:
    return DeterministicPolicy(SPEC, normalizer(), actor(2), 2, noise=noise, noise_std=std)


def at_rest(noise: str, std: float) -> DeterministicPolicy:
    """Its actions are its noise."""
    policy = deterministic(noise, std)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.zero_()
    return policy


def test_independent_noise_has_its_deviation_and_stays_within_the_bounds() -> None:
    torch.manual_seed(0)
    noise = at_rest("gaussian", 0.1).act(observations(5_000)).action
    assert noise.mean().item() == pytest.approx(0.0, abs=0.005)
    assert noise.std().item() == pytest.approx(0.1, abs=0.003)
    wide = at_rest("gaussian", 5.0).act(observations(5_000)).action
    assert wide.abs().max() == 1
    policy, obs = deterministic("gaussian"), observations()
    assert not torch.equal(policy.act(obs).action, policy.act(obs).action)


@pytest.mark.parametrize("noise", ["gaussian", "ou", "none"])
def test_without_exploration_there_is_no_noise(noise: str) -> None:
    policy, obs = deterministic(noise), observations()
    act = policy.act(obs, policy.initial_memory(50), explore=False)
    assert torch.equal(act.action, policy.action(obs))
    assert torch.equal(act.action, torch.tanh(policy.network(obs)))
    assert act.log_prob.shape == (50,)
    if noise == "none":
        assert torch.equal(policy.act(obs).action, act.action)
        assert policy.initial_memory(50) == ()


def drift(policy: DeterministicPolicy, first: list[Tensor]) -> Tensor:
    """The noise over time: [time, env, action]."""
    torch.manual_seed(0)
    obs = observations(len(first[0]))
    memory, rows = policy.initial_memory(len(obs)), []
    assert [part.tolist() for part in memory] == [[[0.0, 0.0]] * len(obs)]
    for starts in first:
        act = policy.act(obs, memory, starts)
        memory = act.memory
        assert act.action.shape == (len(obs), 2)
        rows.append(act.action)
    return torch.stack(rows)


def test_drifting_noise_is_correlated_over_time() -> None:
    """A step of 0.01 pulls it back by 0.15 of that, and adds a normal times the root of the step."""
    none = torch.zeros(200, dtype=torch.bool)
    noise = drift(at_rest("ou", 0.1), [none] * 500)
    steps = noise[1:] - (1 - 0.15 * 0.01) * noise[:-1]
    assert steps.std().item() == pytest.approx(0.1 * math.sqrt(0.01), rel=0.01)
    assert steps.mean().item() == pytest.approx(0.0, abs=2e-4)
    late, later = noise[-2].flatten(), noise[-1].flatten()
    assert torch.corrcoef(torch.stack([late, later]))[0, 1] > 0.99
    assert abs(torch.corrcoef(steps[-2:].flatten(1))[0, 1].item()) < 0.2  # what is added is fresh
    expected = 0.01**2 * (1 - 0.9985**1000) / (1 - 0.9985**2)  # variance of the sum after 500 steps
    assert later.var().item() == pytest.approx(expected, rel=0.25)


def test_drifting_noise_starts_afresh_where_an_episode_does() -> None:
    none, some = torch.zeros(200, dtype=torch.bool), torch.arange(200) < 100
    noise = drift(at_rest("ou", 0.1), [none] * 100 + [some])
    assert noise.shape == (101, 200, 2)
    assert noise[-1, :100].std().item() == pytest.approx(0.01, rel=0.2)  # one step's worth
    assert noise[-1, 100:].std().item() > 0.05
    assert (noise[-1] - noise[-2])[100:].abs().max() < 0.06  # the others go on


def test_drifting_noise_without_a_memory_starts_at_zero() -> None:
    torch.manual_seed(0)
    noise = at_rest("ou", 0.1).act(observations(2_000)).action
    assert noise.std().item() == pytest.approx(0.01, rel=0.1)


def test_squashed_policy_acts_by_its_distribution() -> None:
    policy, obs = SquashedGaussianPolicy(SPEC, normalizer(), actor(4)), observations()
    distribution = policy.distribution(obs)
    mean, log_std = policy.network(obs).chunk(2, -1)
    assert torch.equal(distribution.mean, mean)
    assert torch.equal(distribution.log_std, log_std)
    greedy = policy.act(obs, explore=False)
    assert torch.equal(greedy.action, torch.tanh(mean))
    torch.testing.assert_close(greedy.log_prob, distribution.log_prob(greedy.action), rtol=1e-4, atol=1e-4)
    explored = policy.act(obs)
    assert explored.action.shape == (50, 2)
    torch.testing.assert_close(explored.log_prob, distribution.log_prob(explored.action), rtol=1e-3, atol=1e-3)
    assert not torch.equal(explored.action, policy.act(obs).action)


def test_log_deviations_are_limited() -> None:
    policy = SquashedGaussianPolicy(SPEC, normalizer(), actor(2))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.zero_()
        for bias, limit in ((1e3, 2.0), (-1e3, -20.0)):
            policy.network.net.bias1.fill_(bias)
            assert policy.distribution(observations(1)).log_std.item() == limit


def test_a_normalising_actor_moves_its_averages_only_when_told() -> None:
    torch.manual_seed(0)
    network = RenormActor(OBS, lambda inputs: RenormMLP(1, inputs, (8,), 4, warmup_steps=0))
    policy, obs = SquashedGaussianPolicy(SPEC, normalizer(), network), observations()
    before = {name: value.clone() for name, value in network.named_buffers()}
    assert policy.act(obs).action.shape == (50, 2)
    alone = policy.act(obs[:1], explore=False).action
    torch.testing.assert_close(alone, policy.act(obs, explore=False).action[:1])  # rows do not see each other
    assert all(torch.equal(value, before[name]) for name, value in network.named_buffers())
    policy.distribution(obs, train=True)
    assert not any(torch.equal(value, before[name]) for name, value in network.named_buffers())
