"""Samplers that are killed, hang or raise are replaced, and nothing that did not happen is learned from."""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from rl_training import PPO, SAC, Agent
from rl_training.api.training import build_run
from rl_training.distributed import processes
from rl_training.envs.failure import EnvFailedError
from rl_training.experiment.checkpoint import difference
from tests.distributed.agents import REPLAY, ROLLOUT, ended
from tests.distributed.envs import Aborting, Announced, Faulty, Forgetful, Refusing, TaughtError
from tests.forked import CONTEXT


def faulty(fault: str, marker: Path, **settings: object) -> Agent:
    kwargs = {"fault": fault, "marker": str(marker)}
    return PPO(Faulty, **ROLLOUT | {"kwargs": kwargs, "max_episode_steps": 30} | settings)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict:
    marker = tmp_path_factory.mktemp("faults") / "marker"
    marker.touch()
    return ended(faulty("kill", marker))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("kill", "was ended by SIGKILL"),
        ("stop", "has not taken a step for 1 s (env.timeout_s=1)"),
        ("raise", "raised OSError: the simulator is gone"),
    ],
)
def test_a_lost_sampler_is_replaced_and_the_run_ends_as_if_nothing_had_been(
    fault: str,
    said: str,
    undisturbed: dict,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(processes, "MARGIN_S", 0.0)
    agent = faulty(fault, tmp_path / "marker", sampling={"workers": 2}, timeout_s=1.0)
    with caplog.at_level(logging.WARNING):
        found = ended(agent)
    assert difference(undisturbed, found) is None
    (warning,) = (message for message in caplog.messages if "sampler" in message)
    assert said in warning
    assert "it is replaced (1 of 3 within 600 s)" in warning


def test_more_losses_than_allowed_end_the_run_with_the_reason(tmp_path: Path) -> None:
    agent = faulty("raise", tmp_path / "marker", sampling={"workers": 2, "restarts": 0})
    said = "the sampler of environments . to . raised OSError: the simulator is gone"
    with pytest.raises(EnvFailedError, match=said) as raised:
        ended(agent)
    assert "sampling.restarts=0" in str(raised.value)
    assert any("in step" in note for note in raised.value.__notes__)  # where the environment raised it


@pytest.mark.parametrize(("method", "restarts"), [("step", 0), ("reset", 1)])
def test_an_environment_that_aborts_does_not_end_the_learner(
    method: str, restarts: int, told: Callable[[], str]
) -> None:
    sampling = {"workers": 2, "restarts": restarts}
    agent = PPO(Aborting, kwargs={"method": method}, **ROLLOUT, sampling=sampling)
    lost = "was tried out in a process of its own, which was ended by SIGABRT"
    said = r"the sampler of environments \d to \d was ended by SIGABRT; this was loss 2" if restarts else lost
    with pytest.raises(EnvFailedError, match=said):
        agent.learn(256, progress=False)
    agent.close()
    assert (lost in told()) == bool(restarts)  # samplers may be lost as often as the user allows, and the probe is one


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        ((KeyError, "left"), KeyError, "left"),
        ((SystemExit, 3), EnvFailedError, r"called sys.exit\(3\) in its first steps"),
        ((TaughtError, 4, "no"), (TaughtError, EnvFailedError), r"no \(4\)"),  # which cannot be sent as it is
    ],
)
def test_errors_of_the_first_steps_are_the_same_with_samplers(workers: int, error: tuple, kind: Any, said: str) -> None:
    environment = type("Mine", (Refusing,), {"kind": error[0], "said": error[1:]})
    agent = PPO(environment, **ROLLOUT, sampling={"workers": workers})
    with pytest.raises(kind, match=said):
        agent.learn(64, progress=False)
    agent.close()


def test_losses_count_only_within_their_window() -> None:
    agent = PPO("CartPole-v1", **ROLLOUT, sampling={"workers": 2, "restarts": 1, "window_s": 1000.0})
    now = [0.0]
    try:
        trainer = build_run(agent).trainer
        pool = trainer.collector.env.pool
        pool.clock = lambda: now[0]
        for now[0] in (0.0, 1001.0, 2002.0):
            kill(pool.engine.processes[0])
            trainer.run(trainer.progress.timesteps + 32)
        kill(pool.engine.processes[1])
        with pytest.raises(EnvFailedError, match="loss 2 within 1000 s"):
            trainer.run()
    finally:
        agent.close()


def kill(process: BaseProcess) -> None:
    process.kill()
    process.join()


@pytest.mark.parametrize("kind", ["rollout", "replay"])
def test_episodes_that_cannot_be_rerun_are_cut_and_never_bridged(kind: str) -> None:
    """Each row follows from the one before it, or that one ended."""
    name, settings = (PPO, ROLLOUT | {"n_steps": 32}) if kind == "rollout" else (SAC, REPLAY | {"learning_starts": 90})
    env = Forgetful if kind == "rollout" else "Pendulum-v1"
    agent = name(env, **settings, sampling={"workers": 2})
    try:
        trainer = build_run(agent).trainer
        trainer.collector.env.state_kind = "boundary"
        trainer.run(32)
        kill(trainer.collector.env.pool.engine.processes[1])
        trainer.run(64)
        assert trainer.collector.state_kind == "boundary"
        if kind == "rollout":
            steps = trainer.experience.steps()
            ends = steps.terminated | steps.truncated
            follows = (steps.next_obs[:-1] == steps.obs[1:]).all(-1)
            assert (follows | ends[:-1]).all()
            assert steps.truncated[7].tolist() == [False, False, True, True]
        else:
            ring = trainer.experience.ring
            assert ring.columns.written.tolist() == [16, 16, 17, 17]  # the last observation of a cut episode is a row
    finally:
        agent.close()


@pytest.fixture
def learner(tmp_path: Path) -> Iterator[BaseProcess]:
    """A process that trains with two samplers, after its first checkpoint; `pids` has a file for each of the three."""
    (tmp_path / "pids").mkdir()
    process = CONTEXT.Process(target=train_long, args=(tmp_path,))
    process.start()
    deadline = time.monotonic() + 150
    while not list(tmp_path.glob("run/checkpoints/step-*")) and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(pids_in(tmp_path)) == 3
    yield process
    process.kill()
    process.join()


def train_long(folder: Path) -> None:
    settings = ROLLOUT | {"kwargs": {"folder": str(folder / "pids")}, "total_timesteps": 10_000_000}
    files = {"run_dir": folder / "run", "evaluation": {"episodes": 1}, "checkpoint": {"interval": 100}}
    PPO(Announced, **settings, **files, sampling={"workers": 2}).learn(progress=False)


def pids_in(folder: Path) -> list[int]:
    return [int(path.name) for path in (folder / "pids").iterdir()]


def test_samplers_end_with_a_learner_that_is_killed(learner: BaseProcess, tmp_path: Path) -> None:
    learner.kill()
    learner.join()
    deadline = time.monotonic() + 30
    while any(map(is_alive, pids_in(tmp_path))) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid in pids_in(tmp_path) if is_alive(pid)]


def test_a_signal_to_all_processes_pauses_the_run_with_a_checkpoint(learner: BaseProcess, tmp_path: Path) -> None:
    """As when a machine is taken away: everybody is told, and the learner decides."""
    for pid in pids_in(tmp_path):
        os.kill(pid, signal.SIGTERM)
    learner.join(60)
    assert learner.exitcode == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["status"], result["reason"]) == ("paused", "SIGTERM")
    resumed = Agent.resume(tmp_path / "run", env=Announced, total_timesteps=result["total_timesteps"] + 32)
    assert resumed.num_timesteps == result["total_timesteps"]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
