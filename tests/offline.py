"""What tests of learning from data share: small datasets of real environments, and agents that take no time."""

from functools import cache

import rl_training
from rl_training import Agent, Dataset, make_data
from rl_training.envs import EnvConfig

QUICK: dict[str, object] = {
    "seed": 0, "threads": 1, "compile": False, "net_arch": [8], "batch_size": 16, "learning_rate": "lin_1e-2",
}  # fmt: skip
REPLAY = QUICK | {
    "learning_starts": 24, "train_freq": 4, "gradient_steps": 2, "buffer_size": 64, "n_envs": 2, "log_interval": 30,
}  # fmt: skip
RLPD_SETTINGS = REPLAY | {"n_critics": 3, "policy_delay": 2}
CQL_SETTINGS = REPLAY | {"target_update_interval": 7, "exploration_fraction": 0.5}


@cache
def steps_of(env_id: str, steps: int = 400, seed: int = 0) -> Dataset:
    """Steps of a random policy."""
    return make_data(EnvConfig(id=env_id), ["random"], steps, seed=seed)


def cql(env: str | None = "CartPole-v1", **settings: object) -> Agent:
    return rl_training.DiscreteCQL(env, **{"dataset": steps_of("CartPole-v1")} | CQL_SETTINGS | settings)


def rlpd(env: str | None = "Pendulum-v1", **settings: object) -> Agent:
    return rl_training.RLPD(env, **{"dataset": steps_of("Pendulum-v1")} | RLPD_SETTINGS | settings)


def cloned(env: str | None = "CartPole-v1", **settings: object) -> Agent:
    return rl_training.BC(env, **{"dataset": steps_of("CartPole-v1")} | QUICK | settings)


def state_of(agent: Agent) -> dict:
    """All that a checkpoint would hold, without the time it took."""
    state = agent.snapshot().state
    return state | {"progress": {name: value for name, value in state["progress"].items() if name != "wall_time"}}


def counted(agent: Agent) -> dict:
    """The same without the number of iterations, which from data is that of portions."""
    state = state_of(agent)
    return state | {"progress": {key: value for key, value in state["progress"].items() if key != "iterations"}}
