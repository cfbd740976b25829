"""What CrossQ learns: one pass for present and next values, batch statistics of both, no targets."""

import copy

import pytest
import torch
from torch import Tensor

from rl_training import ConfigError, CrossQ
from rl_training.algorithms import CrossQAlgorithm, CrossQConfig
from tests.algorithms.boxes import SPEC, TINY, asked_gradients, make_batch, moved


def make(**settings: object) -> CrossQAlgorithm:
    torch.manual_seed(0)
    common = {"net_arch": (8,), "critic_net_arch": (8,), "ent_coef": 0.3}
    return CrossQAlgorithm(CrossQConfig(**common | settings), SPEC)


def averages(algorithm: CrossQAlgorithm, part: str) -> dict[str, Tensor]:
    return {name: b.clone() for name, b in getattr(algorithm, part).named_buffers() if "norms" in name}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    assert len(a) > 0
    return all(torch.equal(a[name], b[name]) for name in a)


def test_running_averages_see_present_and_next_rows_in_one_pass() -> None:
    algorithm, batch = make(), make_batch()
    torch.manual_seed(3)
    with torch.no_grad():
        next_action, _ = algorithm.policy.distribution(batch.next_obs).draw()
    joint = torch.cat([torch.cat([batch.obs, batch.action], -1), torch.cat([batch.next_obs, next_action], -1)])
    torch.manual_seed(3)
    algorithm.critic_loss(batch)
    norm = algorithm.critics.net.norms[0]
    torch.testing.assert_close(norm.mean[0, 0], 0.01 * joint.mean(0))
    torch.testing.assert_close(norm.var[0, 0], 0.99 + 0.01 * joint.var(0))
    assert norm.steps.item() == 1


def test_present_values_depend_on_next_observations_only_while_training() -> None:
    batch = make_batch()
    other = batch._replace(next_obs=batch.next_obs + 1)

    def q_mean(rows, *, train: bool) -> float:
        torch.manual_seed(3)
        return make().critic_loss(rows, train=train).metrics["q_mean"].item()

    assert q_mean(batch, train=True) != q_mean(other, train=True)
    assert q_mean(batch, train=False) == q_mean(other, train=False)


def test_no_gradient_flows_through_targets_or_next_actions() -> None:
    algorithm, batch = make(), make_batch()
    reference = copy.deepcopy(algorithm)
    torch.manual_seed(3)
    loss = algorithm.critic_loss(batch).value
    weights = list(algorithm.critics.parameters())
    found = torch.autograd.grad(loss, weights, retain_graph=True)
    through = torch.autograd.grad(loss, list(algorithm.policy.parameters()), allow_unused=True)
    assert all(gradient is None for gradient in through)

    torch.manual_seed(3)
    with torch.no_grad():
        next_action, log_prob = reference.policy.distribution(batch.next_obs).draw()
    both = reference.critics(torch.cat([batch.obs, batch.next_obs]), torch.cat([batch.action, next_action]))
    q, next_q = both[:, :6, 0], both[:, 6:, 0]
    target = torch.tensor((1 + 0.5 * (next_q.amin(0) - 0.3 * log_prob)).tolist())  # numbers, nothing else
    by_hand = 0.5 * (q - target).square().sum(0).mean()
    assert loss.item() == pytest.approx(by_hand.item(), rel=1e-5)
    expected = torch.autograd.grad(by_hand, list(reference.critics.parameters()))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_the_actors_step_moves_its_own_averages_only() -> None:
    algorithm, batch = make(ent_coef="auto"), make_batch()
    critics, actor = averages(algorithm, "critics"), averages(algorithm, "policy")
    assert moved(algorithm, lambda: algorithm.update_actor(batch)) == {"policy", "log_ent_coef"}
    assert same(averages(algorithm, "critics"), critics)
    assert not same(averages(algorithm, "policy"), actor)
    actor = averages(algorithm, "policy")
    assert moved(algorithm, lambda: algorithm.update(batch)) == {"critics"}
    assert not same(averages(algorithm, "critics"), critics)
    assert same(averages(algorithm, "policy"), actor)
    assert asked_gradients(algorithm.critics, lambda: algorithm.update_actor(batch)) == 0


def test_acting_valuing_and_diagnosing_leave_the_averages() -> None:
    algorithm, batch = make(), make_batch()
    algorithm.update(batch)
    before = averages(algorithm, "critics"), averages(algorithm, "policy")
    algorithm.diagnose(batch)
    algorithm.values(batch.obs)
    algorithm.policy.act(batch.obs)
    assert same(averages(algorithm, "critics"), before[0])
    assert same(averages(algorithm, "policy"), before[1])


def test_the_actor_asks_the_critics_as_they_act_not_as_they_train() -> None:
    algorithm, batch = make(), make_batch()
    alone = algorithm.actor_value(batch.obs[:1], batch.action[:1])
    torch.testing.assert_close(alone, algorithm.actor_value(batch.obs, batch.action)[:1])
    quiet = algorithm.critics(batch.obs, batch.action, train=False).squeeze(-1).amin(0)
    assert torch.equal(algorithm.actor_value(batch.obs, batch.action), quiet)


def test_there_are_no_targets_and_little_momentum() -> None:
    algorithm = make()
    assert not hasattr(algorithm, "targets")
    (a_pass,) = algorithm.passes()
    assert [(extra.method, extra.every) for extra in a_pass.periodic] == [("update_actor", 3)]
    assert algorithm.optimizer("critic").betas == (0.5, 0.999)
    assert algorithm.optimizer("actor").betas == (0.5, 0.999)


def test_statistics_are_saved() -> None:
    agent = CrossQ("Pendulum-v1", **TINY | {"critic_net_arch": (8,)})
    agent.learn(30, progress=False)
    state = agent.snapshot().state["algorithm"]
    assert state["critics.net.norms.0.steps"].item() == agent.trainer.progress.gradient_steps > 0
    assert state["policy.network.net.norms.0.mean"].abs().min() > 0
    agent.close()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"tau": 0.1}, "it has no target networks"),
        ({"target_update_interval": 2}, "it has no target networks"),
        ({"critic_subset": 1}, "it has no target networks"),
        ({"critic_layer_norm": True}, "its critics have batch normalisation"),
        ({"critic_dropout": 0.1}, "its critics have batch normalisation"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_settings_without_effect_are_refused(settings: dict, why: str) -> None:
    (name,) = settings
    with pytest.raises(ConfigError, match=rf"algorithm.{name}=.* has no effect in CrossQ, because {why}: drop it"):
        CrossQ("Pendulum-v1", **settings)


def test_batches_of_one_row_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"algorithm.batch_size=1 has no variance to normalise by: use 2 or more"):
        CrossQ("Pendulum-v1", batch_size=1)
