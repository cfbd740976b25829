"""Questions do not act: asking an agent for something changes nothing of it, whatever it has done so far."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import rl_training
from rl_training import BC, DQN, PPO, Agent, Callback, make_data
from rl_training.api.training import build_run
from rl_training.envs import EnvConfig
from rl_training.experiment.checkpoint import difference

ON_POLICY = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "net_arch": [8], "normalize_reward": True}
REPLAY = {"learning_starts": 8, "batch_size": 8, "buffer_size": 64, "net_arch": [8]}
QUESTIONS: dict[str, Callable[[Agent, Path], object]] = {
    "snapshot": lambda agent, _: agent.snapshot(),
    "save": lambda agent, path: agent.save(path / "model"),
    "evaluate": lambda agent, _: agent.evaluate(2, deterministic=False),
    "predict": lambda agent, _: agent.predict(np.zeros(4)),
    "progress": lambda agent, _: (agent.progress, agent.num_timesteps),
    "copy": lambda agent, _: copy.deepcopy(agent),
}


def cloned() -> Agent:
    return BC("CartPole-v1", dataset=make_data(EnvConfig(id="CartPole-v1"), ["random"], 64), net_arch=[8])


def learned(agent: Agent) -> Agent:
    budget = {"total_updates": 5} if isinstance(agent, BC) else {"total_timesteps": 24}
    agent.learn(**budget, progress=False)
    return agent


def loaded(agent: Agent, path: Path) -> Agent:
    agent.save(path / "saved")
    return rl_training.load(path / "saved", dataset=agent.dataset)


MAKE = {
    "ppo": lambda: PPO("CartPole-v1", seed=1, device="auto", compile=False, **ON_POLICY),
    "dqn": lambda: DQN("CartPole-v1", seed=1, device="auto", compile=False, **REPLAY),
    "bc": cloned,
}
STAGES: dict[str, Callable[[Agent, Path], Agent]] = {
    "new": lambda agent, _: agent,
    "loaded, new": loaded,
    "begun": lambda agent, _: learned(agent),
    "loaded": lambda agent, path: loaded(learned(agent), path),
}


def state(agent: Agent) -> dict:
    tree = agent.snapshot().state
    return tree | {"progress": {name: value for name, value in tree["progress"].items() if name != "wall_time"}}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", MAKE)
def test_a_question_changes_nothing(kind: str, stage: str, question: str, tmp_path) -> None:
    agent = STAGES[stage](MAKE[kind](), tmp_path)
    before, tree, numbers = dict(vars(agent)), copy.deepcopy(state(agent)), torch.get_rng_state()
    QUESTIONS[question](agent, tmp_path)
    assert all(vars(agent)[name] is value for name, value in before.items())
    assert vars(agent).keys() == before.keys()
    assert torch.equal(numbers, torch.get_rng_state())
    assert difference(tree, state(agent)) is None


@pytest.mark.parametrize("kind", MAKE)
def test_what_is_saved_before_it_begins_learns_the_same(kind: str, tmp_path) -> None:
    agent = MAKE[kind]()
    copied, other = copy.deepcopy(agent), loaded(agent, tmp_path)
    trees = [state(learned(one)) for one in (agent, copied, other)]
    assert difference(trees[0], trees[1]) is None
    assert difference(trees[0], trees[2]) is None


def test_a_reward_scale_that_was_taken_over_is_saved_before_it_begins(tmp_path) -> None:
    agent = learned(MAKE["ppo"]())
    agent.save(tmp_path / "first")
    begun = rl_training.load(tmp_path / "first", learning_rate=1e-5)
    again = [copy.deepcopy(begun), loaded(begun, tmp_path)]
    for one in (begun, *again):
        moments = build_run(one).trainer.experience.reward_scaling.moments
        assert moments.var == agent.trainer.experience.reward_scaling.moments.var


class AsksEverything(Callback):
    interval = 10

    def __init__(self, agent: Agent, path: Path) -> None:
        self.agent, self.path = agent, path

    def on_interval(self, trainer) -> None:
        for question in QUESTIONS.values():
            question(self.agent, self.path)


@pytest.mark.parametrize("settings", [{}, {"backend": "native", "n_envs": 2}], ids=["gymnasium", "native"])
@pytest.mark.parametrize("kind", [PPO, DQN])
def test_questions_from_within_a_run_change_nothing(kind: type[Agent], settings: dict, tmp_path) -> None:
    own = ON_POLICY if kind is PPO else REPLAY
    asked, alone = (kind("CartPole-v1", seed=1, compile=False, **own, **settings) for _ in range(2))
    asked.learn(40, callbacks=AsksEverything(asked, tmp_path), progress=False)
    alone.learn(40, progress=False)
    assert difference(state(asked), state(alone)) is None


class Mine(PPO):
    """A user's own class, which takes other arguments."""

    def __init__(self, bonus: int) -> None:
        super().__init__("CartPole-v1", seed=bonus, **ON_POLICY)
        self.bonus = bonus


def test_a_class_with_a_constructor_of_its_own_is_loaded_and_copied(tmp_path) -> None:
    agent = learned(Mine(3))
    agent.save(tmp_path / "model")
    other, copied = Mine.load(tmp_path / "model"), copy.deepcopy(agent)
    assert [type(one) for one in (other, copied)] == [Mine, Mine]
    assert copied.bonus == 3
    assert difference(state(other), state(agent)) is None
