"""What TD3 and DDPG learn: targets with noise, delays, target networks, and the actor's step."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training import DDPG, TD3, Callback, ConfigError
from rl_training.algorithms import DDPGConfig, TD3Algorithm, TD3Config
from rl_training.core import Schedule
from rl_training.experiment.checkpoint import difference
from tests.algorithms.boxes import SPEC, TINY, asked_gradients, assert_follows, make_batch, moved, say


def make(**settings: object) -> TD3Algorithm:
    torch.manual_seed(0)
    return TD3Algorithm(TD3Config(**{"net_arch": ()} | settings), SPEC)


def stand_still(algorithm: TD3Algorithm, before: float = 0.0) -> None:
    """Makes the target actor say the same everywhere."""
    with torch.no_grad():
        algorithm.target_actor.net.weight0.zero_()
        algorithm.target_actor.net.bias0.fill_(before)


OFF = {"policy_delay": 1, "target_policy_noise": 0.0, "n_critics": 1}


def learned(kind: type[TD3] | type[DDPG], **settings: object) -> dict:
    agent = kind("Pendulum-v1", **TINY | settings)
    agent.learn(60, progress=False)
    agent.close()
    return agent.snapshot().state["algorithm"]


def test_td3_without_its_options_is_ddpg_to_the_bit() -> None:
    plain = learned(DDPG)
    assert difference(plain, learned(TD3, **OFF)) is None
    for name, value in {"policy_delay": 2, "target_policy_noise": 0.2, "n_critics": 2}.items():
        assert difference(plain, learned(TD3, **OFF | {name: value})) is not None, name


def test_ddpg_has_no_other_defaults() -> None:
    assert vars(DDPGConfig()) == vars(TD3Config(**OFF))


def test_noise_in_the_targets_is_clipped_and_so_is_the_action() -> None:
    batch = make_batch(4_000)
    for before, low, high in ((0.0, -0.5, 0.5), (10.0, 0.5, 1.0), (-10.0, -1.0, -0.5)):
        algorithm = make(target_policy_noise=5.0)
        stand_still(algorithm, before)
        say(algorithm.targets, 0.0, 0.0, slope=(1.0, 0.0))  # values are the first action
        values = algorithm.next_value(batch)
        assert values.min().item() == pytest.approx(low, abs=1e-6)
        assert values.max().item() == pytest.approx(high, abs=1e-6)


def test_noise_in_the_targets_has_its_deviation_and_is_drawn_for_every_row() -> None:
    algorithm = make(target_policy_noise=0.1)
    stand_still(algorithm)
    say(algorithm.targets, 0.0, 0.0, slope=(1.0, 0.0))
    values = algorithm.next_value(make_batch(4_000))
    assert values.std().item() == pytest.approx(0.1, rel=0.05)
    assert values.mean().item() == pytest.approx(0.0, abs=0.01)
    quiet = make(target_policy_noise=0.0)
    assert torch.equal(quiet.next_value(make_batch()), quiet.next_value(make_batch()))


def test_both_critics_regress_on_the_smaller_target() -> None:
    algorithm = make()
    say(algorithm.critics, 2.0, 4.0)
    say(algorithm.targets, 5.0, 3.0)
    loss, metrics, rows = algorithm.critic_loss(make_batch())
    target = 1 + 0.5 * 3
    assert loss.item() == pytest.approx((2 - target) ** 2 + (4 - target) ** 2)
    torch.testing.assert_close(rows["priority"], torch.full((6,), (0.5 + 1.5) / 2))
    assert metrics["q_mean"].item() == pytest.approx(3.0)
    ended = algorithm.critic_loss(make_batch(discount=torch.zeros(6))).value
    assert ended.item() == pytest.approx(1 + 9)


def test_rows_of_weight_zero_do_not_count_and_probabilities_do() -> None:
    algorithm = make(per_beta=Schedule(1.0, 1.0), target_policy_noise=0.0)
    weight = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    batch = make_batch(weight=weight)
    poisoned = batch._replace(reward=torch.where(weight.bool(), 1.0, 1e6))
    for loss in (algorithm.critic_loss, algorithm.actor_loss):
        assert loss(batch).value.item() == loss(poisoned).value.item()
    say(algorithm.critics, 0.0, 0.0)
    say(algorithm.targets, 0.0, 0.0)
    probability = torch.tensor([0.1, 0.2, 0.4, 0.1, 0.1, 0.1])
    drawn = algorithm.critic_loss(make_batch(columns={"probability": probability})).value
    assert drawn.item() == pytest.approx(2 * (0.1 / probability).mean().item())


def test_the_actor_climbs_the_first_critic() -> None:
    algorithm, batch = make(), make_batch()
    say(algorithm.critics, 2.0, -7.0)
    assert algorithm.actor_loss(batch).value.item() == pytest.approx(-2.0)
    say(algorithm.critics, 0.0, 0.0, slope=(1.0, -1.0))
    before = algorithm.policy.action(batch.obs)
    algorithm.update_actor(batch)
    after = algorithm.policy.action(batch.obs)
    assert (after[:, 0] > before[:, 0]).all()
    assert (after[:, 1] < before[:, 1]).all()


def test_each_step_moves_its_own_part_and_the_actors_asks_no_gradient_of_the_critics() -> None:
    algorithm, batch = make(net_arch=(8,)), make_batch()
    assert moved(algorithm, lambda: algorithm.update(batch)) == {"critics"}
    assert moved(algorithm, lambda: algorithm.update_actor(batch)) == {"policy"}
    assert moved(algorithm, lambda: algorithm.update_target(batch)) == {"targets", "target_actor"}
    assert asked_gradients(algorithm.critics, lambda: algorithm.update_actor(batch)) == 0
    assert asked_gradients(algorithm.policy, lambda: algorithm.update(batch)) == 0
    assert asked_gradients(algorithm.critics, lambda: algorithm.update(batch)) > 0
    frozen = (*algorithm.targets.parameters(), *algorithm.target_actor.parameters())
    assert not any(parameter.requires_grad for parameter in frozen)


@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_the_distance_of_all_targets_shrinks_by_one_minus_tau(tau: float) -> None:
    algorithm = make(net_arch=(8,), tau=tau)
    networks = ((algorithm.targets, algorithm.critics), (algorithm.target_actor, algorithm.policy.network))
    pairs = [pair for old, new in networks for pair in zip(old.parameters(), new.parameters(), strict=True)]
    assert all(torch.equal(old, new) for old, new in pairs)  # they start as copies
    assert_follows(algorithm, pairs, tau)


class Networks(Callback):
    """Writes down all networks after every update."""

    def __init__(self) -> None:
        self.seen: list[dict[str, list[Tensor]]] = []

    def on_steps(self, trainer, episodes) -> None:
        a = trainer.algorithm
        parts = {"critics": a.critics, "actor": a.policy, "targets": a.targets, "target_actor": a.target_actor}
        self.seen.append({name: [p.detach().clone() for p in part.parameters()] for name, part in parts.items()})


def test_actor_and_all_targets_move_on_delayed_steps_only() -> None:
    agent, networks = TD3("Pendulum-v1", **TINY | {"policy_delay": 3}), Networks()
    agent.learn(20, progress=False, callbacks=networks)
    agent.close()
    changes = [
        {name for name in now if not all(map(torch.equal, now[name], before[name]))}
        for before, now in zip(networks.seen, networks.seen[1:], strict=False)
    ]
    assert agent.trainer.progress.gradient_steps == 13  # steps 8 to 20
    delayed = {"critics", "actor", "targets", "target_actor"}
    assert changes == [delayed if number % 3 == 0 else {"critics"} for number in range(2, 14)]


class Wide(gym.Env):
    """Takes actions between any bounds and says if one is outside."""

    def __init__(self, low: float = -1.0, high: float = 1.0) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.action_space = gym.spaces.Box(low, high, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.action_space.contains(np.asarray(action, np.float32)), action
        return np.zeros(3, np.float32), 0.0, False, False, {}


def test_a_range_twice_as_wide_doubles_the_noise() -> None:
    noise = {}
    for bound in (1.0, 2.0):
        agent = TD3(lambda bound=bound: Wide(-bound, bound), **TINY)
        obs = np.zeros((500, 3), np.float32)
        torch.manual_seed(0)
        noise[bound] = agent.predict(obs, deterministic=False)[0] - agent.predict(obs)[0]
        agent.close()
    np.testing.assert_allclose(noise[2.0], 2 * noise[1.0], atol=1e-6)
    assert noise[1.0].std() == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize("interval", [1, 2])
def test_an_interval_of_its_own_for_the_targets_is_refused(interval: int) -> None:
    TD3("Pendulum-v1", target_update_interval=interval).close()  # says no more than policy_delay does
    sentence = (
        r"algorithm.target_update_interval=3 has no effect in TD3, because targets move .* policy_delay .*: drop it"
    )
    with pytest.raises(ConfigError, match=sentence):
        TD3("Pendulum-v1", target_update_interval=3)
    TD3("Pendulum-v1", target_update_interval=3, policy_delay=3).close()
