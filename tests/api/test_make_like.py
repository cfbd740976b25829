"""Datasets in D4RL's manner: a replay is the steps that were taken, and labels say what the data are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl_training import DQN, PPO, SAC, ConfigError, Dataset
from rl_training.api import make_like
from rl_training.api.make_like import find_preset, make_data_like, replay_dataset
from rl_training.data import ReferenceScore, lint
from rl_training.data.reference_scores import NOT_D4RL

QUICK = {"threads": 1, "compile": False, "net_arch": [8], "batch_size": 16, "learning_starts": 90}
SCALE = ReferenceScore(-2_000.0, 0.0)


@pytest.mark.parametrize("num_envs", [1, 2])
def test_a_replay_is_the_steps_that_were_taken(num_envs: int) -> None:
    """Pendulum: what follows from an observation and an action is a formula, also across a cut."""
    agent = SAC("Pendulum-v1", max_episode_steps=30, n_envs=num_envs, train_freq=num_envs, **QUICK)
    agent.learn(100, progress=False)
    data = replay_dataset(agent)
    assert len(data) == 100
    ends = [29, 59, 89, 99] if num_envs == 1 else [29, 49, 79, 99]
    assert np.flatnonzero(data.truncated).tolist() == ends
    assert not data.terminated.any()
    assert lint(data) == []
    angle, speed, torque = np.arctan2(data.obs[:, 1], data.obs[:, 0]), data.obs[:, 2], data.action[:, 0].clip(-2, 2)
    np.testing.assert_allclose(data.reward, -(angle**2 + 0.1 * speed**2 + 0.001 * torque**2), rtol=1e-3, atol=1e-3)
    faster = (speed + (15 * np.sin(angle) + 3 * torque) * 0.05).clip(-8, 8)
    after = data.successors(np.arange(100))
    np.testing.assert_allclose(after[:, 2], faster, atol=1e-3)
    np.testing.assert_allclose(after[:, 0], np.cos(angle + faster * 0.05), atol=1e-3)
    agent.close()


def test_a_replay_of_terminated_episodes_with_scaled_rewards() -> None:
    agent = DQN("CartPole-v1", reward_scale=10.0, train_freq=1, exploration_final_eps=1.0, **QUICK)
    agent.learn(150, progress=False)
    data = replay_dataset(agent)
    assert (len(data), set(data.reward.tolist())) == (150, {1.0})
    last = data.episodes().stop - 1
    assert data.terminated[last[:-1]].all()
    assert data.truncated[-1] or data.terminated[-1]
    assert (np.abs(data.obs[data.episodes().start]) <= 0.05).all()
    agent.close()


def test_a_replay_that_has_forgotten_holds_the_newest_steps() -> None:
    agent = DQN("CartPole-v1", buffer_size=40, train_freq=1, **QUICK)
    agent.learn(150, progress=False)
    data = replay_dataset(agent)
    assert 35 <= len(data) <= 40
    inner = np.setdiff1d(np.arange(len(data)), data.episodes().stop - 1)
    np.testing.assert_allclose(data.obs[inner + 1, 0], data.obs[inner, 0] + 0.02 * data.obs[inner, 1], atol=1e-5)
    agent.close()


def test_methods_without_a_replay_have_no_steps_to_give() -> None:
    with pytest.raises(ConfigError, match="ppo has no replay with steps: take a method with one"):
        replay_dataset(PPO("CartPole-v1"))


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("presets") / "sac.yaml"
    path.write_text(
        "algorithm: {name: sac, net_arch: [8], batch_size: 16}\n"
        "experience: {learning_starts: 20, train_freq: 10}\nenv: {id: Pendulum-v1, max_episode_steps: 20}\n"
        "training: {total_timesteps: 200, compile: false, threads: 1}\nevaluation: {episodes: 2}\n"
    )
    return str(path)


def test_medium_replay_is_the_run_up_to_its_score(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_like, "LEAST", 50)
    easy = make_data_like("Pendulum-v1", "medium-replay", preset=preset, score=1.0, reference=SCALE)
    assert len(easy) == 50  # reached at the first evaluation
    origin = easy.provenance
    assert origin.method.startswith("medium-replay in D4RL's manner, not D4RL's data: the replay of")
    assert "(seed 0) at 50 steps, whose evaluation was" in origin.method
    assert (origin.env_id, origin.seed, easy.reference) == ("Pendulum-v1", 0, SCALE)


def test_medium_and_expert_are_rolled_out(preset: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    both = make_data_like("Pendulum-v1", "medium-expert", 80, preset=preset, score=100.0, reference=SCALE)
    assert np.bincount(both.extras["policy"]).tolist() == [40, 40]
    assert np.isfinite(both.log_prob).all()
    assert "below 0.0: the data are of a worse policy" in caplog.text  # a score that was not reached
    assert both.provenance.method.endswith("half of the same run at 200 steps")
    both.save(tmp_path / "both.npz")
    assert Dataset.open(tmp_path / "both.npz").normalized_score() == pytest.approx(100 + both.returns.mean() / 20)


def test_d4rls_environments_have_its_constants_and_sacs_presets() -> None:
    assert [find_preset(f"{name}-v5") for name in ("Hopper", "HalfCheetah")] == ["sac/hopper", "sac/halfcheetah"]
    assert ReferenceScore.d4rl("Walker2d-v5").source == NOT_D4RL == "D4RL constants, not D4RL data"


WRONG = {
    "kind": (("Hopper-v5", "expert"), {}, "like='expert' is not known: use medium-replay, medium, medium-expert"),
    "steps": (("Hopper-v5", "medium"), {}, "like='medium' needs steps, how many rows to make"),
    "no steps": (("Hopper-v5", "medium-replay", 10), {}, "like='medium-replay' has as many steps as the run took"),
    "expert": (("Hopper-v5", "medium", 10), {"expert": "x"}, "expert='x' is for like='medium-expert', not 'medium'"),
    "no expert": (
        ("Hopper-v5", "medium-expert", 10),
        {"expert": "nowhere"},
        "expert='nowhere' does not exist: give a run",
    ),
    "score": (("Hopper-v5", "medium", 10), {"score": 0}, "score=0: a medium policy is between 0 and 100"),
    "no scale": (("Pendulum-v1", "medium", 10), {}, "no reference scores for 'Pendulum-v1': known are HalfCheetah"),
    "no preset": (
        ("CartPole-v1", "medium", 10),
        {"reference": SCALE},
        "no preset of SAC learns in CartPole-v1: name one",
    ),
    "other": (("Hopper-v5", "medium", 10), {"preset": "sac/pendulum"}, "learns in Pendulum-v1, not in Hopper-v5"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_made_is_refused(name: str) -> None:
    arguments, settings, sentence = WRONG[name]
    with pytest.raises(ValueError, match=sentence):
        make_data_like(*arguments, **settings)
