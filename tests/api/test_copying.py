"""Copies of an agent are equal to it, go on as it would, and share nothing that changes."""

from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import pytest
import torch

import rl_training
from rl_training import DQN, PPO, SAC, Agent, Callback, ConfigError, RecurrentPPO
from rl_training.api.training import build_run
from rl_training.experiment.checkpoint import comparable, copy_state, difference
from tests.offline import cloned, rlpd

REPLAY = {"learning_starts": 20, "buffer_size": 50, "batch_size": 8, "net_arch": [16]}
ROLLOUT = {"n_steps": 16, "batch_size": 16, "n_epochs": 1}
CASES: dict[str, tuple[type[Agent], dict]] = {
    "ppo": (
        PPO,
        {"env": "CartPole-v1", "n_envs": 2, "normalize_observation": True, "normalize_reward": True, **ROLLOUT},
    ),
    "recurrent": (RecurrentPPO, {"env": "CartPole-v1", "lstm_hidden_size": 8, **ROLLOUT}),
    "dqn": (DQN, {"env": "CartPole-v1", "prioritized": True, "n_steps": 3, **REPLAY}),
    "sac": (SAC, {"env": "Pendulum-v1", **REPLAY}),
}


def make(name: str, **settings: object) -> Agent:
    kind, defaults = CASES[name]
    return kind(**defaults | {"seed": 0, "compile": False} | settings)


def learn(agent: Agent, steps: int) -> Agent:
    agent.learn(steps, progress=False)
    return agent


def state(agent: Agent) -> dict:
    return comparable(copy_state(agent.snapshot().state))


@pytest.mark.parametrize(("name", "before"), [*((name, 40) for name in CASES), ("ppo", 0), ("dqn", 0)])
def test_a_copy_goes_on_as_the_original_and_leaves_it_alone(name, before):
    original, untouched = (learn(make(name), before) if before else make(name) for _ in range(2))
    copies = [copy.copy(original)]
    copies.append(copy.deepcopy(copies[0]))  # of an agent that has not opened its environments
    for other in copies:
        learn(other, 27)
    assert original.num_timesteps == before
    assert difference(state(original), state(untouched)) is None
    learn(original, 27)
    for other in copies:
        assert type(other) is type(original)
        assert difference(state(other), state(original)) is None


def test_a_copy_from_within_a_run_goes_on_from_there():
    class TakeCopy(Callback):
        interval = 30
        taken: Agent | None = None

        def on_interval(self, trainer):
            self.taken = self.taken or copy.deepcopy(agent)

    agent, callback = make("ppo", total_timesteps=80), TakeCopy()
    agent.learn(callbacks=callback, progress=False)
    assert callback.taken is not None
    assert callback.taken.num_timesteps == 30
    callback.taken.learn(progress=False)
    assert difference(state(callback.taken), state(agent)) is None


def test_a_copy_of_a_loaded_agent_needs_no_file(tmp_path):
    learn(make("dqn"), 40).save(tmp_path / "saved")
    loaded = rl_training.load(tmp_path / "saved")
    other = copy.deepcopy(loaded)
    learn(loaded, 30)
    for file in (tmp_path / "saved").iterdir():
        file.unlink()
    assert difference(state(learn(other, 30)), state(loaded)) is None


def test_a_copied_replay_is_held_once():
    """Neither the original nor the copy keeps the rows a second time beside its ring."""
    agent = learn(make("dqn"), 40)
    other = learn(copy.deepcopy(agent), 5)
    for one in (agent, other):
        assert one.state == {}
        assert not any(segment.rows for segment in one.trainer.experience.saved.log.segments)
    assert difference(state(learn(agent, 5)), state(other)) is None


def test_a_copy_is_saved_like_any_agent(tmp_path):
    agent = learn(make("dqn"), 40)
    other = copy.deepcopy(agent)
    for name, one in (("copy", other), ("original", agent)):
        one.save(tmp_path / name)
    loaded = [learn(rl_training.load(tmp_path / name), 30) for name in ("copy", "original")]
    assert difference(state(loaded[0]), state(loaded[1])) is None
    assert difference(state(loaded[0]), state(learn(agent, 30))) is None


def test_a_copy_has_no_run_directory(tmp_path):
    agent = make("ppo", run_dir=tmp_path / "run", total_timesteps=60)
    agent.learn(stop_at=30, progress=False)
    other = copy.deepcopy(agent)
    assert other.run_dir is None
    before = sorted((tmp_path / "run").rglob("*"))
    other.learn(progress=False)
    assert sorted((tmp_path / "run").rglob("*")) == before


def test_a_copy_of_an_agent_that_learns_from_data():
    original = cloned()
    original.learn(total_updates=20, progress=False)
    other = copy.deepcopy(original)
    assert other.dataset is original.dataset  # nobody writes to it
    for agent in (other, original):
        agent.learn(total_updates=20, progress=False)
    assert difference(state(other), state(original)) is None


def test_a_copy_of_an_agent_that_learns_from_data_and_steps():
    original = rlpd()
    original.learn(30, total_updates=5, progress=False)
    other = copy.deepcopy(original)
    for agent in (other, original):
        learn(agent, 12)
    assert difference(state(other), state(original)) is None


def test_an_environment_that_was_handed_over_as_an_object_cannot_be_copied():
    agent = PPO(gym.make_vec("CartPole-v1", 2, vectorization_mode="sync"), **ROLLOUT, seed=0)
    agent.config = agent.config.replace("env", id="object:Thing")
    other = copy.deepcopy(agent)
    assert torch.equal(*(next(one.algorithm.parameters()) for one in (agent, other)))
    with pytest.raises(ConfigError, match="handed over as an object"):
        other.learn(32, progress=False)


def test_own_attributes_are_copied_too():
    agent = make("ppo")
    agent.notes = ["a"]  # pyrefly: ignore
    other = copy.deepcopy(agent)
    other.notes.append("b")  # pyrefly: ignore
    assert agent.notes == ["a"]  # pyrefly: ignore


@pytest.mark.parametrize("before", [0, 40])
def test_pickling_is_refused_with_what_to_do_instead(before):
    agent = learn(make("ppo"), before) if before else make("ppo")
    with pytest.raises(TypeError, match=r"agent\.save\(path\).*rl_training\.load\(path\)"):
        pickle.dumps(agent)


def test_weights_that_were_changed_after_loading_count(tmp_path):
    """They were lost when the run went on, and when the agent was saved again."""
    learn(make("ppo"), 40).save(tmp_path / "saved")
    loaded = rl_training.load(tmp_path / "saved")
    with torch.no_grad():
        next(loaded.algorithm.parameters()).fill_(7.0)
    loaded.save(tmp_path / "again")
    build_run(loaded)
    for agent in (loaded, rl_training.load(tmp_path / "again")):
        assert next(agent.algorithm.parameters()).eq(7.0).all()
