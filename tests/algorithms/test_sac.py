"""What SAC learns: soft targets, the actor's objective, the temperature; REDQ's subsets and DroQ's dropout."""

import math

import pytest
import torch

from rl_training import REDQ, SAC, Agent, ConfigError
from rl_training.algorithms import REDQConfig, SACAlgorithm, SACConfig
from rl_training.core import Schedule, StepBatch
from rl_training.experiment.checkpoint import difference
from tests.algorithms.boxes import SPEC, TINY, asked_gradients, assert_follows, make_batch, moved, say


def make(**settings: object) -> SACAlgorithm:
    torch.manual_seed(0)
    return SACAlgorithm(SACConfig(**{"net_arch": ()} | settings), SPEC)


def drawn(algorithm: SACAlgorithm, batch: StepBatch, seed: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """The next action and its log-probability that an update with this seed draws."""
    torch.manual_seed(seed)
    with torch.no_grad():
        return algorithm.policy.distribution(batch.next_obs).draw()


def test_critics_regress_on_the_smaller_target_and_the_entropy() -> None:
    algorithm, batch = make(ent_coef=0.3), make_batch()
    say(algorithm.critics, 2.0, 4.0)
    say(algorithm.targets, 5.0, 3.0)
    _, log_prob = drawn(algorithm, batch)
    target = 1 + 0.5 * (3 - 0.3 * log_prob)
    torch.manual_seed(3)
    loss, _, rows = algorithm.critic_loss(batch)
    errors = torch.stack([2 - target, 4 - target])
    assert loss.item() == pytest.approx(0.5 * errors.square().sum(0).mean().item(), rel=1e-5)
    torch.testing.assert_close(rows["priority"], errors.abs().mean(0))
    ended = algorithm.critic_loss(make_batch(discount=torch.zeros(6))).value
    assert ended.item() == pytest.approx(0.5 * (1 + 9))


def test_targets_ask_the_action_that_the_policy_draws() -> None:
    algorithm, batch = make(ent_coef=0.3), make_batch()
    say(algorithm.targets, 0.0, 0.0, slope=(1.0, 10.0))
    action, log_prob = drawn(algorithm, batch)
    torch.manual_seed(3)
    value = algorithm.next_value(batch)
    torch.testing.assert_close(value, action[:, 0] + 10 * action[:, 1] - 0.3 * log_prob)


def swap(algorithm: SACAlgorithm) -> None:
    with torch.no_grad():
        for network in (algorithm.critics, algorithm.targets):
            for parameter in network.parameters():
                parameter.copy_(parameter.flip(0))


def test_critics_may_be_swapped() -> None:
    algorithm, batch = make(net_arch=(8,)), make_batch()
    with torch.no_grad():
        for parameter in algorithm.targets.parameters():
            parameter.normal_()

    def losses() -> list[float]:
        found = []
        for loss in (algorithm.critic_loss, algorithm.actor_loss):
            torch.manual_seed(3)
            found.append(loss(batch).value.item())
        return found

    before = losses()
    swap(algorithm)
    assert losses() == pytest.approx(before, rel=1e-6)


def test_actors_gradient_is_that_of_finite_differences() -> None:
    algorithm, batch = make(net_arch=(4,), ent_coef=0.3, activation_fn="tanh"), make_batch()

    def loss() -> torch.Tensor:
        torch.manual_seed(3)
        return algorithm.actor_loss(batch).value

    for parameter in algorithm.policy.parameters():
        (gradient,) = torch.autograd.grad(loss(), parameter)
        with torch.no_grad():
            entry = parameter.view(-1)[:1]
            entry += 0.01
            up = loss().item()
            entry -= 0.02
            down = loss().item()
            entry += 0.01
        assert gradient.view(-1)[0].item() == pytest.approx((up - down) / 0.02, rel=0.01, abs=1e-4)


@pytest.mark.parametrize(("actor_critics", "value"), [("min", -7.0), ("mean", -2.5)])
def test_what_the_actor_climbs(actor_critics: str, value: float) -> None:
    algorithm, batch = make(ent_coef=0.3, actor_critics=actor_critics), make_batch()
    say(algorithm.critics, 2.0, -7.0)
    loss, metrics, _ = algorithm.actor_loss(batch)
    assert loss.item() == pytest.approx(-0.3 * metrics["entropy"].item() - value, rel=1e-5)


def temperature_gradient(algorithm: SACAlgorithm, log_prob: torch.Tensor) -> float:
    loss = algorithm.ent_coef_loss(log_prob, make_batch()).value
    return torch.autograd.grad(loss, algorithm.log_ent_coef)[0].item()


def test_temperature_rests_at_the_wanted_entropy_and_falls_above_it() -> None:
    algorithm = make()
    assert algorithm.target_entropy == -2.0  # minus the number of actions
    at_target = torch.tensor([1.0, 3.0] * 3)  # an entropy of -2 on average
    assert temperature_gradient(algorithm, at_target) == 0.0
    assert temperature_gradient(algorithm, at_target - 1) == pytest.approx(1.0)  # more random than wanted: it falls
    assert temperature_gradient(algorithm, at_target + 1) == pytest.approx(-1.0)
    assert temperature_gradient(make(target_entropy=-1.0), at_target) == pytest.approx(-1.0)
    up, down = (algorithm.ent_coef_loss(at_target + 1, make_batch()).value.item() for _ in range(2))
    assert up == down
    with torch.no_grad():
        algorithm.log_ent_coef += 1.0
    stepped = algorithm.ent_coef_loss(at_target + 1, make_batch()).value
    assert stepped.item() - up == pytest.approx(-1.0)  # the loss is linear in the logarithm


def test_temperature_brings_the_entropy_to_its_target() -> None:
    algorithm = make(learning_rate=Schedule(0.03, 0.03), ent_coef="auto_0.5")
    say(algorithm.critics, 0.0, 0.0, slope=(1.0, 0.5))
    batch = make_batch(256)
    entropies = [algorithm.update_actor(batch).metrics["entropy"].item() for _ in range(400)]
    assert abs(entropies[0] - -2.0) > 1
    assert sum(entropies[-100:]) / 100 == pytest.approx(-2.0, abs=0.15)


def test_each_step_moves_its_own_part_and_the_actors_asks_no_gradient_of_the_critics() -> None:
    algorithm, batch = make(net_arch=(8,)), make_batch()
    assert moved(algorithm, lambda: algorithm.update(batch)) == {"critics"}
    assert moved(algorithm, lambda: algorithm.update_actor(batch)) == {"policy", "log_ent_coef"}
    assert moved(algorithm, lambda: algorithm.update_target(batch)) == {"targets"}
    assert asked_gradients(algorithm.critics, lambda: algorithm.update_actor(batch)) == 0
    assert asked_gradients(algorithm.policy, lambda: algorithm.update(batch)) == 0
    assert not algorithm.actor_loss(batch).rows["log_prob"].requires_grad
    step = algorithm.update_actor(batch)
    assert step.metrics.keys() == {"actor_loss", "entropy", "ent_coef_loss", "ent_coef"}
    assert all(value.shape == () for value in step.metrics.values())


def test_a_fixed_temperature_stays() -> None:
    algorithm = make(ent_coef=0.3)
    assert moved(algorithm, lambda: algorithm.update_actor(make_batch())) == {"policy"}
    assert algorithm.ent_coef.item() == pytest.approx(0.3)


@pytest.mark.parametrize(("text", "start"), [("auto", 1.0), ("auto_0.1", 0.1), (0.25, 0.25)])
def test_where_the_temperature_starts(text: str | float, start: float) -> None:
    agent = SAC("Pendulum-v1", ent_coef=text)
    assert agent.algorithm.ent_coef.item() == pytest.approx(start)
    agent.close()


@pytest.mark.parametrize(
    "text",
    [
        "foo",
        "auto_x",
        "auto_0",
        "auto_-1",
        "auto_nan",
        "auto_inf",
    ],
)
def test_other_temperatures_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=rf"algorithm.ent_coef='{text}' is not understood: use 'auto', 'auto_0.1'"):
        SAC("Pendulum-v1", ent_coef=text)


def redq(**settings: object) -> SACAlgorithm:
    torch.manual_seed(0)
    return SACAlgorithm(REDQConfig(**{"net_arch": ()} | settings), SPEC)


def test_a_target_is_the_smallest_of_some_critics_drawn_anew_for_all_rows() -> None:
    algorithm = redq()
    values = torch.arange(10.0)
    subsets = torch.stack([algorithm.members() for _ in range(20_000)])
    assert subsets.shape == (20_000, 2)
    assert (subsets[:, 0] != subsets[:, 1]).all()
    smallest = values[subsets].amin(1)
    assert smallest.mean().item() == pytest.approx(120 / 45, abs=0.07)  # four standard errors
    shares = torch.bincount(subsets.flatten(), minlength=10) / len(subsets)
    torch.testing.assert_close(shares, torch.full((10,), 0.2), rtol=0, atol=0.015)
    say(algorithm.targets, *values)
    with torch.no_grad():
        algorithm.log_ent_coef.fill_(-100.0)  # values are those of the critics
    seen = torch.stack([algorithm.next_value(make_batch()) for _ in range(30)])
    torch.testing.assert_close(seen, seen[:, :1].expand(-1, 6))
    assert len(seen[:, 0].round().unique()) > 3


def test_all_critics_learn_the_same_target_and_their_mean_leads_the_actor() -> None:
    algorithm, batch = redq(ent_coef=0.3), make_batch()
    say(algorithm.critics, *torch.arange(10.0))
    loss, metrics, _ = algorithm.actor_loss(batch)
    assert loss.item() == pytest.approx(-0.3 * metrics["entropy"].item() - 4.5, rel=1e-5)
    say(algorithm.targets, *[3.0] * 10)
    _, log_prob = drawn(algorithm, batch)
    torch.manual_seed(3)
    loss = algorithm.critic_loss(batch).value
    target = 1 + 0.5 * (3 - 0.3 * log_prob)
    errors = torch.arange(10.0).unsqueeze(1) - target
    assert loss.item() == pytest.approx(0.5 * errors.square().sum(0).mean().item(), rel=1e-5)


def learned(kind: type[Agent], **settings: object) -> dict:
    agent = kind("Pendulum-v1", **TINY | settings)
    agent.learn(60, progress=False)
    agent.close()
    return agent.snapshot().state["algorithm"]


def test_redq_with_two_critics_is_sac_to_the_bit() -> None:
    off = {"n_critics": 2, "critic_subset": 2, "actor_critics": "min", "gradient_steps": 1, "policy_delay": 1}
    plain = learned(SAC)
    assert difference(learned(REDQ, **off), plain) is None
    for name, value in {"critic_subset": 1, "actor_critics": "mean", "policy_delay": 2}.items():
        assert difference(learned(REDQ, **off | {name: value}), plain) is not None, name


def test_as_many_updates_as_wanted_after_the_random_steps() -> None:
    agent = REDQ("Pendulum-v1", **TINY | {"learning_starts": 20, "gradient_steps": 3})
    agent.learn(19, progress=False)
    assert agent.trainer.progress.gradient_steps == 0
    agent.learn(31, progress=False)
    assert agent.trainer.progress.gradient_steps == 3 * (50 - 19)  # the first ones when the random steps are taken
    agent.close()


def test_a_subset_larger_than_the_ensemble_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"algorithm.critic_subset=3 is more than n_critics=2: lower it"):
        SAC("Pendulum-v1", critic_subset=3)


def test_dropout_is_active_in_critics_and_targets_and_off_for_values() -> None:
    algorithm, batch = make(net_arch=(32,), critic_dropout=0.5, critic_layer_norm=True), make_batch()
    for network in (algorithm.critics, algorithm.targets):
        assert not torch.equal(network(batch.obs, batch.action), network(batch.obs, batch.action))
    outputs: dict[str, list[torch.Tensor]] = {"critics": [], "targets": []}
    for name, network in (("critics", algorithm.critics), ("targets", algorithm.targets)):
        network.register_forward_hook(lambda module, inputs, q, name=name: outputs[name].append(q.detach()))
    same = batch._replace(obs=torch.ones(6, 3), action=torch.ones(6, 2), next_obs=torch.ones(6, 3))
    algorithm.critic_loss(same)
    algorithm.actor_loss(same)
    assert not torch.allclose(outputs["critics"][0][:, :1], outputs["critics"][0])  # rows are dropped out apart
    quiet = algorithm.critics(same.obs, same.action, train=False)
    torch.testing.assert_close(quiet[:, :1].expand_as(quiet), quiet)
    assert torch.equal(algorithm.values(batch.obs), algorithm.values(batch.obs))
    assert len(outputs["targets"]) == 1


def test_no_dropout_is_dropout_of_nothing() -> None:
    style = {"critic_layer_norm": True}
    assert difference(learned(SAC, critic_dropout=0.0, **style), learned(SAC, **style)) is None
    assert difference(learned(SAC, critic_dropout=0.1, **style), learned(SAC, **style)) is not None


@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_the_distance_to_still_critics_shrinks_by_one_minus_tau(tau: float) -> None:
    algorithm = make(net_arch=(8,), tau=tau)
    pairs = list(zip(algorithm.targets.parameters(), algorithm.critics.parameters(), strict=True))
    assert_follows(algorithm, pairs, tau)


def test_values_are_the_smaller_critics_at_the_most_likely_action() -> None:
    algorithm, obs = make(), make_batch().obs
    say(algorithm.critics, 5.0, 3.0, slope=(1.0, 0.0))
    expected = 3 + torch.tanh(algorithm.policy.distribution(obs).mean)[:, 0]
    torch.testing.assert_close(algorithm.values(obs), expected)
    assert math.isfinite(algorithm.diagnose(make_batch())["td_error"].item())
