"""A callback that predicts changes nothing: what it draws comes from a stream of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rl_training import DQN, PPO, SAC, Agent, Callback, load
from rl_training.experiment.checkpoint import difference

OBS = {"CartPole-v1": np.zeros((8, 4)), "Pendulum-v1": np.zeros((8, 3))}
AGENTS = {
    "ppo": (PPO, "CartPole-v1", {"n_steps": 16, "batch_size": 16, "n_epochs": 1}),
    "dqn": (DQN, "CartPole-v1", {"learning_starts": 16, "batch_size": 8, "exploration_final_eps": 0.5}),
    "sac": (SAC, "Pendulum-v1", {"learning_starts": 16, "batch_size": 8}),
}


class Predicts(Callback):
    """Asks an agent for random actions while another, or the same, learns."""

    def __init__(self, agent: Agent, obs: np.ndarray) -> None:
        self.agent, self.obs, self.actions = agent, obs, []

    def on_steps(self, trainer, episodes) -> None:
        self.actions.append(self.agent.predict(self.obs, deterministic=False)[0].tolist())


def make(kind: str) -> tuple[Agent, np.ndarray]:
    cls, env, settings = AGENTS[kind]
    return cls(env, seed=3, net_arch=[8], compile=False, **settings), OBS[env]


def state_after(agent: Agent, *callbacks: Callback) -> dict:
    agent.learn(48, callbacks=callbacks, progress=False)
    return agent.snapshot().state | {"progress": {}}


@pytest.mark.parametrize("kind", AGENTS)
def test_predicting_in_a_callback_changes_nothing(kind: str) -> None:
    (alone, _), (asked, obs), (other, _) = make(kind), make(kind), make(kind)
    alone, asks, asks_other = state_after(alone), Predicts(asked, obs), Predicts(other, obs)
    assert difference(alone, state_after(asked, asks, asks_other)) is None
    assert len({str(action) for action in asks.actions}) > 1  # it draws anew each time


def test_what_is_drawn_in_callbacks_can_be_repeated() -> None:
    runs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        agent, obs = make("sac")
        runs.append(Predicts(agent, obs))
        agent.learn(32, callbacks=runs[-1], progress=False)
    assert runs[0].actions == runs[1].actions


def test_samples_follow_the_seed_of_the_agent(tmp_path) -> None:
    def sampled(agent: Agent) -> list:
        return [agent.predict(obs, deterministic=False)[0].tolist() for _ in range(3)]

    one, obs = make("sac")
    torch.manual_seed(1)
    first = sampled(one)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert sampled(make("sac")[0]) == first
    assert sampled(SAC("Pendulum-v1", seed=4, net_arch=[8])) != first
    assert sampled(one) != first  # it goes on
    assert torch.equal(torch.get_rng_state(), before)
    one.learn(32, progress=False)
    one.save(tmp_path / "model")
    assert sampled(load(tmp_path / "model")) == sampled(one)
