import math

import pytest
import torch
from torch import Tensor

from rl_training import DiscreteSAC
from rl_training.algorithms import DiscreteSACAlgorithm, DiscreteSACConfig
from rl_training.algorithms.discrete_sac import soft_value
from rl_training.core import Box, Dict, Discrete, MultiBinary, Schedule, Spec, StepBatch
from rl_training.functional import Categorical
from tests.conformance.probes import Masked

OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)
PLAIN = Spec(OBS, Discrete(2))
MASKED = Spec(Dict({"x": OBS, "action_mask": MultiBinary(3)}), Discrete(3))
BEST = torch.tensor([0.7311, 0.2689])  # softmax of Q = (1, 0) at temperature 1


def make(spec: Spec = PLAIN, **settings: object) -> DiscreteSACAlgorithm:
    torch.manual_seed(0)
    return DiscreteSACAlgorithm(DiscreteSACConfig(**{"net_arch": ()} | settings), spec)


def say(critics: torch.nn.Module, *values: tuple[float, ...]) -> None:
    """Makes critics without hidden layers say the same of every observation."""
    with torch.no_grad():
        for critic, q in zip(critics, values, strict=True):
            critic.advantage.weight0.zero_()
            critic.advantage.bias0.copy_(torch.tensor(q))


def act_like(algorithm: DiscreteSACAlgorithm, logits: tuple[float, ...]) -> None:
    with torch.no_grad():
        algorithm.policy.head.net.weight0.zero_()
        algorithm.policy.head.net.bias0.copy_(torch.tensor(logits))


def make_batch(num: int = 4, **changes: object) -> StepBatch:
    obs = torch.ones(num, 3)
    action = torch.arange(num) % 2
    ones = torch.ones(num)
    return StepBatch(obs, action, ones, torch.full((num,), 0.5), obs, ones, {})._replace(**changes)


def masked_batch(mask: list[int]) -> StepBatch:
    obs = {"x": torch.ones(4, 3), "action_mask": torch.tensor(mask, dtype=torch.int8).expand(4, -1)}
    return make_batch(obs=obs, next_obs=obs)


def test_soft_value_of_the_best_policy() -> None:
    best = Categorical.from_logits(torch.tensor([1.0, 0.0]))
    value = soft_value(torch.tensor([1.0, 0.0]), best, torch.tensor(1.0))
    assert value.item() == pytest.approx(1.313262, abs=1e-6)
    worse = soft_value(torch.tensor([1.0, 0.0]), Categorical.from_logits(torch.zeros(2)), torch.tensor(1.0))
    assert worse.item() == pytest.approx(0.5 + math.log(2))


def test_soft_value_with_masks_is_finite_and_ignores_what_is_forbidden() -> None:
    logits = torch.zeros(2, 3, requires_grad=True)
    mask = torch.tensor([[1, 1, 0], [0, 0, 1]])
    value = soft_value(torch.tensor([1.0, 0.0, 1e6]), Categorical.from_logits(logits, mask), torch.tensor(2.0))
    assert value[0].item() == pytest.approx(0.5 + 2 * math.log(2))
    assert value[1].item() == pytest.approx(1e6)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    torch.testing.assert_close(gradient, torch.tensor([[0.25, -0.25, 0.0], [0.0, 0.0, 0.0]]))


def test_the_actor_finds_the_best_policy() -> None:
    algorithm = make(ent_coef=1.0, learning_rate=Schedule(0.05, 0.05))
    say(algorithm.critics, (1.0, 0.0), (4.0, 0.0))  # the lower of the two counts
    batch = make_batch()
    for _ in range(150):
        metrics = algorithm.minimize(algorithm.actor_loss, batch, "actor").metrics
    probs = algorithm.distribution(batch.obs).log_probs.exp().detach()
    torch.testing.assert_close(probs, BEST.expand(4, -1), rtol=0, atol=1e-3)
    assert metrics["actor_loss"].item() == pytest.approx(-1.313262, abs=1e-4)


def test_the_critics_regress_on_the_soft_value_of_the_lower_target() -> None:
    algorithm = make(ent_coef=1.0)
    act_like(algorithm, (1.0, 0.0))
    say(algorithm.critics, (2.0, 3.0), (0.0, 0.0))
    say(algorithm.targets, (1.0, 5.0), (8.0, 0.0))  # the lower of each action: (1, 0)
    target = 1 + 0.5 * 1.313262
    loss, _, rows = algorithm.critic_loss(make_batch())
    errors = torch.tensor([[2.0, 3.0], [0.0, 0.0]]) - target  # [critic, action]
    assert loss.item() == pytest.approx(errors.square().sum(0).mean().item(), rel=1e-5)
    torch.testing.assert_close(rows["priority"], errors.abs().mean(0).repeat(2))
    ended = algorithm.critic_loss(make_batch(discount=torch.zeros(4))).value
    assert ended.item() == pytest.approx((1 + 4 + 2 * 1) / 2)  # targets are 1: (2-1)^2 + 1 and (3-1)^2 + 1


def temperature_gradient(algorithm: DiscreteSACAlgorithm, batch: StepBatch) -> Tensor:
    loss = algorithm.ent_coef_loss(batch).value
    return torch.autograd.grad(loss, algorithm.log_ent_coef)[0]


def logit_for_entropy(entropy: float) -> float:
    """Of a choice of two, by bisection."""
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        p = 1 / (1 + math.exp(-middle))
        low, high = (middle, high) if -p * math.log(p) - (1 - p) * math.log(1 - p) > entropy else (low, middle)
    return low


def test_temperature_falls_above_rises_below_and_rests_at_the_target_entropy() -> None:
    algorithm, batch = make(ent_coef_init=0.7), make_batch()
    assert algorithm.target_entropy(batch.obs) == pytest.approx(0.89 * math.log(2))
    assert algorithm.ent_coef.item() == pytest.approx(0.7)
    act_like(algorithm, (0.0, 0.0))
    assert temperature_gradient(algorithm, batch).item() == pytest.approx(0.11 * math.log(2), abs=1e-6)
    act_like(algorithm, (10.0, 0.0))
    assert temperature_gradient(algorithm, batch).item() == pytest.approx(-0.89 * math.log(2), abs=1e-3)
    act_like(algorithm, (logit_for_entropy(0.89 * math.log(2)), 0.0))
    assert temperature_gradient(algorithm, batch).item() == pytest.approx(0.0, abs=1e-6)
    act_like(algorithm, (10.0, 0.0))
    algorithm.minimize(algorithm.ent_coef_loss, batch, "ent_coef")
    assert algorithm.ent_coef.item() > 0.7


@pytest.mark.parametrize("num", [2, 18])
def test_target_entropy_is_a_share_of_the_largest(num: int) -> None:
    obs = torch.ones(1, 3)
    assert make(Spec(OBS, Discrete(num))).target_entropy(obs) == pytest.approx(0.89 * math.log(num))
    half = make(Spec(OBS, Discrete(num)), target_entropy_ratio=0.5)
    assert half.target_entropy(obs) == pytest.approx(0.5 * math.log(num))


def test_target_entropy_counts_the_allowed_actions_of_every_row() -> None:
    mask = torch.tensor([[1, 1, 1], [1, 0, 1], [0, 1, 0]], dtype=torch.int8)
    target = make(MASKED, target_entropy_ratio=0.5).target_entropy({"x": torch.ones(3, 3), "action_mask": mask})
    torch.testing.assert_close(target, 0.5 * torch.tensor([3.0, 2.0, 1.0]).log())


def test_a_policy_as_random_as_its_mask_allows_does_not_raise_the_temperature() -> None:
    algorithm = make(MASKED)
    act_like(algorithm, (0.0, 0.0, 0.0))  # entropy log 2, the most that two allowed actions can have
    assert temperature_gradient(algorithm, masked_batch([1, 0, 1])).item() >= 0


def test_rows_that_do_not_count_may_allow_nothing() -> None:
    """As where a backend reset instead of stepping: the observation is the last one of an episode."""
    algorithm = make(MASKED)
    batch = masked_batch([1, 0, 1])
    obs = {name: column.clone() for name, column in batch.obs.items()}
    expected = temperature_gradient(algorithm, batch._replace(weight=torch.tensor([1.0, 1.0, 1.0, 0.0])))
    obs["action_mask"][3] = 0
    found = temperature_gradient(algorithm, batch._replace(obs=obs, weight=torch.tensor([1.0, 1.0, 1.0, 0.0])))
    torch.testing.assert_close(found, expected)


def test_what_is_logged_of_the_error_leaves_out_rows_that_do_not_count() -> None:
    algorithm, counts = make(), torch.tensor([1.0, 1.0, 1.0, 0.0])
    batch, far = make_batch(weight=counts), torch.tensor([0.0, 0.0, 0.0, 1e6])
    errors = [algorithm.critic_loss(b).metrics["td_error"] for b in (batch, batch._replace(reward=batch.reward + far))]
    assert torch.equal(*errors)


def test_each_optimizer_moves_its_own_part() -> None:
    algorithm, batch = make(net_arch=(8,)), make_batch()
    parts = {"critic": "critics.", "actor": "policy.", "ent_coef": "log_ent_coef"}
    losses = {"critic": algorithm.critic_loss, "actor": algorithm.actor_loss, "ent_coef": algorithm.ent_coef_loss}
    for name, prefix in parts.items():
        before = {key: p.clone() for key, p in algorithm.named_parameters()}
        algorithm.minimize(losses[name], batch, name)
        moved = {key for key, p in algorithm.named_parameters() if not torch.equal(p, before[key])}
        assert moved
        assert all(key.startswith(prefix) for key in moved)


def test_a_fixed_temperature_stays() -> None:
    algorithm = make(ent_coef=0.3)
    step = algorithm.update(make_batch())
    assert algorithm.ent_coef.item() == pytest.approx(0.3)
    assert "ent_coef_loss" not in step.metrics
    assert step.rows["priority"].shape == (4,)
    learned = make()
    learned.update(make_batch())
    assert learned.ent_coef.item() != 1.0


def test_targets_follow_by_tau() -> None:
    algorithm = make(tau=0.1)
    say(algorithm.critics, (1.0, 0.0), (0.0, 1.0))
    say(algorithm.targets, (0.0, 0.0), (0.0, 0.0))
    for _ in range(3):
        algorithm.update_target(make_batch())
    q = algorithm.q_values(algorithm.targets, torch.ones(1, 3)).squeeze(1).detach()
    torch.testing.assert_close(q, (1 - 0.9**3) * torch.eye(2))
    assert all(not p.requires_grad for p in algorithm.targets.parameters())


def test_critics_start_apart_and_targets_as_copies() -> None:
    algorithm = make(net_arch=(8,))
    online, target = (algorithm.q_values(c, torch.ones(1, 3)) for c in (algorithm.critics, algorithm.targets))
    assert torch.equal(online, target)
    assert not torch.allclose(online[0], online[1])


def test_value_and_update_with_masks_are_finite() -> None:
    algorithm = make(MASKED, net_arch=(8,))
    batch = masked_batch([1, 0, 1])._replace(action=torch.tensor([0, 2, 0, 2]))
    metrics = algorithm.update(batch).metrics
    assert all(torch.isfinite(value) for value in metrics.values())
    assert not algorithm.failed
    algorithm = make(MASKED)
    say(algorithm.critics, (1.0, 9.0, 3.0), (1.0, 9.0, 3.0))
    act_like(algorithm, (0.0, 5.0, 0.0))
    torch.testing.assert_close(algorithm.values(batch.obs).detach(), torch.full((4,), 2.0))


def test_forbidden_actions_are_never_taken() -> None:
    settings = {
        "n_envs": 2,
        "learning_starts": 8,
        "train_freq": 2,
        "batch_size": 8,
        "buffer_size": 64,
        "net_arch": (8,),
    }
    agent = DiscreteSAC(Masked, seed=0, compile=False, **settings)  # which would raise
    assert agent.learn(120, progress=False).gradient_steps > 50
    agent.close()
