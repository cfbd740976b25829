"""What cannot be sampled elsewhere is refused with a sentence, and what is asked for is what happens."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest

from rl_training import PPO, SAC, Agent
from rl_training.cli import main
from rl_training.config import ConfigError, RunConfig, load_config_values
from rl_training.distributed import SampledEnv
from rl_training.experiment import RunDirectory
from tests.distributed.agents import ROLLOUT, make
from tests.forked import run_script


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"n_envs": 6, "sampling": {"workers": 4}},
            "sampling.workers=4 does not divide env.n_envs=6: .* use sampling.workers=3, or env.n_envs=8 and experience.n_steps=6$",
        ),
        ({"backend": "native", "sampling": {"workers": 2}}, "sampling.workers=2 is for environments on the host"),
        ({"vectorization": "async", "sampling": {"workers": 2}}, "env.vectorization='async': .* vectorization='sync'"),
        ({"sampling": {"lag": 1}}, "sampling.lag=1: ppo learns from rollouts .* sampling.lag=0"),
        ({"sampling": {"workers": 0}}, "sampling.workers=0 must be at least 1"),
        ({"sampling": {"worker": 2}}, "sampling.worker is not"),
        ({"sampling": {"engine": "mpi"}}, "sampling.engine='mpi'"),
        ({"sampling": {"window_s": 0}}, "sampling.window_s=0"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        PPO("CartPole-v1", **ROLLOUT | settings)


def test_advice_keeps_as_many_updates_for_each_env_step() -> None:
    said = "use sampling.workers=1, or env.n_envs=4, experience.train_freq=4 and algorithm.gradient_steps=12$"
    with pytest.raises(ConfigError, match=said):
        SAC("Pendulum-v1", train_freq=2, gradient_steps=6, sampling={"workers": 4})
    with pytest.raises(ConfigError, match=r"use sampling\.workers=1, or env\.n_envs=4$"):
        SAC("Pendulum-v1", train_freq=8, gradient_steps=6, sampling={"workers": 4})


@pytest.mark.parametrize(("preset", "workers"), [("ppo/halfcheetah", 4), ("ppo/halfcheetah", 16), ("appo/hopper", 16)])
def test_presets_of_the_guide_have_an_environment_for_every_worker(preset: str, workers: int) -> None:
    values = load_config_values(preset)
    config = RunConfig.from_mapping(values | {"sampling": values.get("sampling", {}) | {"workers": workers}})
    assert config.sampling.workers == workers


def test_an_environment_that_is_an_object_is_refused() -> None:
    envs = gym.vector.SyncVectorEnv([lambda: gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))] * 2)
    envs.spec = None
    with pytest.raises(ConfigError, match=r"sampling\.workers=2 .* handed over as an object"):
        PPO(envs, n_steps=8, batch_size=8, sampling={"workers": 2})


def test_a_resumed_run_keeps_its_lag(tmp_path: Path) -> None:
    agent = make("PPO", tmp_path / "run")
    agent.learn(stop_at=32, progress=False)
    agent.close()
    with pytest.raises(ConfigError, match="a resumed run keeps its lag, which is 0"):
        Agent.resume(tmp_path / "run", sampling={"lag": 2})
    with pytest.raises(ConfigError, match=r"sampling=3 must be a mapping"):
        Agent.resume(tmp_path / "run", sampling=3)


def test_the_command_line_says_who_steps(tmp_path: Path) -> None:
    small = ["training.total_timesteps=512", "experience.n_steps=32", "evaluation.episodes=1", "training.compile=false"]
    run, sets = str(tmp_path / "run"), [word for one in small for word in ("--set", one)]
    assert (
        main(["train", "ppo/cartpole", "--run-dir", run, "--workers", "2", "--stop-at", "256", "--quiet", *sets]) == 0
    )
    assert RunDirectory.open(tmp_path / "run").config().sampling.workers == 2
    assert main(["resume", run, "--workers", "1", "--quiet", "--verify"]) == 0
    assert RunDirectory.open(tmp_path / "run").config().sampling.workers == 1


SCRIPT = """
from gymnasium.envs.classic_control import CartPoleEnv

import rl_training


class Mine(CartPoleEnv):
    pass


agent = rl_training.PPO(Mine, n_envs=2, n_steps=8, batch_size=8, total_timesteps=32, sampling={"workers": 2})
print(agent.learn(progress=False).status)
"""


def test_a_script_needs_no_guard_and_may_hold_its_environment(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SCRIPT)
    done = run_script(tmp_path / "mine.py", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("finished\n", "")


def test_one_process_has_no_handle() -> None:
    for workers, kind in ((1, False), (2, True)):
        agent = make("PPO", sampling={"workers": workers})
        assert isinstance(agent.env, SampledEnv) is kind
        agent.close()
