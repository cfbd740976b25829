"""Pictures of a rollout are encoded once: each minibatch for policy and value together, each successor as the next row."""

from __future__ import annotations

import pytest
import torch

from rl_training.algorithms.a2c import A2CAlgorithm, A2CConfig
from rl_training.algorithms.on_policy import NetArch
from rl_training.algorithms.ppo import PPOAlgorithm, PPOConfig
from rl_training.core import Box, Discrete, RolloutBatch, Spec, Transition
from rl_training.functional import gae

PICTURES = Spec(Box((2, 36, 36), (0.0,) * 2592, (255.0,) * 2592, "uint8"), Discrete(3))
TIME, ENVS = 6, 2


def steps() -> Transition:
    """Returns a rollout with a termination, a truncation and a row that was only reset, in different environments."""
    torch.manual_seed(0)
    obs, ends = (torch.randint(0, 256, (TIME + 1, ENVS, 2, 36, 36), dtype=torch.uint8) for _ in range(2))
    terminated, truncated = torch.zeros(2, TIME, ENVS, dtype=torch.bool)
    valid = torch.ones(TIME, ENVS, dtype=torch.bool)
    terminated[1, 0] = truncated[3, 1] = True
    valid[4, 1] = False
    ended = (terminated | truncated)[..., None, None, None]
    next_obs = torch.where(ended, ends[1:], obs[1:])
    number = torch.randint(0, 3, (TIME, ENVS))
    return Transition(
        obs[:-1],
        number,
        torch.full((TIME, ENVS), -1.1),
        torch.rand(TIME, ENVS),
        next_obs,
        terminated,
        truncated,
        valid,
        {},
    )


def rows_encoded(algorithm: PPOAlgorithm | A2CAlgorithm) -> list[int]:
    """Returns a list to which every call of an encoder adds its number of rows."""
    rows: list[int] = []
    for trunk in {algorithm.policy.trunk, algorithm.value_trunk}:
        trunk.register_forward_hook(lambda module, given, features: rows.append(features[..., 0].numel()))
    return rows


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize(("kind", "config"), [(PPOAlgorithm, PPOConfig), (A2CAlgorithm, A2CConfig)])
def test_an_encoder_runs_once_for_a_minibatch_and_once_for_a_rollout(kind: type, config: type, share: bool) -> None:
    algorithm = kind(config(share_features_extractor=share), PICTURES)
    rows, rollout = rows_encoded(algorithm), steps()
    batch, _ = algorithm.prepare(rollout)
    again = 1 + 1 + ENVS  # the truncated row, the one that was reset, and the last ones
    assert rows == [TIME * ENVS, again]
    rows.clear()
    flat = RolloutBatch(*(x.flatten(0, 1) if torch.is_tensor(x) else x for x in batch))
    algorithm.update(flat)
    assert rows == [TIME * ENVS] * (1 if share else 2)


def test_advantages_equal_those_of_encoding_every_successor() -> None:
    algorithm, rollout = PPOAlgorithm(PPOConfig(), PICTURES), steps()
    batch, _ = algorithm.prepare(rollout)
    with torch.no_grad():
        value, next_value = algorithm.value(rollout.obs), algorithm.value(rollout.next_obs)
    ends = (rollout.terminated, rollout.truncated)
    advantage = gae(rollout.reward, value, next_value, *ends, gamma=0.99, gae_lambda=0.95)
    torch.testing.assert_close(batch.advantage, advantage, rtol=0, atol=1e-6)
    algorithm.fixed_shapes = True
    torch.testing.assert_close(algorithm.prepare(rollout)[0].advantage, advantage, rtol=0, atol=1e-6)


def test_a_shared_encoder_gets_the_gradients_of_both_losses() -> None:
    algorithm, rollout = PPOAlgorithm(PPOConfig(net_arch=NetArch((8,), (8,))), PICTURES), steps()
    batch, _ = algorithm.prepare(rollout)
    batch = batch._replace(weight=rollout.valid.float())
    weights = list(algorithm.policy.trunk.parameters())

    def apart(batch: RolloutBatch) -> torch.Tensor:
        distribution, value = algorithm.batch_distribution(batch), algorithm.batch_value(batch)
        advantage = algorithm.batch_advantage(batch)
        log_prob = distribution.log_prob(batch.action)
        policy_loss, _ = algorithm.policy_loss(log_prob - batch.log_prob, log_prob, advantage, batch.weight)
        return policy_loss + algorithm.config.vf_coef * algorithm.value_loss(value, batch)

    together = torch.autograd.grad(algorithm.loss(batch).value, weights)
    for one, two in zip(together, torch.autograd.grad(apart(batch), weights), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)
