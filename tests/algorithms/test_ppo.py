import math

import pytest
import torch
from torch import Tensor, nn

from rl_training.algorithms import PPOAlgorithm, PPOConfig
from rl_training.algorithms.on_policy import NetArch
from rl_training.core import Box, Dict, Discrete, MultiBinary, RolloutBatch, Schedule, Space, Spec, tree_map
from rl_training.experience import Rollout, RolloutSettings
from tests.rollouts import act_out, flat

OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)
DISCRETE = Spec(OBS, Discrete(4))
CONTINUOUS = Spec(OBS, Box((2,), (-1.0,) * 2, (1.0,) * 2))


def learned_encoder(space: Space) -> nn.Module:
    """An encoder with parameters, so that sharing it or not makes a difference."""
    encoder = nn.Linear(3, 5)
    encoder.features_dim = 5
    return encoder


ENCODER = f"{__name__}:learned_encoder"


def make(spec: Spec = DISCRETE, **settings: object) -> PPOAlgorithm:
    torch.manual_seed(0)
    return PPOAlgorithm(PPOConfig(**{"net_arch": NetArch((16,), (16,)), **settings}), spec)


def make_batch(algorithm: PPOAlgorithm, *, seed: int = 0, num_steps: int = 8) -> RolloutBatch:
    """One prepared rollout of the algorithm's own policy, as rows."""
    gen = torch.Generator().manual_seed(seed)
    obs, next_obs = torch.randn(2, num_steps, 4, 3, generator=gen)
    return flat(algorithm.prepare(act_out(algorithm, obs, next_obs, seed=seed))[0])


def shifted(batch: RolloutBatch, **changes: Tensor | float) -> RolloutBatch:
    """The batch with numbers added to some of its columns."""
    return batch._replace(**{name: getattr(batch, name) + x for name, x in changes.items()})


def everything(algorithm: PPOAlgorithm) -> dict[str, Tensor]:
    """Parameters, optimizer state and schedules; not the two flags."""
    state = algorithm.state_dict()
    return {name: value.clone() for name, value in state.items() if name not in ("stop", "failed")}


def moved(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    return {name for name, value in before.items() if not torch.equal(value, after[name])}


def gradients(algorithm: PPOAlgorithm, batch: RolloutBatch) -> tuple[Tensor, ...]:
    loss = algorithm.loss(batch).value
    return torch.autograd.grad(loss, list(algorithm.parameters()), allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize("spec", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
@pytest.mark.parametrize("normalize", [False, True])
def test_first_update_has_ratio_one(spec: Spec, normalize: bool) -> None:
    algorithm = make(spec, normalize_advantage=normalize, normalize_observation=True)
    algorithm.observe(3 + torch.randn(6, 4, 3), torch.ones(6, 4, dtype=torch.bool))
    batch = make_batch(algorithm)
    advantage = batch.advantage
    if normalize:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    metrics = algorithm.update(batch).metrics
    torch.testing.assert_close(metrics["policy_gradient_loss"], -advantage.mean(), rtol=0, atol=1e-6)
    assert metrics["approx_kl"].item() == pytest.approx(0, abs=1e-9)
    assert metrics["clip_fraction"].item() == 0
    second = algorithm.update(batch).metrics
    assert second["approx_kl"].item() > 1e-8  # the policy has moved


def test_loss_is_the_sum_of_its_parts() -> None:
    algorithm = make(ent_coef=Schedule(0.3, 0.3), vf_coef=0.7, normalize_advantage=False)
    batch = make_batch(algorithm)
    metrics = algorithm.update(batch).metrics
    advantage, returns, value = batch.advantage, batch.target, batch.value
    assert metrics["value_loss"].item() == pytest.approx((value - returns).square().mean().item(), rel=1e-5)
    assert metrics["entropy_loss"].item() == pytest.approx(-math.log(4), abs=1e-3)
    total = -advantage.mean() + 0.7 * metrics["value_loss"] + 0.3 * metrics["entropy_loss"]
    assert metrics["loss"].item() == pytest.approx(total.item(), rel=1e-5)


def test_clipping_and_its_metrics() -> None:
    algorithm = make(normalize_advantage=False)
    # The old log-probabilities are lowered by log 1.3: every ratio is 1.3, beyond the range of 0.2.
    batch = shifted(make_batch(algorithm), log_prob=-math.log(1.3))
    advantage = batch.advantage
    metrics = algorithm.loss(batch).metrics
    expected = -torch.where(advantage > 0, 1.2 * advantage, 1.3 * advantage).mean()
    torch.testing.assert_close(metrics["policy_gradient_loss"], expected)
    assert metrics["clip_fraction"].item() == 1
    assert metrics["approx_kl"].item() == pytest.approx(0.3 - math.log(1.3), rel=1e-4)


def test_rising_advantage_beyond_the_range_gives_the_policy_no_gradient() -> None:
    algorithm = make(normalize_advantage=False, vf_coef=0.0)
    batch = shifted(make_batch(algorithm), log_prob=-math.log(1.3))
    positive = batch._replace(advantage=batch.advantage.abs() + 0.1)
    assert all(not grad.any() for grad in gradients(algorithm, positive))
    negative = batch._replace(advantage=-batch.advantage.abs() - 0.1)
    assert any(grad.any() for grad in gradients(algorithm, negative))


def test_target_kl_stops_and_leaves_everything_as_it_was() -> None:
    algorithm = make(target_kl=0.01)
    batch = make_batch(algorithm)
    before = everything(algorithm)
    metrics = algorithm.update(shifted(batch, log_prob=-math.log(1.3))).metrics
    assert metrics["approx_kl"].item() > 0.015
    assert algorithm.stop
    algorithm.update(batch)  # would be fine by itself, but the iteration is over
    assert not moved(before, everything(algorithm))
    assert not algorithm.failed
    algorithm.stop.fill_(False)  # the next iteration
    algorithm.update(batch)
    assert moved(before, everything(algorithm))
    assert not algorithm.stop


@pytest.mark.parametrize(("target_kl", "stops"), [(None, False), (0.024, True), (0.026, False)])
def test_target_kl_counts_one_and_a_half_times(target_kl: float | None, stops: bool) -> None:
    algorithm = make(target_kl=target_kl)
    batch = shifted(make_batch(algorithm), log_prob=-math.log(1.3))  # the estimate is 0.0376 = 1.5 * 0.0251
    algorithm.update(batch)
    assert bool(algorithm.stop) is stops


def test_schedules_move_together() -> None:
    algorithm = make(
        learning_rate=Schedule(1e-3, 0.0),
        vf_learning_rate=Schedule(1e-2, 0.0, 0.5),
        clip_range=Schedule(0.2, 0.1),
        clip_range_vf=Schedule(0.4, 0.0),
        ent_coef=Schedule(0.1, 0.02),
    )
    algorithm.set_progress(0.25)
    rates = [rate().item() for rate in algorithm.optimizers["all"].learning_rates]
    assert rates == pytest.approx([7.5e-4, 5e-3])
    assert algorithm.clip_range().item() == pytest.approx(0.175)
    assert algorithm.clip_range_vf().item() == pytest.approx(0.3)
    assert algorithm.ent_coef().item() == pytest.approx(0.08)
    diagnostics = algorithm.diagnostics()
    assert diagnostics["learning_rate"].item() == pytest.approx(7.5e-4)
    assert diagnostics["clip_range"].item() == pytest.approx(0.175)


def test_schedules_are_used() -> None:
    algorithm = make(learning_rate=Schedule(1e-3, 0.0), clip_range=Schedule(0.2, 0.05), ent_coef=Schedule(0.0, 1.0))
    batch = shifted(make_batch(algorithm), log_prob=-math.log(1.1))
    first = algorithm.loss(batch).metrics
    assert first["clip_fraction"].item() == 0
    assert (first["loss"] - first["policy_gradient_loss"] - 0.5 * first["value_loss"]).item() == pytest.approx(0)
    algorithm.set_progress(1.0)
    last = algorithm.loss(batch).metrics
    assert last["clip_fraction"].item() == 1
    entropy_part = last["loss"] - last["policy_gradient_loss"] - 0.5 * last["value_loss"]
    assert entropy_part.item() == pytest.approx(-math.log(4), abs=1e-3)
    before = {name: value.clone() for name, value in algorithm.named_parameters()}
    algorithm.update(batch)  # at learning rate 0
    assert not moved(before, dict(algorithm.named_parameters()))


def test_value_clipping_is_used() -> None:
    plain, clipped = make(), make(clip_range_vf=Schedule(0.1, 0.1))
    batch = shifted(make_batch(plain), value=1.0)  # as if the value had fallen by 1 since collection
    value = plain.value(batch.obs).detach()
    target = batch.target
    wanted = torch.maximum((value - target).square(), (value + 0.9 - target).square()).mean()
    assert plain.loss(batch).metrics["value_loss"].item() == pytest.approx((value - target).square().mean().item())
    assert clipped.loss(batch).metrics["value_loss"].item() == pytest.approx(wanted.item())


def test_value_function_may_have_its_own_learning_rate() -> None:
    slow, same, fast = (
        make(learning_rate=Schedule(1e-3, 1e-3), vf_learning_rate=vf)
        for vf in (None, Schedule(1e-3, 1e-3), Schedule(0.01, 0.01))
    )
    start = {name: value.clone() for name, value in slow.named_parameters()}
    for algorithm in (slow, same, fast):
        algorithm.update(make_batch(algorithm))
    steps = [{name: p.detach() - start[name] for name, p in a.named_parameters()} for a in (slow, same, fast)]
    for name in start:
        torch.testing.assert_close(steps[1][name], steps[0][name])
        factor = 10 if name.startswith("value_head") else 1
        torch.testing.assert_close(steps[2][name], factor * steps[0][name], rtol=1e-3, atol=1e-7)
    assert all(step.any() for step in steps[0].values())


def ids(module: nn.Module) -> set[int]:
    return {id(parameter) for parameter in module.parameters()}


@pytest.mark.parametrize(
    ("settings", "num_shared"),
    [
        ({}, 0),  # a flat observation has nothing to share
        ({"encoder": ENCODER}, 2),
        ({"encoder": ENCODER, "share_features_extractor": False}, 0),
        ({"net_arch": NetArch((8,), (8,), shared=(6,))}, 2),
        ({"net_arch": NetArch((8,), (8,), shared=(6,)), "encoder": ENCODER}, 4),
    ],
    ids=["flat", "shared encoder", "separate encoders", "shared layers", "both shared"],
)
@pytest.mark.parametrize("vf_learning_rate", [None, Schedule(0.1, 0.1)])
def test_policy_and_value_share_what_they_should(
    settings: dict, num_shared: int, vf_learning_rate: Schedule | None
) -> None:
    algorithm = make(**settings, vf_learning_rate=vf_learning_rate)
    value_side = ids(algorithm.value_trunk) | ids(algorithm.value_head)
    assert len(ids(algorithm.policy) & value_side) == num_shared
    stepped = [id(parameter) for parameter in algorithm.optimizers["all"].targets]
    assert len(stepped) == len(set(stepped))
    assert set(stepped) == ids(algorithm) == ids(algorithm.policy) | value_side


def test_separate_encoders_learn_from_their_own_loss_only() -> None:
    algorithm = make(encoder=ENCODER, share_features_extractor=False, vf_coef=0.0, normalize_advantage=False)
    grads = dict(zip(dict(algorithm.named_parameters()), gradients(algorithm, make_batch(algorithm)), strict=True))
    assert grads["policy.trunk.own.weight"].any()
    assert not grads["value_trunk.own.weight"].any()


def test_networks_start_orthogonal_with_the_published_gains() -> None:
    algorithm = make(net_arch=NetArch())
    for net, outputs, last_gain in ((algorithm.policy.head.net, 4, 0.01), (algorithm.value_head, 1, 1.0)):
        weights, biases = list(net.parameters())[::2], list(net.parameters())[1::2]
        assert [len(weight) for weight in weights] == [64, 64, outputs]
        for weight, gain in zip(weights, (2**0.5, 2**0.5, last_gain), strict=True):
            singular = torch.linalg.svdvals(weight)
            torch.testing.assert_close(singular, torch.full_like(singular, gain), rtol=1e-4, atol=0)
        assert not any(bias.any() for bias in biases)


def test_defaults_that_matter() -> None:
    algorithm = make()
    optimizer = algorithm.optimizers["all"]
    assert type(optimizer).__name__ == "Adam"
    assert optimizer.eps == 1e-5
    assert optimizer.betas == (0.9, 0.999)
    assert optimizer.max_grad_norm == 0.5
    c = PPOConfig()
    assert (c.needs.settings["n_steps"], c.batch_size, c.n_epochs, c.gamma, c.gae_lambda) == (2048, 64, 10, 0.99, 0.95)
    assert (c.learning_rate.at(0), c.clip_range.at(0), c.ent_coef.at(0), c.vf_coef) == (3e-4, 0.2, 0.0, 0.5)
    assert c.net_arch == NetArch((64, 64), (64, 64), ())
    assert c.activation_fn == "tanh"
    assert c.clip_range_vf is None
    assert c.target_kl is None


def test_every_sample_is_visited_once_per_epoch() -> None:
    algorithm = make(n_epochs=3, batch_size=10)
    rollout = Rollout(8, seed=0)
    rollout.add(act_out(algorithm, torch.randn(8, 4, 3), torch.randn(8, 4, 3)))
    storage, _ = rollout.prepare(algorithm)
    assert storage.action.shape == (32,)
    epochs = [torch.cat(list(epoch)) for epoch in rollout.draws(algorithm.passes()[0])]
    assert len(epochs) == 3
    assert all(sorted(epoch.tolist()) == list(range(32)) for epoch in epochs)


def test_prepare_gives_advantages_and_returns() -> None:
    algorithm = make(gamma=0.9, gae_lambda=0.0)
    rollout = act_out(algorithm, torch.randn(6, 4, 3), torch.randn(6, 4, 3))
    rollout.valid[2, 1] = False
    batch, metrics = algorithm.prepare(rollout)
    value, next_value = algorithm.value(rollout.obs), algorithm.value(rollout.next_obs)
    target = rollout.reward + 0.9 * torch.where(rollout.terminated, 0.0, next_value)
    torch.testing.assert_close(batch.advantage, (target - value).detach())
    torch.testing.assert_close(batch.target, target.detach())
    torch.testing.assert_close(batch.value, value.detach())
    assert torch.equal(batch.log_prob, rollout.log_prob)
    assert torch.equal(batch.weight, rollout.valid.float())
    error, counted = (target - value)[rollout.valid], target[rollout.valid]
    residual = 1 - error.var(correction=0) / counted.var(correction=0)
    assert metrics["explained_variance"].item() == pytest.approx(residual.item(), rel=1e-4)


def test_observation_statistics_change_in_observe_only() -> None:
    algorithm = make(normalize_observation=True)
    norm = algorithm.policy.normalizer.norms[0]
    rollout = act_out(algorithm, 5 + torch.randn(6, 4, 3), torch.randn(6, 4, 3))
    algorithm.update(flat(algorithm.prepare(rollout)[0]))
    assert norm.count.item() == 0
    algorithm.observe(rollout.obs, rollout.valid)
    assert norm.count.item() == 24
    torch.testing.assert_close(norm.mean, rollout.obs.double().mean((0, 1)))


@pytest.mark.parametrize("column", ["advantage", "target"])
def test_a_batch_that_is_not_finite_sets_failed_and_changes_nothing(column: str) -> None:
    algorithm = make()
    batch = make_batch(algorithm)
    algorithm.update(batch)
    before = everything(algorithm)
    broken = torch.zeros(len(batch.action))
    broken[3] = torch.nan
    metrics = algorithm.update(shifted(batch, **{column: broken})).metrics
    assert not torch.isfinite(metrics["loss"])
    assert algorithm.failed
    assert algorithm.stop
    algorithm.update(batch)
    assert not moved(before, everything(algorithm))
    algorithm.stop.fill_(False)
    algorithm.update(batch)
    assert algorithm.failed  # sticky for good


@pytest.mark.parametrize("spec", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_rows_of_weight_zero_contribute_no_gradient(spec: Spec) -> None:
    algorithm = make(spec, ent_coef=Schedule(0.1, 0.1), clip_range_vf=Schedule(0.1, 0.1))
    batch = make_batch(algorithm)
    counts = torch.rand(32, generator=torch.Generator().manual_seed(3)) < 0.6
    batch = batch._replace(weight=counts.float())
    alone = gradients(algorithm, tree_map(lambda x: x[counts], batch))
    torch.testing.assert_close(gradients(algorithm, batch), alone, rtol=1e-4, atol=1e-6)
    garbage = shifted(batch, advantage=torch.where(counts, 0.0, 1e3), target=torch.where(counts, 0.0, -1e3))
    garbage = garbage._replace(obs=torch.where(counts.unsqueeze(-1), batch.obs, 7.0))
    torch.testing.assert_close(gradients(algorithm, garbage), alone, rtol=1e-4, atol=1e-6)


def test_a_minibatch_without_weight_is_no_failure_and_no_gradient() -> None:
    algorithm = make()
    batch = make_batch(algorithm)
    before = {name: value.clone() for name, value in algorithm.named_parameters()}
    algorithm.update(batch._replace(weight=torch.zeros(32)))
    assert not algorithm.failed
    assert not moved(before, dict(algorithm.named_parameters()))


def test_masked_actions_get_no_gradient() -> None:
    spec = Spec(Dict({"x": OBS, "action_mask": MultiBinary(4)}), Discrete(4))
    algorithm = make(spec, ent_coef=Schedule(0.1, 0.1))
    mask = torch.tensor([1, 0, 1, 1]).expand(8, 4, 4)
    obs = {"x": torch.randn(8, 4, 3), "action_mask": mask}
    batch = flat(algorithm.prepare(act_out(algorithm, obs, obs))[0])
    loss = algorithm.loss(batch).value
    last_bias = list(algorithm.policy.head.net.parameters())[-1]
    (bias,) = torch.autograd.grad(loss, last_bias)
    assert bias[1].item() == 0
    assert (bias[[0, 2, 3]] != 0).all()


def test_updates_raise_the_probability_of_what_paid() -> None:
    algorithm = make(learning_rate=Schedule(1e-2, 1e-2), normalize_advantage=False)
    batch = make_batch(algorithm)
    paid = (batch.action == 2).float()
    batch = batch._replace(advantage=2 * paid - 1)
    before = algorithm.policy.distribution(batch.obs).log_probs[:, 2].mean()
    for _ in range(5):
        algorithm.update(batch)
    assert algorithm.policy.distribution(batch.obs).log_probs[:, 2].mean() > before + 0.05


@pytest.mark.parametrize(
    ("n_steps", "settings", "num_envs", "message"),
    [
        (8, {"batch_size": 64}, 4, "larger than a rollout"),
        (11, {"batch_size": 10}, 1, "minibatch of one sample"),
        (8, {"batch_size": 1}, 1, "minibatch of one sample"),
    ],
)
def test_check_refuses(n_steps: int, settings: dict, num_envs: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PPOConfig(**settings).check(RolloutSettings(n_steps=n_steps).supply(num_envs))


def test_check_accepts() -> None:
    PPOConfig(batch_size=10, normalize_advantage=False).check(RolloutSettings(n_steps=11).supply(1))
    PPOConfig(batch_size=32).check(RolloutSettings(n_steps=8).supply(4))
    PPOConfig(batch_size=10).check(RolloutSettings(n_steps=12).supply(1))
