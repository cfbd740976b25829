"""The life cycle of PPO and A2C: construct, learn, evaluate, predict, save, load."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict

import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv

import rl_training
from rl_training import A2C, PPO, Agent, Callback, CheckpointError, ConfigError, Dataset, RunConfig, load, make_data
from rl_training.algorithms import A2CAlgorithm, PPOAlgorithm
from rl_training.experiment.checkpoint import difference
from tests.api.small_agents import KINDS, OBS, SMALL, make, state
from tests.envs.counting import CountingEnv
from tests.experiment.editing import edit_manifest


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [32, 50, 7])
def test_learn_takes_exactly_the_steps_asked_for(kind, budget):
    agent = make(kind, n_envs=1)
    first = agent.learn(budget, progress=False)
    second = agent.learn(budget, progress=False)
    rollout = SMALL[kind.name]["n_steps"]
    per_rollout = {"ppo": 2, "a2c": 1}[kind.name]
    assert (first.status, first.total_timesteps, second.total_timesteps) == ("finished", budget, 2 * budget)
    assert agent.num_timesteps == 2 * budget
    assert (first.gradient_steps, second.gradient_steps) == tuple(
        n // rollout * per_rollout for n in (budget, 2 * budget)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_configs_budget_is_used_up_once(kind):
    agent = make(kind, total_timesteps=40)
    assert agent.learn(progress=False, stop_at=20).status == "paused"
    result = agent.learn(progress=False)
    assert (result.status, result.reason, result.total_timesteps) == ("finished", "budget", 40)
    assert agent.learn(progress=False).total_timesteps == 40
    assert agent.learn(1e1, progress=False).total_timesteps == 50


def test_two_halves_with_a_pause_equal_the_whole():
    whole, halves = make(PPO, total_timesteps=100), make(PPO, total_timesteps=100)
    whole.learn(progress=False)
    halves.learn(progress=False, stop_at=42)
    halves.learn(progress=False)
    assert difference(state(whole), state(halves)) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_decides_every_bit(kind):
    a, b, c = make(kind), make(kind), make(kind, seed=2)
    for agent in (a, b, c):
        agent.learn(64, progress=False)
    assert difference(state(a), state(b)) is None
    assert difference(state(a), state(c)) is not None


def test_construction_does_not_depend_on_the_number_of_threads():
    threads = torch.get_num_threads()
    try:
        states = []
        for number in (1, 2):
            torch.set_num_threads(number)
            states.append(make(PPO).algorithm.state_dict())
            assert torch.get_num_threads() == number
    finally:
        torch.set_num_threads(threads)
    assert difference(dict(states[0]), dict(states[1])) is None


@pytest.mark.parametrize("kind", KINDS)
def test_learning_leaves_the_callers_random_numbers_and_threads_alone(kind):
    threads = torch.get_num_threads()
    torch.manual_seed(7)
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    agent = make(kind, threads=2, evaluation={"interval": 4, "episodes": 1})
    agent.learn(8, progress=False)
    agent.evaluate(2)
    agent.predict(OBS)
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_during_training_changes_nothing(kind):
    plain = make(kind, total_timesteps=100)
    watched = make(kind, total_timesteps=100, evaluation={"interval": 10, "episodes": 3, "deterministic": False})
    plain.learn(progress=False)
    result = watched.learn(progress=False)
    assert result.eval_episodes == 3
    a, b = state(plain), state(watched)
    del a["progress"]["best_return"], b["progress"]["best_return"]
    assert difference(a, b) is None


def test_evaluate_unpacks_and_is_typed():
    agent = PPO(CountingEnv, **SMALL["ppo"], evaluation={"n_envs": 2})
    result = agent.evaluate(num_episodes=4)
    mean, std = result
    assert sorted(result.returns) == [6.0, 6.0, 15.0, 15.0]
    assert sorted(result.lengths) == [3, 3, 5, 5]
    assert (mean, std) == (result.mean, result.std) == (10.5, 4.5)
    assert result.mean_length == 4.0
    assert isinstance(result, rl_training.EvalResult)


def test_evaluate_repeats_with_its_seed():
    agent = make(PPO)
    assert agent.evaluate(5, seed=3).returns == agent.evaluate(5, seed=3).returns
    assert agent.evaluate(5, deterministic=False, seed=3) == agent.evaluate(5, deterministic=False, seed=3)


@pytest.mark.parametrize("kind", KINDS)
def test_save_load_predict_and_go_on(kind, tmp_path):
    agent = make(kind, total_timesteps=200)
    agent.learn(progress=False, stop_at=70)
    agent.save(tmp_path / "model")
    for loaded in (kind.load(tmp_path / "model"), rl_training.load(str(tmp_path / "model"))):
        assert type(loaded) is kind
        assert loaded.num_timesteps == 70
        rows = np.random.default_rng(0).normal(size=(50, 4))
        assert np.array_equal(loaded.predict(rows)[0], agent.predict(rows)[0])
        assert loaded.evaluate(3) == agent.evaluate(3)
        assert difference(state(loaded), state(agent)) is None
        loaded.save(tmp_path / "again")  # without having learned
        assert difference(state(rl_training.load(tmp_path / "again")), state(agent)) is None
        loaded.learn(progress=False)
    agent.learn(progress=False)
    assert difference(state(loaded), state(agent)) is None


def test_loading_with_the_wrong_class_is_refused(tmp_path):
    make(A2C).save(tmp_path / "model")
    with pytest.raises(ConfigError, match=r"holds 'a2c', not 'ppo': use rl_training\.load\("):
        PPO.load(tmp_path / "model")


def test_saving_over_a_checkpoint_replaces_it_and_over_a_folder_is_refused(tmp_path):
    agent = make(PPO)
    agent.save(tmp_path / "model")
    agent.learn(32, progress=False)
    agent.save(tmp_path / "model")
    assert rl_training.load(tmp_path / "model").num_timesteps == 32
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    (tmp_path / "photos").mkdir()
    with pytest.raises(CheckpointError, match="exists and is not a checkpoint"):
        agent.save(tmp_path / "photos")
    assert list((tmp_path / "photos").iterdir()) == []


def test_the_device_of_a_checkpoint_can_be_changed_while_loading(tmp_path):
    make(PPO).save(tmp_path / "model")
    edit_manifest(tmp_path / "model", lambda m: m["config"]["training"].update(device="cuda"))
    assert PPO.load(tmp_path / "model", device="cpu").predict(OBS)[0] in (0, 1)
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="no usable GPU"):
            PPO.load(tmp_path / "model")


def test_config_preset_and_keywords_build_the_same():
    keywords = PPO("CartPole-v1", n_envs=8, n_steps=32, batch_size=256, n_epochs=20, gamma=0.98, gae_lambda=0.8,
                   learning_rate="lin_1e-3", clip_range="lin_0.2", total_timesteps=100_000)  # fmt: skip
    preset = PPO.from_preset("ppo/cartpole", overrides=["training.seed=0"])
    assert preset.config.algorithm == keywords.config.algorithm
    assert preset.config.experience == keywords.config.experience
    assert PPO(preset.config).config == preset.config
    assert difference(dict(preset.algorithm.state_dict()), dict(keywords.algorithm.state_dict())) is None
    assert rl_training.algorithms.PPO is PPO
    assert isinstance(preset.algorithm, PPOAlgorithm)
    assert isinstance(make(A2C).algorithm, A2CAlgorithm)
    with pytest.raises(ConfigError, match=r"the config is for 'ppo', not 'a2c': use PPO"):
        A2C(preset.config)


class Recorder(Callback):
    interval = 20

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def on_start(self, trainer) -> None:
        self.seen.append(("start", trainer.progress.timesteps))

    def on_interval(self, trainer) -> None:
        self.seen.append(("interval", trainer.progress.timesteps))
        if trainer.progress.timesteps >= 60:
            trainer.request_stop("seen enough")

    def on_end(self, trainer) -> None:
        self.seen.append(("end", trainer.progress.timesteps))

    def close(self) -> None:
        self.seen.append(("close", 0))


def test_callbacks_see_exact_steps_and_can_stop():
    recorder = Recorder()
    result = make(PPO).learn(200, callbacks=[recorder], progress=False)
    steps = [("interval", 20), ("interval", 40), ("interval", 60)]
    assert recorder.seen == [("start", 0), *steps, ("end", 60), ("close", 0)]
    assert (result.status, result.reason, result.total_timesteps) == ("stopped", "seen enough", 60)


def test_a_run_stops_early_when_an_evaluation_is_good_enough():
    evaluation = {"interval": 40, "episodes": 2, "stop_at_return": 1.0}
    result = make(PPO, evaluation=evaluation).learn(400, progress=False)
    assert (result.status, result.total_timesteps) == ("stopped", 40)
    assert result.reason.endswith("reached 1")


def test_a_run_directory_holds_the_typed_result_and_resumes(tmp_path):
    agent = make(PPO, run_dir=tmp_path / "run", total_timesteps=96, checkpoint={"interval": 30})
    paused = agent.learn(progress=False, stop_at=50)
    assert json.loads((tmp_path / "run/result.json").read_text()) == asdict(paused)
    resumed = Agent.resume(tmp_path / "run")
    result = resumed.learn(progress=False)
    assert (result.status, result.total_timesteps) == ("finished", 96)
    assert result.eval_mean_return == np.mean(result_returns(tmp_path / "run"))
    assert rl_training.load(tmp_path / "run").num_timesteps == 96
    with pytest.raises(ConfigError, match="stop_at=10 lies behind this run, which has 96 env steps: raise it"):
        Agent.resume(tmp_path / "run").learn(stop_at=10)


def test_an_environment_that_changes_the_working_directory_does_not_split_the_run(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)

    class Moving(CartPoleEnv):
        def reset(self, **options):
            os.chdir(elsewhere)
            return super().reset(**options)

    settings = {"n_envs": 2, "n_steps": 16, "batch_size": 32, "compile": False, "evaluation": {"interval": 32}}
    agent = PPO(Moving, run_dir="runs/first", max_episode_steps=20, **settings)
    agent.learn(64, progress=False)
    assert agent.run_dir == tmp_path / "runs" / "first"
    assert {"metrics.jsonl", "result.json", "learning_curve.png"} <= {file.name for file in agent.run_dir.iterdir()}
    assert not list(elsewhere.iterdir())


def test_a_leading_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = make(PPO, run_dir="~/run")
    assert agent.run_dir == tmp_path / "run"
    agent.save("~/model")
    assert (tmp_path / "model").exists()
    assert type(load("~/model")) is PPO
    make_data("CartPole-v1", ["random"], 8).save("~/made.npz")
    assert len(Dataset.open("~/made.npz")) == 8
    with pytest.raises(ConfigError, match="home folder is not known: write the whole path"):
        load("~nobody-has-this-name/model")


def result_returns(run_dir) -> list[float]:
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if "eval/returns" in row][-1]["eval/returns"]


def test_learning_works_in_a_thread(tmp_path):
    results = []
    agent = make(A2C, run_dir=tmp_path / "run")
    thread = threading.Thread(target=lambda: results.append(agent.learn(32, progress=False)))
    thread.start()
    thread.join()
    assert results[0].total_timesteps == 32


def test_public_names():
    assert set(rl_training.__all__) <= set(dir(rl_training))
    for name in rl_training.__all__:
        assert getattr(rl_training, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'SAC2'"):
        _ = rl_training.SAC2
    assert isinstance(make(PPO).config, RunConfig)


def test_a_failing_last_evaluation_keeps_the_training(tmp_path) -> None:
    class Broken(Callback):
        def on_evaluation(self, trainer, result) -> None:
            raise RuntimeError("evaluation hook failed")

    agent = PPO("CartPole-v1", n_envs=2, n_steps=16, batch_size=32, run_dir=tmp_path / "run", seed=1, compile=False)
    with pytest.raises(RuntimeError, match="evaluation hook failed"):
        agent.learn(64, callbacks=Broken(), progress=False)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["status"], result["reason"]) == ("failed", "RuntimeError: evaluation hook failed")
    assert PPO.resume(tmp_path / "run").num_timesteps == 64


def test_a_changed_config_is_refused_on_resume(tmp_path) -> None:
    agent = PPO("CartPole-v1", n_envs=2, n_steps=16, batch_size=32, run_dir=tmp_path / "run", seed=1, compile=False)
    agent.learn(64, stop_at=32, progress=False)
    file = tmp_path / "run" / "config.yaml"
    file.write_text(file.read_text().replace("n_steps: 16", "n_steps: 32"))
    with pytest.raises(ConfigError, match=r"config.yaml was changed .*experience.n_steps: 16 -> 32"):
        PPO.resume(tmp_path / "run")


def test_a_longer_budget_is_written_into_the_run_directory(tmp_path) -> None:
    agent = PPO("CartPole-v1", n_envs=2, n_steps=16, batch_size=32, run_dir=tmp_path / "run", seed=1, compile=False)
    agent.learn(64, progress=False)
    agent.learn(64, progress=False)
    assert PPO.resume(tmp_path / "run").config.training.total_timesteps == 128


def test_learn_of_an_agent_that_is_done_says_that_it_takes_no_step(told) -> None:
    agent = PPO("CartPole-v1", n_steps=16, batch_size=16, n_epochs=1, compile=False, total_timesteps=32)
    agent.learn(progress=False)
    assert "takes no step" not in told()
    agent.learn(progress=False)
    assert told() == "this run is done (32 env steps), so learn() takes no step: learn(N) takes N further ones\n"
    assert agent.num_timesteps == 32
    agent.learn(16, progress=False)
    assert (agent.num_timesteps, told()) == (48, "")
