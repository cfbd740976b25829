"""What TD3+BC's actor learns: the data's actions and the critic's values, whatever the scale of the values."""

import pytest
import torch
from torch import Tensor

from rl_training.algorithms import TD3Algorithm, TD3BCAlgorithm, TD3BCConfig, TD3Config
from tests.algorithms.boxes import SPEC, make_batch, say

SETTINGS = {"net_arch": (), "normalize_observation": False}


def make(alpha: float = 2.5) -> TD3BCAlgorithm:
    torch.manual_seed(0)
    return TD3BCAlgorithm(TD3BCConfig(alpha=alpha, **SETTINGS), SPEC)


def gradient(algorithm: TD3Algorithm) -> Tensor:
    """Of the actor's loss, as one vector."""
    loss = algorithm.actor_loss(make_batch()).value
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(algorithm.policy.parameters()))])


def test_the_actors_loss() -> None:
    algorithm, batch = make(alpha=2.0), make_batch()
    say(algorithm.critics, -4.0, 100.0)  # the first critic alone counts
    action = algorithm.policy.action(batch.obs)
    loss, metrics, _ = algorithm.actor_loss(batch)
    distance = (action - batch.action).square().mean()
    assert loss.item() == pytest.approx(2 + distance.item())  # -2 * -4 / |-4|, and the distance
    assert metrics["bc_loss"].item() == pytest.approx(distance.item())


def test_scaled_values_leave_the_actors_gradient_as_it_is() -> None:
    gradients = []
    for scale in (1.0, 1000.0):
        algorithm = make()
        say(algorithm.critics, 0.5 * scale, 0.0, slope=(2.0 * scale, -1.0 * scale))
        gradients.append(gradient(algorithm))
    torch.testing.assert_close(gradients[0], gradients[1])


def test_the_scale_of_the_values_is_a_constant() -> None:
    algorithm, batch = make(alpha=3.0), make_batch()
    say(algorithm.critics, 1.0, 0.0, slope=(1.0, 0.0))
    batch = batch._replace(action=algorithm.policy.action(batch.obs).detach())  # nothing to imitate
    action = algorithm.policy.action(batch.obs)
    size = (1 + action[:, 0]).abs().mean().detach()
    expected = torch.autograd.grad(-3.0 * action[:, 0].mean() / size, list(algorithm.policy.parameters()))
    found = torch.autograd.grad(algorithm.actor_loss(batch).value, list(algorithm.policy.parameters()))
    torch.testing.assert_close(found, expected)


def test_without_the_critic_it_clones_and_with_nothing_else_it_is_td3() -> None:
    cloning = make(alpha=0.0)
    say(cloning.critics, 1.0, 0.0, slope=(5.0, 5.0))
    batch = make_batch()
    error = (cloning.policy.action(batch.obs) - batch.action).square().mean()
    expected = torch.cat([g.flatten() for g in torch.autograd.grad(error, list(cloning.policy.parameters()))])
    torch.testing.assert_close(gradient(cloning), expected)
    improving = make(alpha=1e6)
    say(improving.critics, 1.0, 0.0, slope=(5.0, 5.0))
    torch.manual_seed(0)
    plain = TD3Algorithm(TD3Config(net_arch=()), SPEC)
    say(plain.critics, 1.0, 0.0, slope=(5.0, 5.0))
    same = torch.cosine_similarity(gradient(improving), gradient(plain), dim=0)
    assert same.item() == pytest.approx(1.0, abs=1e-6)


def test_rows_that_do_not_count_change_neither_the_loss_nor_the_scale() -> None:
    algorithm = make()
    say(algorithm.critics, 1.0, 0.0, slope=(3.0, 0.0))
    weight = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    batch = make_batch(weight=weight)
    few = make_batch()
    few = few._replace(**{name: getattr(few, name)[:4] for name in ("obs", "action", "weight")})
    assert algorithm.actor_loss(batch).value.item() == pytest.approx(algorithm.actor_loss(few).value.item())


def test_the_critics_learn_as_td3s() -> None:
    torch.manual_seed(0)
    plain, batch = TD3Algorithm(TD3Config(net_arch=()), SPEC), make_batch()
    torch.manual_seed(7)
    expected = plain.critic_loss(batch).value
    algorithm = make()
    torch.manual_seed(7)
    assert torch.equal(algorithm.critic_loss(batch).value, expected)
