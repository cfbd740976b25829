"""RecurrentPPO's updates: gradients are those of a loop over time, padding and other environments change nothing."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from rl_training.algorithms import RecurrentPPOAlgorithm
from rl_training.core import RolloutBatch, tree_map
from rl_training.models import forget
from tests.algorithms.walks import ENVS, batches, collect, every_core


def loss_gradients(algorithm: RecurrentPPOAlgorithm, batch: RolloutBatch) -> tuple[Tensor, ...]:
    loss = algorithm.loss(batch).value
    return torch.autograd.grad(loss, list(algorithm.parameters()), allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize("name", ["walk", "masked", "continuous"])
@every_core
def test_padding_has_no_gradient_whatever_it_holds(name: str, core: dict) -> None:
    algorithm, (rollout, _) = collect(ENVS[name](), **core)
    generator = torch.Generator().manual_seed(0)
    padded = 0
    for index, batch in batches(algorithm, rollout):
        padding = index < 0
        padded += int(padding.sum())
        wanted = loss_gradients(algorithm, batch)

        def noise(column: Tensor, padding: Tensor = padding) -> Tensor:
            if not column.is_floating_point():
                return column
            garbage = torch.randn(column.shape, generator=generator, dtype=column.dtype)
            return torch.where(padding.view(*padding.shape, *[1] * (column.ndim - 2)), garbage, column)

        other = tree_map(noise, batch)._replace(weight=batch.weight)
        assert not torch.equal(other.advantage, batch.advantage)
        assert all(map(torch.equal, loss_gradients(algorithm, other), wanted))
    assert padded > 40


def test_observations_of_padding_have_gradient_zero_and_others_have_not() -> None:
    algorithm, (rollout, _) = collect(ENVS["walk"]())
    for index, batch in batches(algorithm, rollout):
        obs = batch.obs.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(algorithm.loss(batch._replace(obs=obs)).value, obs)
        assert not gradient[index < 0].any()
        assert gradient[index >= 0].any(-1).all()


@every_core
def test_gradients_equal_a_loop_over_time(core: dict) -> None:
    """All sequences as one batch, against stepping the whole rollout and forgetting where episodes begin."""
    algorithm, rollouts = collect(ENVS["walk"](), **core)
    algorithm.prepare(rollouts[0])
    algorithm.observe(rollouts[0].obs, rollouts[0].valid)
    rollout = rollouts[1]
    ((_, batch),) = batches(algorithm, rollout, None)

    class Unrolled(RecurrentPPOAlgorithm):
        def distribution_of(self, features: Tensor, batch: RolloutBatch):
            memory = tuple(part[0] for name, part in rollout.columns.items() if name != "first")
            return self.policy.head(self.unroll(self.policy.core, features, memory), None)

        def values_of(self, features: Tensor, batch: RolloutBatch) -> Tensor:
            memory = self.rollout_memory(rollout)
            return self.value_head(self.unroll(self.value_core, features, memory)).squeeze(-1)

        def unroll(self, core, features: Tensor, memory) -> Tensor:
            outputs = []
            for x, first in zip(features, rollout.columns["first"], strict=True):
                output, memory = core.advance(x, forget(memory, first))
                outputs.append(output)
            return torch.stack(outputs)

    unrolled = Unrolled(algorithm.config, algorithm.spec)
    unrolled.load_state_dict(algorithm.state_dict())
    whole = unrolled.prepare(rollout)[0]
    torch.testing.assert_close(loss_gradients(algorithm, batch), loss_gradients(unrolled, whole), rtol=1e-4, atol=1e-5)


@every_core
def test_the_order_of_the_environments_changes_nothing(core: dict) -> None:
    algorithm, rollouts = collect(ENVS["masked"](), **core)
    order = [2, 0, 3, 1]
    twin = copy.deepcopy(algorithm)
    permuted = [tree_map(lambda x: x[:, order], rollout) for rollout in rollouts]
    for a, b in zip(rollouts, permuted, strict=True):
        ours, theirs = algorithm.prepare(a)[0], twin.prepare(b)[0]
        for name in ("advantage", "target", "value"):
            torch.testing.assert_close(getattr(theirs, name), getattr(ours, name)[:, order], rtol=0, atol=1e-5)
        ((_, batch),), ((_, other),) = batches(algorithm, a, None), batches(twin, b, None)
        torch.testing.assert_close(loss_gradients(algorithm, batch), loss_gradients(twin, other), rtol=1e-4, atol=1e-5)
        algorithm.observe(a.obs, a.valid)
        twin.observe(b.obs, b.valid)


def test_first_update_has_ratio_one() -> None:
    algorithm, (rollout, _) = collect(ENVS["walk"](), normalize_advantage=False)
    (_, batch), *_ = batches(algorithm, rollout)
    counts = batch.weight.bool()
    metrics = algorithm.update(batch).metrics
    expected = -batch.advantage[counts].mean()
    torch.testing.assert_close(metrics["policy_gradient_loss"], expected, rtol=1e-5, atol=1e-5)
    assert metrics["approx_kl"].item() == pytest.approx(0, abs=1e-6)
    assert metrics["clip_fraction"].item() == 0
    assert algorithm.update(batch).metrics["approx_kl"].item() > 1e-8


def test_rows_that_only_reset_have_no_weight() -> None:
    algorithm, (rollout, _) = collect(ENVS["rows that only reset"]())
    assert not rollout.valid.all()
    weight = sum(batch.weight.sum() for _, batch in batches(algorithm, rollout))
    assert weight == rollout.valid.sum()


def test_the_normaliser_learns_after_the_update() -> None:
    algorithm, (rollout, _) = collect(ENVS["masked"](), normalize_observation=True)
    (norm,) = algorithm.policy.normalizer.norms
    for _, batch in batches(algorithm, rollout):
        algorithm.update(batch)
    assert norm.count.item() == 0
    algorithm.observe(rollout.obs, rollout.valid)
    assert norm.count.item() == 160


def test_a_batch_that_is_not_finite_sets_failed_and_changes_nothing() -> None:
    algorithm, (rollout, _) = collect(ENVS["walk"]())
    (_, batch), *_ = batches(algorithm, rollout)
    batch.advantage[0, 0] = torch.nan
    before = {name: parameter.detach().clone() for name, parameter in algorithm.named_parameters()}
    algorithm.update(batch)
    assert algorithm.failed
    assert all(torch.equal(value, before[name]) for name, value in algorithm.named_parameters())
