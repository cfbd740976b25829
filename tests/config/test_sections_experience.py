"""The section `experience`: algorithms declare what they need, and its settings keep their earlier place as an alias."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import pytest
import torch

import rl_training
from rl_training import DQN, PPO, SAC, Agent, ConfigError, RunConfig
from rl_training.config.names_of_others import ONCE_IN_ALGORITHM
from rl_training.config.overrides import apply_override
from rl_training.config.parsing import field_names
from rl_training.config.registry import ALGORITHMS, experience_of
from rl_training.core import ExperienceKind, Supply
from rl_training.experience import Replay, ReplaySettings, RolloutSettings, StoreContext, register_store
from rl_training.experience.settings import STORES
from rl_training.experiment.checkpoint import difference

# For every setting that may also stand in `algorithm` another value than any default.
OTHER = {
    "n_steps": 7,
    "normalize_reward": True,
    "clip_reward": 3.5,
    "buffer_size": 777,
    "learning_starts": 77,
    "train_freq": 6,
    "prioritized": True,
    "per_alpha": 0.3,
    "per_eps": 1e-3,
    "buffer_device": "cpu",
    "buffer_folder": "elsewhere",
    "offline_batch_ratio": 0.25,
    "reward_scale": 0.5,
    "reward_shift": -1.0,
}
APART = ("store", "hindsight")  # one is a name, the other has settings of its own: tests/workflows/test_hindsight.py
PLACES = [(name, field) for name in ALGORITHMS for field in field_names(experience_of(name)) if field not in APART]


def values(name: str, **sections: dict) -> dict:
    training = {"total_updates": 10} if ALGORITHMS[name].config.needs.experience == "data" else {}
    small = {} if name == "a2c" else {"batch_size": 5}
    return {
        "algorithm": {"name": name} | small | sections.get("algorithm", {}),
        "env": {"id": "CartPole-v1"},
        "training": training,
    } | {key: section for key, section in sections.items() if key != "algorithm"}


@pytest.mark.parametrize(("name", "field"), PLACES)
def test_the_earlier_place_is_the_same_setting(name: str, field: str) -> None:
    value = (
        not ReplaySettings(**ALGORITHMS[name].config.needs.settings).prioritized
        if field == "prioritized"
        else OTHER[field]
    )
    new = RunConfig.from_mapping(values(name, experience={field: value}))
    assert getattr(new.experience, field) == value
    assert RunConfig.from_mapping(values(name, algorithm={field: value})) == new
    plain = RunConfig.from_mapping(values(name)).to_mapping()
    assert getattr(RunConfig.from_mapping(plain).experience, field) != value
    for path in ("algorithm", "experience"):  # over a whole config, as `--set` does
        assert RunConfig.from_mapping(apply_override(plain, f"{path}.{field}={value}")) == new
    with pytest.raises(ConfigError, match=f"algorithm.{field} and experience.{field} are the same setting: give one"):
        RunConfig.from_mapping(values(name, algorithm={field: value}, experience={field: value}))
    assert field in ONCE_IN_ALGORITHM


MISTAKES = {
    "of another kind": (
        lambda: PPO("CartPole-v1", buffer_size=5),
        "buffer_size=5 is not a setting of ppo: it is one of ",
    ),
    "by its earlier name": (
        lambda: RunConfig.from_mapping(values("ppo", algorithm={"buffer_size": 5})),
        "algorithm.buffer_size is not a setting of ppo: it is one of awac, ",
    ),
    "of the algorithm": (
        lambda: RunConfig.from_mapping(values("ppo", experience={"n_epochs": 5})),
        "experience.n_epochs is not a setting of ppo: it is algorithm.n_epochs",
    ),
    "misspelt": (
        lambda: RunConfig.from_mapping(values("dqn", algorithm={"bufer_size": 5})),
        "algorithm.bufer_size is not a setting of dqn: did you mean experience.buffer_size?",
    ),
    "in its section": (
        lambda: DQN("CartPole-v1", experience={"bufer_size": 5}),
        "experience.bufer_size is not a setting of dqn: did you mean 'buffer_size'?",
    ),
    "twice": (lambda: PPO("CartPole-v1", n_steps=8, experience={"n_steps": 9}), "experience.n_steps is given twice"),
    "no mapping": (lambda: RunConfig.from_mapping(values("ppo", experience=5)), "experience=5 must be a mapping"),  # pyrefly: ignore
    "no mapping, with an alias": (
        lambda: RunConfig.from_mapping(values("ppo", algorithm={"n_steps": 5}, experience=[1])),  # pyrefly: ignore
        "experience=[1] must be a mapping of settings",
    ),
    "another store": (
        lambda: PPO("CartPole-v1", store="replay"),
        "experience.store='replay' is not a store that ppo learns from: choose from rollout",
    ),
    "no store": (
        lambda: RunConfig.from_mapping(values("dqn", experience={"store": ["replay"]})),
        "experience.store=['replay'] is not a store that dqn learns from",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_answered_where_they_were_made(case: str) -> None:
    make, sentence = MISTAKES[case]
    with pytest.raises(ConfigError) as caught:
        make()
    assert sentence in str(caught.value)


def test_settings_that_depend_on_the_experience_follow_it() -> None:
    follows = SAC("Pendulum-v1", n_envs=2, train_freq=6, gradient_steps=-1)
    assert follows.config.algorithm.gradient_steps == -1  # as it was said
    assert [p.rounds for p in follows.algorithm.passes()] == [6]
    assert [p.rounds for p in SAC("Pendulum-v1", train_freq=6).algorithm.passes()] == [1]
    beta = [DQN("CartPole-v1", prioritized=on).algorithm.per_beta for on in (True, False)]
    assert [b.schedule.changes for b in beta] == [True, False]  # rows that are all as likely need no correction


def test_what_an_experience_gives_is_said_in_its_own_words() -> None:
    assert RolloutSettings(n_steps=8).supply(4) == Supply(
        32, "a rollout (n_steps 8 x n_envs 4 = 32)", "raise n_steps", num_steps=32
    )
    assert ReplaySettings(buffer_size=50, train_freq=8, prioritized=True).supply(4) == Supply(
        50, "buffer_size=50", "raise buffer_size", num_steps=8, weighted=True
    )


class Newest(Replay):
    """A replay that draws from the newest half alone."""

    def draw(self, batch_size: int) -> torch.Tensor:
        return super().draw(batch_size) / 2  # 0 is the newest row


@dataclass(frozen=True, kw_only=True)
class NewestSettings(ReplaySettings):
    """A store of one's own, from outside the package."""

    kind: ClassVar[ExperienceKind] = "replay"

    store: Literal["newest"] = "newest"  # pyrefly: ignore (another store than its base's)
    haste: int = 1

    def build(self, run: StoreContext) -> Newest:
        return Newest(self, run)


@pytest.fixture
def newest() -> Iterator[None]:
    register_store("newest", NewestSettings)
    yield
    del STORES["newest"]


SMALL = {"learning_starts": 16, "buffer_size": 64, "batch_size": 8, "net_arch": [8], "compile": False, "seed": 1}


@pytest.mark.usefixtures("newest")
def test_a_store_from_outside_is_named_trained_saved_and_resumed(tmp_path: Path) -> None:
    agent = DQN("CartPole-v1", store="newest", haste=3, run_dir=tmp_path / "run", **SMALL)
    assert agent.config.experience == NewestSettings(haste=3, learning_starts=16, buffer_size=64)
    agent.learn(64, stop_at=40, progress=False)
    assert isinstance(agent.trainer.experience, Newest)
    resumed = Agent.resume(tmp_path / "run")
    resumed.learn(progress=False)
    straight, usual = DQN("CartPole-v1", experience={"store": "newest"}, **SMALL), DQN("CartPole-v1", **SMALL)
    for other in (straight, usual):
        other.learn(64, progress=False)
    states = [dict(a.algorithm.state_dict()) for a in (resumed, straight, usual)]
    assert difference(states[0], states[1]) is None
    assert difference(states[0], states[2]) is not None
    agent.save(tmp_path / "model")
    assert rl_training.load(tmp_path / "model", haste=4).config.experience.haste == 4
    with pytest.raises(ConfigError, match=r"experience\.haste is not a setting of dqn"):
        RunConfig.from_mapping(values("dqn", experience={"haste": 3}))
    with pytest.raises(ValueError, match="the store name 'newest' is taken by NewestSettings: choose another"):
        register_store("newest", ReplaySettings)
