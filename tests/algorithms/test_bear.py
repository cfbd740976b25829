"""What BEAR learns: first to be near the data alone, then to climb the critics at a distance that is held."""

import math

import pytest
import torch
from torch import Tensor

from rl_training import BEAR, ConfigError
from rl_training.algorithms import BEARAlgorithm, BEARConfig
from rl_training.core import Schedule
from rl_training.functional import SquashedGaussian
from tests.algorithms.boxes import SPEC, asked_gradients, make_batch, moved, say

SMALL = {"net_arch": (), "vae_net_arch": (), "n_actions": 5, "warmup_updates": 0, "alpha_init": 1.0}


def make(*, done: int = 1, **settings: object) -> BEARAlgorithm:
    """After so many updates."""
    torch.manual_seed(0)
    algorithm = BEARAlgorithm(BEARConfig(**SMALL | settings), SPEC)
    algorithm.updates.fill_(done)
    return algorithm


def gradient(algorithm: BEARAlgorithm) -> Tensor:
    """Of the actor's loss with the same random numbers every time."""
    torch.manual_seed(1)
    loss = algorithm.actor_loss(make_batch()).value
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(algorithm.policy.network.parameters()))])


def propose_zero(algorithm: BEARAlgorithm) -> None:
    with torch.no_grad():
        algorithm.vae.decoder.weight0.zero_()
        algorithm.vae.decoder.bias0.zero_()


@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
def test_distances_are_between_actions_before_tanh(kernel: str) -> None:
    algorithm, batch = make(mmd_kernel=kernel), make_batch()
    propose_zero(algorithm)
    certain = SquashedGaussian(torch.full((6, 2), 3.0), torch.full((6, 2), -20.0))  # does tanh(3), which is near 1
    apart = 6.0 if kernel == "laplacian" else 18.0
    expected = math.sqrt(2 - 2 * math.exp(-apart / 40) + 1e-6)
    torch.testing.assert_close(algorithm.distance(certain, batch.obs), torch.full((6,), expected), rtol=1e-4, atol=1e-5)


def test_in_the_warm_up_the_policy_learns_nothing_from_the_critics() -> None:
    found = {}
    for slope in ((0.0, 0.0), (50.0, -50.0)):
        for done in (10, 11):
            algorithm = make(warmup_updates=10, done=done)
            say(algorithm.critics, 0.0, 0.0, slope=slope)
            found[slope, done] = gradient(algorithm)
    assert torch.equal(found[(0.0, 0.0), 10], found[(50.0, -50.0), 10])
    assert found[(0.0, 0.0), 10].abs().sum() > 0  # it does learn to be near the data
    assert not torch.allclose(found[(0.0, 0.0), 11], found[(50.0, -50.0), 11])


def test_after_it_the_policys_gradient_is_sacs_and_that_of_the_distance() -> None:
    """Nothing cancels: the weight's own step takes the distance as a constant."""
    both, near = make(alpha_init=3.0), make(alpha_init=3.0, warmup_updates=10)
    say(both.critics, 0.0, 0.0, slope=(2.0, 1.0))
    far_away = make(alpha_init=1e-9)
    say(far_away.critics, 0.0, 0.0, slope=(2.0, 1.0))
    torch.testing.assert_close(gradient(both), gradient(near) + gradient(far_away), rtol=1e-4, atol=1e-6)
    assert gradient(near).norm() > 0.01
    alpha = both.alpha_loss(both.actor_loss(make_batch()).metrics["mmd"]).value
    grads = torch.autograd.grad(alpha, [both.log_alpha, *both.policy.network.parameters()], allow_unused=True)
    assert grads[0] is not None
    assert all(g is None for g in grads[1:])


@pytest.mark.parametrize(("mmd", "direction"), [(0.06, 1), (0.04, -1)])
def test_the_weight_rises_if_and_only_if_the_policy_is_too_far(mmd: float, direction: int) -> None:
    algorithm = make(mmd_threshold=0.05)
    algorithm.minimize(lambda batch: algorithm.alpha_loss(torch.tensor(mmd)), make_batch(), "alpha")
    assert math.copysign(1, algorithm.log_alpha.item()) == direction
    waiting = make(mmd_threshold=0.05, warmup_updates=10)
    waiting.minimize(lambda batch: waiting.alpha_loss(torch.tensor(mmd)), make_batch(), "alpha")
    assert waiting.log_alpha.item() == 0


@pytest.mark.parametrize(("start", "threshold", "bound"), [(math.exp(9.9), 1e-3, 10.0), (math.exp(-4.9), 5.0, -5.0)])
def test_the_weights_logarithm_stays_between_minus_5_and_10(start: float, threshold: float, bound: float) -> None:
    algorithm = make(alpha_init=start, mmd_threshold=threshold, alpha_learning_rate=Schedule(1.0, 1.0))
    algorithm.update_actor(make_batch())
    assert algorithm.log_alpha.item() == bound


def test_the_target_is_the_best_of_several_actions_by_a_mixture_less_its_entropy_cost() -> None:
    algorithm, batch = make(n_target_actions=3, ent_coef=0.5), make_batch()
    say(algorithm.targets, 3.0, 5.0, slope=(1.0, 0.0))
    torch.manual_seed(4)
    found = algorithm.next_value(batch)
    torch.manual_seed(4)
    mean, log_std = algorithm.policy.distribution(batch.next_obs)
    there = SquashedGaussian(*(x.unsqueeze(1).expand(-1, 3, -1) for x in (mean, log_std)))
    action, log_prob = there.draw()
    best = action[..., 0].argmax(-1, keepdim=True)
    value = 0.75 * (3 + action[..., 0]) + 0.25 * (5 + action[..., 0])
    expected = (value - 0.5 * log_prob).gather(1, best).squeeze(1)
    torch.testing.assert_close(found, expected)


def test_without_exploration_it_takes_the_best_of_its_own_actions_and_the_same_one_every_time() -> None:
    algorithm, obs = make(), make_batch().obs
    say(algorithm.critics, 0.0, 99.0, slope=(1.0, 0.0))
    mean, log_std = algorithm.policy.distribution(obs)
    drawn = torch.tanh(mean.unsqueeze(1) + log_std.exp().unsqueeze(1) * algorithm.policy.noise)
    best = drawn.gather(1, drawn[..., :1].argmax(1, keepdim=True).expand(-1, 1, 2)).squeeze(1)
    assert torch.equal(algorithm.policy.act(obs, explore=False).action, best)
    assert torch.equal(algorithm.mode(obs), best)
    assert not torch.equal(algorithm.policy.act(obs).action, best)


def test_each_step_moves_its_own_part() -> None:
    algorithm, batch = make(net_arch=(8,), vae_net_arch=(8,), ent_coef="auto"), make_batch()
    assert moved(algorithm, lambda: algorithm.update(batch)) == {"policy", "vae"}  # whose critics are the algorithm's
    actor = [p.detach().clone() for p in algorithm.policy.network.parameters()]
    algorithm.update(batch)
    assert all(map(torch.equal, algorithm.policy.network.parameters(), actor))
    assert moved(algorithm, lambda: algorithm.update_actor(batch)) == {"policy", "log_ent_coef", "log_alpha"}
    assert asked_gradients(algorithm.critics, lambda: algorithm.update_actor(batch)) == 0
    assert asked_gradients(algorithm.vae, lambda: algorithm.update_actor(batch)) == 0


def test_the_distance_is_held_when_values_pull_away() -> None:
    """The critics want actions at the bound and the data do 0: the policy ends at the wanted distance."""
    settings = {
        "actor_learning_rate": Schedule(1e-2, 1e-2),
        "alpha_learning_rate": Schedule(3e-2, 3e-2),
        "alpha_init": 0.1,
    }
    algorithm, batch = make(mmd_threshold=0.2, mmd_kernel="gaussian", **settings), make_batch(16)
    propose_zero(algorithm)
    say(algorithm.critics, 0.0, 0.0, slope=(3.0, 3.0))
    found = [algorithm.update_actor(batch).metrics["mmd"] for _ in range(300)]
    assert max(found) > 0.4
    assert 0.1 < torch.stack(found[-50:]).mean().item() < 0.4


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"mmd_kernel": "cosine"}, r"algorithm.mmd_kernel='cosine'.*laplacian.*gaussian"),
        ({"n_mmd_actions": 1}, r"algorithm.n_mmd_actions=1 must be at least 2"),
        ({"mmd_threshold": 0}, r"algorithm.mmd_threshold=0(.0)? must be above 0"),
        ({"warmup_updates": -1}, r"algorithm.warmup_updates=-1 must be at least 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        BEAR("Pendulum-v1", **settings)
