import pytest
import torch
from torch import Tensor

from rl_training.algorithms import A2CAlgorithm, A2CConfig, PPOAlgorithm, PPOConfig
from rl_training.algorithms.on_policy import NetArch
from rl_training.algorithms.ppo import ActorCriticAlgorithm
from rl_training.core import Box, Discrete, Pass, RolloutBatch, Schedule, Spec
from rl_training.experience import RolloutSettings
from tests.rollouts import act_out, flat

OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)
SPECS = {"discrete": Spec(OBS, Discrete(4)), "continuous": Spec(OBS, Box((2,), (-1.0,) * 2, (1.0,) * 2))}
SHARED = {
    "net_arch": NetArch((16,), (16,)),
    "learning_rate": Schedule(7e-4, 7e-4),
    "gae_lambda": 1.0,
    "ent_coef": Schedule(0.01, 0.01),
    "normalize_advantage": False,
}


def make(spec: Spec = SPECS["discrete"], **settings: object) -> A2CAlgorithm:
    torch.manual_seed(0)
    return A2CAlgorithm(A2CConfig(**SHARED | settings), spec)


def make_batch(algorithm: ActorCriticAlgorithm, *, seed: int = 0) -> RolloutBatch:
    obs, next_obs = torch.randn(2, 5, 8, 3, generator=torch.Generator().manual_seed(seed))
    return flat(algorithm.prepare(act_out(algorithm, obs, next_obs, seed=seed))[0])


def gradients(algorithm: ActorCriticAlgorithm, batch: RolloutBatch) -> tuple[Tensor, ...]:
    loss = algorithm.loss(batch).value
    return torch.autograd.grad(loss, list(algorithm.parameters()))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_equals_ppo_with_one_epoch_and_one_minibatch(spec: Spec) -> None:
    # arXiv:2205.09123: at ratio 1 the clipped objective has the plain policy gradient.
    a2c = make(spec, use_rms_prop=False, rms_prop_eps=1e-5)
    torch.manual_seed(0)
    ppo = PPOAlgorithm(PPOConfig(**SHARED, batch_size=40, n_epochs=1, adam_eps=1e-5), spec)
    start = [p.detach().clone() for p in ppo.parameters()]
    for iteration in range(4):
        batches = [make_batch(algorithm, seed=iteration) for algorithm in (a2c, ppo)]
        ours, theirs = (gradients(*pair) for pair in zip((a2c, ppo), batches, strict=True))
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
        a2c.update(batches[0])
        ppo.update(batches[1])
        torch.testing.assert_close(list(a2c.parameters()), list(ppo.parameters()), rtol=0, atol=1e-6)
    assert all((now - then).abs().max() > 1e-4 for now, then in zip(ppo.parameters(), start, strict=True))


def test_policy_loss_is_the_policy_gradient() -> None:
    algorithm = make()
    batch = make_batch(algorithm)
    metrics = algorithm.update(batch).metrics
    expected = -(batch.advantage * batch.log_prob).mean()
    torch.testing.assert_close(metrics["policy_gradient_loss"], expected)
    expected_value_loss = (batch.value - batch.target).square().mean()
    torch.testing.assert_close(metrics["value_loss"], expected_value_loss)


def test_advantages_are_normalised_only_if_asked() -> None:
    plain, normalized = make(), make(normalize_advantage=True)
    batch = make_batch(plain)
    advantage = batch.advantage
    expected = -((advantage - advantage.mean()) / advantage.std() * batch.log_prob).mean()
    torch.testing.assert_close(normalized.loss(batch).metrics["policy_gradient_loss"], expected, rtol=1e-5, atol=1e-6)
    assert (plain.loss(batch).metrics["policy_gradient_loss"] - expected).abs() > 1e-3


def test_defaults_that_matter() -> None:
    c = A2CConfig()
    assert (c.needs.settings["n_steps"], c.gamma, c.gae_lambda, c.vf_coef, c.max_grad_norm) == (5, 0.99, 1.0, 0.5, 0.5)
    assert c.learning_rate == Schedule(7e-4, 7e-4)
    assert not c.normalize_advantage
    optimizer = make().optimizers["all"]
    assert (type(optimizer).__name__, optimizer.alpha, optimizer.eps, optimizer.tf_like) == (
        "RMSprop",
        0.99,
        1e-5,
        False,
    )
    assert make().passes() == (Pass(rounds=1, batch_size=None),)


@pytest.mark.parametrize(
    ("settings", "step"),
    [
        ({"use_rms_prop": False}, 7e-4),  # Adam's first step is the learning rate
        ({}, 7e-3),  # RMSprop's is ten times that
    ],
)
def test_the_optimizer_is_the_one_asked_for(settings: dict, step: float) -> None:
    algorithm = make(**settings, max_grad_norm=None)
    before = [p.detach().clone() for p in algorithm.parameters()]
    batch = make_batch(algorithm)
    grads = gradients(algorithm, batch)
    algorithm.update(batch)
    for grad, now, then in zip(grads, algorithm.parameters(), before, strict=True):
        large = grad.abs() > 1e-2
        assert (now - then)[large].abs().tolist() == pytest.approx([step] * int(large.sum()), rel=0.02)


def test_tf_like_rmsprop_is_passed_on() -> None:
    algorithm = make(rms_prop_tf=True)
    assert algorithm.optimizers["all"].tf_like
    assert torch.equal(algorithm.optimizers["all"].square, torch.ones_like(algorithm.optimizers["all"].square))


def test_a_batch_that_is_not_finite_sets_failed_and_changes_nothing() -> None:
    algorithm = make()
    batch = make_batch(algorithm)
    before = {name: value.clone() for name, value in algorithm.state_dict().items() if name not in ("stop", "failed")}
    batch.target[7] = torch.inf
    algorithm.update(batch)
    assert algorithm.failed
    after = algorithm.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_rows_of_weight_zero_contribute_no_gradient() -> None:
    algorithm = make()
    batch = make_batch(algorithm)
    weight = torch.ones(40)
    weight[::3] = 0
    batch = batch._replace(weight=weight)
    wanted = gradients(algorithm, batch)
    for column in (batch.advantage, batch.target):
        column[::3] = 1e3
    assert all(map(torch.equal, gradients(algorithm, batch), wanted))
    batch.advantage[1] += 1
    assert not all(map(torch.equal, gradients(algorithm, batch), wanted))


def test_check_refuses_settings_that_do_not_go_together() -> None:
    with pytest.raises(ValueError, match="use_rms_prop=true"):
        A2CConfig(use_rms_prop=False, rms_prop_tf=True).check(RolloutSettings(n_steps=5).supply(1))
    with pytest.raises(ValueError, match="more than one sample"):
        A2CConfig(normalize_advantage=True).check(RolloutSettings(n_steps=1).supply(1))
    A2CConfig(normalize_advantage=True).check(RolloutSettings(n_steps=1).supply(2))
