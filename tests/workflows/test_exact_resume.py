"""A state that was saved and loaded goes on as if nothing had happened, wherever a run stops."""

from __future__ import annotations

from pathlib import Path

import pytest

import rl_training
from rl_training import Agent, RunConfig
from rl_training.experiment.checkpoint import checkpoint_difference
from tests import needs

ROLLOUT = {"name": "ppo", "n_steps": 16, "batch_size": 16, "n_epochs": 1}
REPLAY = {"learning_starts": 30, "buffer_size": 60, "batch_size": 16, "net_arch": [32]}
SAC = REPLAY | {"name": "sac", "train_freq": 2}
DQN = REPLAY | {"name": "dqn", "prioritized": True, "n_steps": 3, "train_freq": 4}
RECURRENT = {"name": "recurrent_ppo", "n_steps": 16, "batch_size": 16, "n_epochs": 1, "lstm_hidden_size": 16}
NORMALISED = ROLLOUT | {"normalize_observation": True, "normalize_reward": True}


def case(algorithm: dict, env_id: str, **env: object) -> dict:
    training = {"seed": 5, "total_timesteps": 10_000, "compile": False}
    return {"algorithm": algorithm, "env": {"id": env_id, "n_envs": 2, **env}, "training": training}


FAST = {
    "ppo-cheetah": case(ROLLOUT, "HalfCheetah-v5"),
    "dqn-cartpole": case(DQN, "CartPole-v1", n_envs=1),
}
SLOW = {
    "sac-pendulum": case(SAC, "Pendulum-v1"),
    "recurrent-native": case(RECURRENT, "CartPoleNoVel-v1", backend="native"),
    "ppo-humanoid": case(ROLLOUT, "Humanoid-v5", n_envs=3),
    "ppo-pusher": case(NORMALISED, "Pusher-v5"),
    "ppo-cheetah-async": case(NORMALISED, "HalfCheetah-v5", vectorization="async"),
    "sac-ant-async": case(SAC, "Ant-v5", vectorization="async"),
    "sac-hopper": case(SAC, "Hopper-v5"),
    "dqn-lunarlander-async": case(DQN, "LunarLander-v3", vectorization="async"),
    "recurrent-walker": case(RECURRENT, "Walker2d-v5"),
    "ppo-frames": case(NORMALISED, "HalfCheetah-v5", frame_stack=3),
    "dqn-frames": case(DQN | {"normalize_observation": True}, "CartPole-v1", frame_stack=3, n_envs=1),
}
NEEDS = {"lunarlander": "Box2D"} | dict.fromkeys(("cheetah", "humanoid", "pusher", "ant", "hopper", "walker"), "mujoco")


def skip_unless_available(name: str) -> None:
    wanted = next((package for part, package in NEEDS.items() if part in name), None)
    if wanted:
        needs.require_package(wanted)


def train_to(agent: Agent, stop_at: int, path: Path) -> Path:
    agent.learn(stop_at=stop_at, progress=False)
    agent.save(path)
    return path


def check_stops(values: dict, stops: list[int], folder: Path) -> None:
    """Every stop's checkpoint leads to the next one's, and the last is that of a run without any stop."""
    agent, undisturbed = (Agent(RunConfig.from_mapping(values)) for _ in range(2))
    saved = [train_to(agent, stop, folder / str(stop)) for stop in stops]
    whole = train_to(undisturbed, stops[-1], folder / "undisturbed")
    assert checkpoint_difference(saved[-1], whole) is None
    for agent_open in (agent, undisturbed):
        agent_open.close()
    for i in range(len(stops) - 1):
        loaded = rl_training.load(saved[i])
        after = train_to(loaded, stops[i + 1], folder / f"after-{stops[i]}")
        loaded.close()
        assert checkpoint_difference(after, saved[i + 1]) is None, f"stopped at {stops[i]}"


@pytest.mark.parametrize("name", FAST)
def test_a_run_goes_on_exactly_from_every_offset(name, tmp_path):
    """Twenty stops in a row, inside and at the end of iterations, before and after learning starts."""
    skip_unless_available(name)
    check_stops(FAST[name], list(range(14, 14 + 21 * 4, 4)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST | SLOW)
def test_a_run_goes_on_exactly_from_every_offset_at_length(name, tmp_path):
    skip_unless_available(name)
    check_stops((FAST | SLOW)[name], list(range(6, 6 + 40 * 6, 6)), tmp_path)
