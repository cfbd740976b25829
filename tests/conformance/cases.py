"""Every algorithm in the suite: a new one joins by adding one line."""

from dataclasses import dataclass

import rl_training
from rl_training import Agent

EVERYWHERE = ("gymnasium", "native", "async", "vector_entry_point", "mujoco", "box2d")
DISCRETE = ("gymnasium", "native", "async", "vector_entry_point", "box2d")


@dataclass(frozen=True)
class Case:
    """An algorithm with settings small enough for a test, and how many steps it needs on a probe."""

    name: str
    settings: dict[str, object]
    probe_steps: int
    discrete: bool = False  # acts in Discrete spaces only
    scales_reward: bool = True  # has `normalize_reward`
    resumes_in: tuple[str, ...] = EVERYWHERE  # kinds of environments in which it is paused and resumed
    picture_steps: int = 1_500  # 0: the network for pictures is that of another case

    def agent(self, env: object, **settings: object) -> Agent:
        common: dict = {"seed": 0, "n_envs": 4, "threads": 1, "compile": False, "learning_rate": 3e-3, "gamma": 0.5}
        return getattr(rl_training, self.name)(env, **common | self.settings | settings)

    @property
    def normalised(self) -> dict[str, object]:
        """All the normalisation it has."""
        return {"normalize_observation": True} | ({"normalize_reward": True} if self.scales_reward else {})

    @property
    def home(self) -> str:
        """An environment whose actions it can take; Box where it can."""
        return "CartPole-v1" if self.discrete else "Pendulum-v1"


# The ring is smaller than any run here, two updates are taken every second vector step, and targets are copied between.
REPLAY = {
    "buffer_size": 280,
    "learning_starts": 104,
    "batch_size": 32,
    "train_freq": 8,
    "gradient_steps": 2,
    "target_update_interval": 60,
    "net_arch": [32, 32],
}
GREEDY = REPLAY | {"exploration_fraction": 0.5}
ATOMS = {"n_atoms": 41, "v_min": -2.0, "v_max": 6.0}


def replayed(
    name: str, settings: dict[str, object], *, resumes_in: tuple[str, ...] = ("gymnasium",), picture_steps: int = 0
) -> Case:
    return Case(name, settings, 1_600, True, False, resumes_in, picture_steps)


CASES = [
    Case("PPO", {"n_steps": 32, "batch_size": 64, "n_epochs": 4}, 12_000),
    Case("A2C", {"n_steps": 8, "gae_lambda": 0.95}, 16_000),
    Case("TRPO", {"n_steps": 64, "batch_size": 64, "target_kl": 0.05, "cg_max_steps": 10}, 4_000),
    Case("RecurrentPPO", {"n_steps": 32, "batch_size": 64, "n_epochs": 4, "lstm_hidden_size": 16}, 6_000),
    replayed("DQN", GREEDY, resumes_in=DISCRETE, picture_steps=600),
    replayed("DoubleDQN", GREEDY),
    replayed("DuelingDQN", GREEDY),
    replayed("PrioritizedDQN", GREEDY),
    replayed("NStepDQN", GREEDY),
    replayed("NoisyDQN", REPLAY),
    replayed("C51", GREEDY | ATOMS),
    replayed("QRDQN", GREEDY | {"n_quantiles": 8}),
    replayed("IQN", GREEDY | {"n_quantiles": 8, "n_samples": 8, "n_cosines": 16}),
    replayed("RainbowDQN", REPLAY | ATOMS, resumes_in=DISCRETE),
    replayed(
        "DiscreteSAC",
        REPLAY | {"tau": 0.1, "target_update_interval": 8, "ent_coef_init": 0.1, "target_entropy_ratio": 0.3},
        resumes_in=DISCRETE,
        picture_steps=600,
    ),
    Case(
        "PQN",
        {"n_steps": 32, "batch_size": 64, "n_epochs": 2, "net_arch": [32, 32], "exploration_fraction": 0.5},
        8_000,
        discrete=True,
        resumes_in=DISCRETE,
    ),
]


def named(*names: str) -> list[Case]:
    """These cases, in this order."""
    by_name = {case.name: case for case in CASES}
    return [by_name[name] for name in names]
