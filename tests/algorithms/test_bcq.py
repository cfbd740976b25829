"""What BCQ learns and does: a model of the data proposes actions, the perturbation moves them a little, critics choose."""

import numpy as np
import pytest
import torch

from rl_training import BCQ, ConfigError, Dataset
from rl_training.algorithms import BCQAlgorithm, BCQConfig
from rl_training.algorithms.bcq import soft_minimum
from rl_training.core import Box, Spec
from tests.algorithms.boxes import SPEC, make_batch, moved, say

SMALL = {"net_arch": (), "vae_net_arch": (), "n_actions": 7}


def make(**settings: object) -> BCQAlgorithm:
    torch.manual_seed(0)
    return BCQAlgorithm(BCQConfig(**SMALL | settings), SPEC)


def propose_latents(algorithm: BCQAlgorithm) -> None:
    """Makes the decoder return the first two latents, before tanh."""
    decoder = algorithm.policy.vae.decoder
    with torch.no_grad():
        decoder.weight0.zero_()
        decoder.bias0.zero_()
        decoder.weight0[:, 3:5] = torch.eye(2)  # after the observation


def push(algorithm: BCQAlgorithm, size: float) -> None:
    """Makes the perturbation push everything in one direction, as far as it can."""
    for network in (algorithm.policy.perturbation, algorithm.target_perturbation):
        with torch.no_grad():
            network.net.weight0.zero_()
            network.net.bias0.fill_(size)


def test_without_perturbation_it_takes_the_best_of_the_models_proposals() -> None:
    algorithm, obs = make(perturbation=0.0), make_batch().obs
    propose_latents(algorithm)
    say(algorithm.critics, 0.0, 99.0, slope=(1.0, -2.0))
    proposals = torch.tanh(algorithm.policy.latents[0, :, :2])
    best = proposals[(proposals[:, 0] - 2 * proposals[:, 1]).argmax()]
    torch.testing.assert_close(algorithm.policy.act(obs, explore=False).action, best.expand(6, 2))


def test_acting_without_exploration_is_a_function_of_the_observation() -> None:
    algorithm, obs = make(), make_batch().obs
    first = algorithm.policy.act(obs, explore=False).action
    assert torch.equal(first, algorithm.policy.act(obs, explore=False).action)
    torch.testing.assert_close(first[2:3], algorithm.policy.act(obs[2:3], explore=False).action)
    explored = algorithm.policy.act(obs).action
    assert not torch.equal(explored, first)
    assert not torch.equal(explored, algorithm.policy.act(obs).action)


def test_actions_are_moved_by_no_more_than_the_limit_and_stay_inside() -> None:
    algorithm = make(perturbation=0.2)
    obs, gen = make_batch().obs, torch.Generator().manual_seed(1)
    action = 2 * torch.rand(6, 50, 2, generator=gen) - 1
    for size in (30.0, -30.0):
        push(algorithm, size)
        pushed = algorithm.policy.perturbation(obs, action)
        torch.testing.assert_close(pushed, (action + 0.2 * size / 30).clamp(-1, 1))


def test_latents_are_clipped() -> None:
    latents = make(latent_clip=0.5).policy.vae.draw_latents(1_000, 3)
    assert latents.shape == (1_000, 3, 4)  # two for every number of an action
    assert (latents.min().item(), latents.max().item()) == (-0.5, 0.5)
    assert (latents.abs() < 0.5).float().mean().item() == pytest.approx(0.383, abs=0.02)  # of a normal


def test_the_target_is_the_best_proposal_by_a_mixture_of_smallest_and_largest() -> None:
    values = torch.tensor([[1.0, 5.0], [3.0, 2.0]])
    torch.testing.assert_close(soft_minimum(values, 0.75), torch.tensor([1.5, 2.75]))
    torch.testing.assert_close(soft_minimum(values, 1.0), torch.tensor([1.0, 2.0]))
    algorithm = make(perturbation=0.1, n_actions=4_000)
    propose_latents(algorithm)
    push(algorithm, 30.0)
    say(algorithm.targets, 3.0, 5.0, slope=(1.0, 0.0))
    best = np.tanh(0.5) + 0.1  # of so many, one has the latent 0.5
    expected = 0.75 * (3 + best) + 0.25 * (5 + best)
    torch.testing.assert_close(algorithm.next_value(make_batch()), torch.full((6,), expected, dtype=torch.float32))


@pytest.mark.parametrize(
    ("settings", "acting", "target"),
    [
        ({}, 100, 10),  # the authors' numbers
        ({"n_actions": 7}, 7, 7),  # files from before n_target_actions
        ({"n_target_actions": 3}, 100, 3),
        ({"n_actions": 7, "n_target_actions": 3}, 7, 3),
    ],
)
def test_acting_and_targets_have_numbers_of_proposals_of_their_own(
    settings: dict, acting: int, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    algorithm = BCQAlgorithm(BCQConfig(net_arch=(), vae_net_arch=(), **settings), SPEC)
    drawn, draw = [], algorithm.policy.vae.draw_latents
    monkeypatch.setattr(algorithm.policy.vae, "draw_latents", lambda *shape: drawn.append(shape) or draw(*shape))
    algorithm.policy.act(make_batch().obs)
    algorithm.next_value(make_batch())
    assert drawn == [(6, acting), (6, target)]
    assert algorithm.policy.latents.shape[1] == acting


def test_the_models_loss() -> None:
    algorithm, batch = make(), make_batch()
    vae = algorithm.policy.vae
    with torch.no_grad():
        for parameter in vae.parameters():
            parameter.zero_()
        vae.posterior.bias0[:4] = 1.0  # the mean of the latents; their standard deviation is 1
    error, divergence = vae.losses(batch.obs, batch.action)
    torch.testing.assert_close(error, batch.action.square().mean(-1))  # it rebuilds 0
    torch.testing.assert_close(divergence, torch.full((6,), 0.5))
    expected = batch.action.square().mean() + 0.5 * 0.5
    torch.testing.assert_close(algorithm.vae_loss(batch).value, expected)


def test_each_step_moves_its_own_part() -> None:
    algorithm, batch = make(net_arch=(8,), vae_net_arch=(8,)), make_batch()
    still = {name: p.detach().clone() for name, p in algorithm.policy.perturbation.named_parameters()}
    assert moved(algorithm, lambda: algorithm.update(batch)) == {"critics", "policy"}
    assert all(torch.equal(p, still[name]) for name, p in algorithm.policy.perturbation.named_parameters())
    vae = [p.detach().clone() for p in algorithm.policy.vae.parameters()]
    assert moved(algorithm, lambda: algorithm.update_actor(batch)) == {"policy"}
    assert all(map(torch.equal, algorithm.policy.vae.parameters(), vae))
    assert moved(algorithm, lambda: algorithm.update_target(batch)) == {"targets", "target_perturbation"}


def two_ways() -> Dataset:
    """Data do -0.5 or 0.5, which is better; the action 1, which nobody took, is never tried."""
    rng = np.random.default_rng(0)
    num = 600
    obs = rng.uniform(-1, 1, (num, 1)).astype(np.float32)
    action = (rng.choice([-0.5, 0.5], (num, 1)) + 0.02 * rng.normal(size=(num, 1))).astype(np.float32)
    yes = np.ones(num, bool)
    spec = Spec(Box((1,), (-1.0,), (1.0,)), Box((1,), (-1.0,), (1.0,)))
    return Dataset.from_arrays(
        obs=obs, action=action, reward=action[:, 0], terminated=yes, truncated=~yes, next_obs=obs, spec=spec
    )


def test_it_takes_the_better_of_what_the_data_do_and_nothing_else() -> None:
    small = {
        "net_arch": [32],
        "vae_net_arch": [64],
        "vae_beta": 0.05,
        "latent_clip": 1.0,
        "batch_size": 64,
        "n_actions": 10,
    }
    agent = BCQ(dataset=two_ways(), seed=0, compile=False, threads=1, learning_rate=3e-3, **small)
    agent.learn(total_updates=250, progress=False)
    actions = agent.predict(np.linspace(-0.9, 0.9, 7, dtype=np.float32)[:, None])[0]
    assert actions.min() > 0.4
    assert actions.max() < 0.65  # at most the perturbation and a little noise above 0.5


def test_discrete_actions_are_refused_with_the_name_of_the_method_for_them() -> None:
    with pytest.raises(
        ValueError, match=r"BCQ needs Box actions, .* has Discrete: use .*, or DiscreteBCQ with a dataset"
    ):
        BCQ("CartPole-v1")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_actions": 0}, r"algorithm.n_actions=0 must be at least 1"),
        ({"n_target_actions": 0}, r"algorithm.n_target_actions=0 must be at least 1"),
        ({"min_weight": 1.5}, r"algorithm.min_weight=1.5 must be at most 1"),
        ({"perturbation": -0.1}, r"algorithm.perturbation=-0.1 must be at least 0"),
        ({"latent_clip": 0}, r"algorithm.latent_clip=0(.0)? must be above 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        BCQ("Pendulum-v1", **settings)
