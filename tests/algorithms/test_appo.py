"""APPO: PPO while the acting policy is the current one; near the target network, whoever acted, when it is not."""

import pytest
import torch

from rl_training.algorithms import APPOAlgorithm, APPOConfig, PPOAlgorithm, PPOConfig
from rl_training.core import Schedule, Spec
from rl_training.experience import RolloutSettings
from tests.algorithms.test_impala import SPECS, acted, log_prob_now, moved_on
from tests.rollouts import flat

SHARED = {
    "learning_rate": Schedule(1e-3, 1e-3),
    "gae_lambda": 0.9,
    "batch_size": 40,
    "clip_range_vf": Schedule(0.2, 0.2),
}


def make(spec: Spec = SPECS["discrete"], **settings: object) -> APPOAlgorithm:
    torch.manual_seed(0)
    return APPOAlgorithm(APPOConfig(**SHARED | settings), spec)


def learned(algorithm: PPOAlgorithm) -> list[torch.Tensor]:
    return [p for p in algorithm.parameters() if p.requires_grad]


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_it_is_ppo_while_the_acting_policy_is_the_current_one(spec: Spec) -> None:
    appo = make(spec)
    torch.manual_seed(0)
    ppo = PPOAlgorithm(PPOConfig(**SHARED), spec)
    start = [p.detach().clone() for p in learned(ppo)]
    for iteration in range(3):
        for algorithm in (appo, ppo):
            batch = flat(algorithm.prepare(acted(algorithm, seed=iteration))[0])
            for _ in range(4):
                algorithm.update(batch)
        torch.testing.assert_close(learned(appo), learned(ppo), rtol=0, atol=2e-5)
    assert all((now - then).abs().max() > 1e-3 for now, then in zip(learned(ppo), start, strict=True))


@pytest.mark.parametrize("normalized", [False, True])
def test_the_objective_is_clipped_around_the_target_network_and_weighted_by_its_ratio(normalized: bool) -> None:
    algorithm = make(rho_bar=1.5, normalize_advantage=normalized)
    rollout = acted(algorithm)
    moved_on(algorithm)
    batch = flat(algorithm.prepare(rollout)[0])
    with torch.no_grad():
        before = log_prob_now(algorithm, batch)
        rho = (before - rollout.log_prob.flatten()).exp().clamp(max=1.5)
    torch.testing.assert_close(batch.log_prob, before)  # the target is the policy as it was before the epochs
    assert ((rho < 0.9) | (rho > 1.1)).any()
    moved_on(algorithm)
    with torch.no_grad():
        ratio = (log_prob_now(algorithm, batch) - before).exp()
    advantage = batch.advantage
    if normalized:  # over what the target network would have done
        centred = advantage - (rho * advantage).sum() / rho.sum()
        advantage = centred / ((rho * centred.square()).sum() / (rho.sum() - 1)).sqrt()
    expected = -torch.minimum(ratio * rho * advantage, ratio.clamp(0.8, 1.2) * rho * advantage).mean()
    found = algorithm.loss(batch).metrics["policy_gradient_loss"]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert ((ratio < 0.8) | (ratio > 1.2)).any()


def test_the_target_follows_every_so_many_rollouts() -> None:
    algorithm = make(target_update_interval=3)
    matches = []
    for _ in range(7):
        moved_on(algorithm)
        algorithm.prepare(acted(algorithm))
        pairs = zip(algorithm.target.parameters(), algorithm.policy.parameters(), strict=True)
        matches.append(all(torch.equal(*pair) for pair in pairs))
    assert matches == [True, False, False, True, False, False, True]


def test_nobody_learns_the_target() -> None:
    algorithm = make()
    batch = flat(algorithm.prepare(acted(algorithm))[0])
    before = [p.clone() for p in algorithm.target.parameters()]
    algorithm.update(batch)
    assert all(map(torch.equal, algorithm.target.parameters(), before))
    assert not any(p.requires_grad for p in algorithm.target.parameters())
    assert any(not torch.equal(*pair) for pair in zip(algorithm.policy.parameters(), before, strict=True))


def test_settings_are_ppos_and_those_of_v_trace() -> None:
    ours, ppo = APPOConfig(), PPOConfig()
    assert all(getattr(ours, name) == getattr(ppo, name) for name in PPOConfig.__dataclass_fields__)
    assert ours.needs == ppo.needs
    assert (ours.rho_bar, ours.c_bar, ours.target_update_interval) == (1.0, 1.0, 1)
    assert APPOAlgorithm.corrects_lag
    supply = RolloutSettings(n_steps=16).supply(4)
    with pytest.raises(ValueError, match=r"c_bar=2\.0 is above rho_bar=1\.0"):
        APPOConfig(c_bar=2.0).check(supply)
    with pytest.raises(ValueError, match="minibatch of one sample"):  # what PPO refuses
        APPOConfig(batch_size=1).check(supply)
