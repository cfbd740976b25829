"""Every algorithm in the suite: a new one joins by its registration, and adds a line if it needs settings of its own."""

from dataclasses import dataclass, field
from typing import Literal

import pytest
from _pytest.mark.structures import ParameterSet

import rl_training
from rl_training import Agent
from rl_training.algorithms.continuous import ContinuousAlgorithm
from rl_training.core.registry import ALGORITHMS, Entry
from tests.conformance import probes

EVERYWHERE = ("gymnasium", "native", "async", "vector_entry_point", "mujoco", "box2d")
DISCRETE = ("gymnasium", "native", "async", "vector_entry_point", "box2d")
BOX = ("gymnasium", "native", "async", "mujoco", "box2d")
WITH_BOX_ACTIONS: dict[str | type, str | type] = {
    "CartPole-v1": "Pendulum-v1",
    "LunarLander-v3": "LunarLanderContinuous-v3",
    probes.ConstantReward: probes.ContinuousConstantReward,
    probes.ObservationReward: probes.ContinuousObservationReward,
    probes.DelayedReward: probes.ContinuousDelayedReward,
}

# Methods for data. `make test` tries them on data, saved and loaded, and once with everything that Box actions can be combined
# with; learning by their own steps is tried with the methods that they are variants of, and for them by `make test-all`.
RELATED = ("TD3BC", "ReBRAC", "BCQ", "BEAR", "DiscreteBCQ", "IQL", "CQL", "CalQL", "AWAC", "DiscreteIQL")

# Switches of DQN, all of which RainbowDQN has on and DQN off. `make test` lets each of them learn from its own steps and from
# data, saves and loads it; masks, memory, seeds and resuming, which ask nothing of a switch alone, are those two's.
SWITCHES = ("DoubleDQN", "DuelingDQN", "PrioritizedDQN", "NStepDQN", "NoisyDQN")

# Other losses on PPO's networks, distributions and rollouts: what they do with kinds of spaces and with masks is PPO's.
OTHER_LOSSES = ("A2C", "APPO", "IMPALA")


@dataclass(frozen=True)
class Case:
    """An algorithm with settings small enough for a test, and how many steps it needs on a probe."""

    name: str
    settings: dict[str, object]
    probe_steps: int
    acts_in: Literal["any", "discrete", "box"] = "any"  # the kinds of action spaces
    scales_reward: bool = True  # has `normalize_reward`
    resumes_in: tuple[str, ...] = EVERYWHERE  # kinds of environments in which it is paused and resumed
    picture_steps: int = 1_500  # 0: the network for pictures is that of another case
    plain_values: dict[str, object] = field(default_factory=dict)  # settings whose values are returns and nothing else
    without_data: dict[str, object] = field(default_factory=dict)  # settings of a method that else asks for a dataset

    def agent(self, env: object, **settings: object) -> Agent:
        """Learns there or, if it cannot act there, in the version with Box actions."""
        common: dict = {"seed": 0, "n_envs": 4, "threads": 1, "compile": False, "learning_rate": 3e-3, "gamma": 0.5}
        if self.acts_in == "box" and isinstance(env, str | type):
            env = WITH_BOX_ACTIONS.get(env, env)
        own = self.settings if "dataset" in settings else self.settings | self.without_data
        return getattr(rl_training, self.name)(env, **common | own | settings)

    @property
    def normalised(self) -> dict[str, object]:
        """All the normalisation it has."""
        return {"normalize_observation": True} | ({"normalize_reward": True} if self.scales_reward else {})

    @property
    def home(self) -> str:
        """An environment whose actions it can take; Box where it can."""
        return "CartPole-v1" if self.acts_in == "discrete" else "Pendulum-v1"


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


def replay_steps(name: str) -> int:
    """A quarter more than was enough with each of three seeds; methods for data learn slower by their own steps."""
    return 1_600 if name in RELATED else 1_000


def replayed(
    name: str, settings: dict[str, object], *, resumes_in: tuple[str, ...] = ("gymnasium",), picture_steps: int = 0
) -> Case:
    return Case(name, settings, replay_steps(name), "discrete", False, resumes_in, picture_steps)


# Targets follow within a few updates; the temperature, where there is one, is learned.
CONTINUOUS = {name: value for name, value in REPLAY.items() if name != "target_update_interval"} | {"tau": 0.1}
NOISY = CONTINUOUS | {"action_noise_std": 0.5}
SOFT = CONTINUOUS | {"ent_coef": "auto_0.1"}
MANY = {"train_freq": 16, "gradient_steps": 4, "policy_delay": 4, "n_critics": 4, "critic_subset": 2}
RENORM = {name: value for name, value in SOFT.items() if name != "tau"} | {
    "learning_rate": "lin_1e-2",
    "policy_delay": 2,
    "critic_net_arch": [32, 32],
    "batch_norm_momentum": 0.1,
    "renorm_warmup_steps": 30,  # updates: every run here goes beyond
}
SMALL_CQL = {"cql_alpha": 0.02, "n_actions": 3, "actor_learning_rate": 3e-3, "ent_coef_learning_rate": 3e-3}


# A model of the data that learns within a few updates, and few proposals.
SMALL_VAE = {"vae_net_arch": [32]}
SMALL_BEAR = {
    "warmup_updates": 20, "mmd_threshold": 1.0, "alpha_init": 0.1, "n_actions": 10, "actor_learning_rate": 3e-3,
}  # fmt: skip


def continuous(
    name: str,
    settings: dict[str, object],
    *,
    probe_steps: int = 0,  # 0: those of every replay
    resumes_in: tuple[str, ...] = ("gymnasium",),
    without_data: dict[str, object] | None = None,
) -> Case:
    plain_values = {name: 1e-3 for name in ("ent_coef", "cql_alpha") if name in settings}
    steps = probe_steps or replay_steps(name)
    return Case(name, settings, steps, "box", False, resumes_in, 0, plain_values, without_data or {})


CASES = [
    Case("PPO", {"n_steps": 32, "batch_size": 64, "n_epochs": 4}, 6_000),
    Case("A2C", {"n_steps": 8, "gae_lambda": 0.95}, 8_000),
    Case("APPO", {"n_steps": 32, "batch_size": 64, "n_epochs": 4}, 6_000, picture_steps=0),
    Case("IMPALA", {"n_steps": 16, "use_rms_prop": False, "batch_size": 32}, 8_000, picture_steps=0),
    Case("TRPO", {"n_steps": 64, "batch_size": 64, "target_kl": 0.05, "cg_max_steps": 10}, 2_000),
    Case("RecurrentPPO", {"n_steps": 32, "batch_size": 64, "n_epochs": 4, "lstm_hidden_size": 16}, 4_500),
    replayed("DQN", GREEDY, resumes_in=DISCRETE, picture_steps=600),
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
    replayed("DiscreteCQL", GREEDY | {"cql_alpha": 0.05}),
    Case(
        "PQN",
        {"n_steps": 32, "batch_size": 64, "n_epochs": 2, "net_arch": [32, 32], "exploration_fraction": 0.5},
        8_000,
        acts_in="discrete",
        resumes_in=DISCRETE,
    ),
    continuous("DDPG", NOISY),
    continuous("TD3", NOISY),
    continuous("SAC", SOFT, probe_steps=800, resumes_in=BOX),
    continuous("REDQ", SOFT | MANY),
    continuous("RLPD", SOFT | MANY, without_data={"offline_batch_ratio": 0.0}),
    continuous("TQC", SOFT | {"n_quantiles": 5, "top_quantiles_to_drop_per_net": 1}, probe_steps=1_200),
    continuous("CrossQ", RENORM, probe_steps=1_400),
    continuous("IQL", CONTINUOUS),
    continuous("BEAR", SOFT | SMALL_VAE | SMALL_BEAR),
    continuous("BCQ", CONTINUOUS | SMALL_VAE | {"n_actions": 10}),
    continuous("CQL", SOFT | SMALL_CQL),
    continuous("CalQL", SOFT | SMALL_CQL),
    continuous("AWAC", CONTINUOUS | {"beta": 10.0}),
    replayed("DiscreteIQL", REPLAY | {"tau": 0.1, "target_update_interval": 1}),
]


def usual(entry: Entry) -> Case:
    """The case of an algorithm that is registered and not listed above."""
    if entry.config.needs.experience == "rollout":
        return Case(entry.title, {"n_steps": 32}, 16_000)
    if issubclass(entry.algorithm, ContinuousAlgorithm):
        return continuous(entry.title, CONTINUOUS)
    return replayed(entry.title, GREEDY)


LISTED = {case.name for case in CASES}
STEPPING = [
    entry
    for entry in ALGORITHMS.values()
    if entry.config.needs.experience != "data" and not entry.algorithm.teams  # teams have a suite of their own
]
CASES += [usual(entry) for entry in STEPPING if entry.title not in LISTED]


def named(*names: str) -> list[Case]:
    """These cases, in this order."""
    by_name = {case.name: case for case in CASES}
    return [by_name[name] for name in names]


def parameters(cases: list[Case], besides: tuple[str, ...] = ()) -> list[ParameterSet]:
    """These cases for a test of what related methods, and those named besides, share; of those, `make test` takes one."""
    return [pytest.param(case, id=case.name, marks=related(case, besides)) for case in cases]


def related(case: Case, besides: tuple[str, ...] = ()) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if case.name in RELATED or case.name in besides else []
