"""IMPALA: A2C while the acting policy is the current one, and what it corrects when it is an older one."""

import pytest
import torch
from torch import Tensor

from rl_training.algorithms import A2CAlgorithm, A2CConfig, IMPALAAlgorithm, IMPALAConfig
from rl_training.algorithms.on_policy import NetArch
from rl_training.core import Box, Discrete, Pass, RolloutBatch, Schedule, Spec, Transition
from rl_training.experience import RolloutSettings
from rl_training.functional import v_trace
from tests.rollouts import act_out, flat

OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)
SPECS = {"discrete": Spec(OBS, Discrete(4)), "continuous": Spec(OBS, Box((2,), (-1.0,) * 2, (1.0,) * 2))}
SHARED = {
    "net_arch": NetArch((16,), (16,)),
    "learning_rate": Schedule(7e-4, 7e-4),
    "gae_lambda": 0.9,
    "vf_coef": 0.5,
    "ent_coef": Schedule(0.01, 0.01),
}


def make(spec: Spec = SPECS["discrete"], **settings: object) -> IMPALAAlgorithm:
    torch.manual_seed(0)
    return IMPALAAlgorithm(IMPALAConfig(**SHARED | settings), spec)


def acted(algorithm: A2CAlgorithm, *, seed: int = 0) -> Transition:
    """Whole episodes follow from step to step: a successor is the next observation."""
    obs = torch.randn(6, 8, 3, generator=torch.Generator().manual_seed(seed))
    return act_out(algorithm, obs[:-1], obs[1:], seed=seed)


@torch.no_grad()
def moved_on(algorithm: A2CAlgorithm) -> None:
    """The policy as it is some updates later."""
    gen = torch.Generator().manual_seed(3)
    for parameter in algorithm.policy.parameters():
        parameter += 0.3 * torch.randn(parameter.shape, generator=gen)


def log_prob_now(algorithm: A2CAlgorithm, batch: RolloutBatch | Transition) -> Tensor:
    return algorithm.policy.distribution(batch.obs).log_prob(batch.action)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_it_is_a2c_while_the_acting_policy_is_the_current_one(spec: Spec) -> None:
    impala = make(spec)
    torch.manual_seed(0)
    a2c = A2CAlgorithm(A2CConfig(**SHARED), spec)
    start = [p.detach().clone() for p in a2c.parameters()]
    for iteration in range(4):
        for algorithm in (impala, a2c):
            algorithm.update(flat(algorithm.prepare(acted(algorithm, seed=iteration))[0]))
        torch.testing.assert_close(list(impala.parameters()), list(a2c.parameters()), rtol=0, atol=1e-5)
    assert all((now - then).abs().max() > 1e-4 for now, then in zip(a2c.parameters(), start, strict=True))


def test_steps_of_an_older_policy_are_corrected_towards_the_current_one() -> None:
    algorithm = make(rho_bar=1.5, c_bar=0.8)
    rollout = acted(algorithm)
    moved_on(algorithm)
    batch, _ = algorithm.prepare(rollout)
    with torch.no_grad():
        log_ratio = log_prob_now(algorithm, rollout) - rollout.log_prob
        expected = v_trace(
            log_ratio,
            rollout.reward,
            algorithm.value(rollout.obs),
            algorithm.value(rollout.next_obs),
            rollout.terminated,
            rollout.truncated,
            gamma=0.99,
            lam=0.9,
            rho_bar=1.5,
            c_bar=0.8,
        )
    assert log_ratio.abs().max() > 0.3
    assert (log_ratio.exp() > 1.5).any()
    torch.testing.assert_close(batch.target, expected.target)
    torch.testing.assert_close(batch.advantage, expected.advantage)
    assert torch.equal(batch.log_prob, rollout.log_prob)


@pytest.mark.parametrize("normalized", [False, True])
def test_an_action_counts_by_how_likely_it_is_by_now(normalized: bool) -> None:
    algorithm = make(rho_bar=1.5, normalize_advantage=normalized, vf_coef=0.0, ent_coef=Schedule(0.0, 0.0))
    rollout = acted(algorithm)
    moved_on(algorithm)
    batch = flat(algorithm.prepare(rollout)[0])
    moved_on(algorithm)  # a minibatch later: the weights are those of now
    advantage = batch.advantage
    if normalized:
        advantage = (advantage - advantage.mean()) / advantage.std()
    log_prob = log_prob_now(algorithm, batch)
    rho = (log_prob - batch.log_prob).exp().clamp(max=1.5).detach()
    expected, loss = -(rho * advantage * log_prob).mean(), algorithm.loss(batch)
    torch.testing.assert_close(loss.value, expected)
    torch.testing.assert_close(loss.metrics["rho"], rho.mean())
    parameters = list(algorithm.policy.parameters())
    # Nothing flows through the weights.
    torch.testing.assert_close(torch.autograd.grad(loss.value, parameters), torch.autograd.grad(expected, parameters))


def test_defaults_that_matter() -> None:
    c = IMPALAConfig()
    assert (c.needs.settings["n_steps"], c.gamma, c.gae_lambda, c.rho_bar, c.c_bar) == (20, 0.99, 1.0, 1.0, 1.0)
    assert (c.vf_coef, c.max_grad_norm, c.normalize_advantage, c.use_rms_prop) == (0.25, 0.5, False, True)
    assert (c.learning_rate, c.ent_coef) == (Schedule(6e-4, 0.0), Schedule(0.01, 0.01))
    assert make().passes() == (Pass(1, None),)
    assert make(batch_size=8).passes() == (Pass(1, 8),)
    assert make(batch_size=8, n_epochs=3).passes() == (Pass(3, 8),)
    assert IMPALAAlgorithm.corrects_lag
    assert not A2CAlgorithm.corrects_lag


def test_check_refuses_settings_that_do_not_go_together() -> None:
    supply = RolloutSettings(n_steps=5).supply(4)
    with pytest.raises(ValueError, match=r"c_bar=2\.0 is above rho_bar=1\.0"):
        IMPALAConfig(c_bar=2.0).check(supply)
    with pytest.raises(ValueError, match="use_rms_prop=true"):  # what A2C refuses
        IMPALAConfig(use_rms_prop=False, rms_prop_tf=True).check(supply)
    with pytest.raises(ValueError, match="batch_size=64"):
        IMPALAConfig(batch_size=64).check(supply)
    IMPALAConfig(batch_size=20, c_bar=1.5, rho_bar=2.0).check(supply)
