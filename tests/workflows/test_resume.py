"""Pause and resume through real processes: the result is that of a run without a pause, bit for bit."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tests import needs
from tests.cli.process import call_all, read_jsonl

# Every pause falls inside a rollout. Budgets do not divide the rollout either.
CASES = {
    "ppo-sync": "ppo/cartpole --set algorithm.batch_size=64",
    "ppo-async": "ppo/cartpole --set algorithm.batch_size=64 --set env.vectorization=async --set env.n_envs=2",
    "ppo-native": "ppo/cartpole --set algorithm.batch_size=64 --set env.backend=native",
    "ppo-vector-entry-point": "ppo/cartpole --set algorithm.batch_size=64 --set env.vectorization=vector_entry_point",
    "ppo-hopper": "ppo/hopper --set algorithm.n_steps=100 --set algorithm.batch_size=50",
    "ppo-lunarlander": "ppo/lunarlander --set algorithm.n_steps=40 --set env.n_envs=4 --set algorithm.batch_size=80",
    "a2c-sync": "a2c/cartpole",
    "a2c-native-pendulum": "a2c/pendulum --set env.backend=native",
    "sac-sync": "sac/pendulum --set algorithm.batch_size=32 --set algorithm.net_arch=[32] --set experience.train_freq=4",
}
COMMON = (
    "--total-timesteps 1100 --set algorithm.n_epochs=2 --set evaluation.interval=500 --set evaluation.episodes=2 "
    "--set checkpoint.interval=400 --set training.log_interval=300 --quiet"
)
EXACT = {"ppo-native", "ppo-vector-entry-point", "a2c-native-pendulum"}  # the others re-run the open episodes
# Kinds of environments that `tests/conformance/test_life_cycle.py` pauses in, inside one process. `make test` has one run
# of each kind of resume and of experience: replayed and exact, rollout and replay.
SLOW = {"ppo-async", "ppo-vector-entry-point", "ppo-hopper", "ppo-lunarlander", "a2c-sync", "a2c-native-pendulum"}
NEEDS = {"ppo-hopper": "mujoco", "ppo-lunarlander": "Box2D"}


def available(name: str) -> bool:
    return name not in NEEDS or importlib.util.find_spec(NEEDS[name]) is not None


every_case = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in CASES]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("resume")


@pytest.fixture(scope="module")
def paused(folder, request: pytest.FixtureRequest) -> dict[str, dict]:
    """The results of the cases that were selected, all paused by one process."""
    wanted = {item.callspec.params["name"] for item in request.session.items if item.path == request.path}
    commands = []
    for name, case in CASES.items():
        if name in wanted and available(name):
            common = COMMON.replace("--set algorithm.n_epochs=2 ", "") if name.startswith(("a2c", "sac")) else COMMON
            commands.append(["train", *case.split(), *common.split(), "--stop-at", "604", "--run-dir", name])
    done = call_all(commands, folder)
    assert done.returncode == 0, done.stderr
    return {path.parent.name: json.loads(path.read_text()) for path in folder.glob("*/result.json")}


@pytest.fixture(scope="module")
def verified(folder, paused) -> dict[str, str]:
    """What `resume --verify` printed for each run, by one further process."""
    done = call_all([["resume", name, "--verify", "--quiet"] for name in sorted(paused)], folder)
    parts = done.stdout.split("verify: training")
    assert len(parts) == len(paused) + 1, done.stderr
    return dict(zip(sorted(paused), (part.splitlines()[1] for part in parts[1:]), strict=True))


@every_case
def test_resume_is_exact(name, folder, paused, verified):
    if not available(name):
        pytest.skip(needs.package(NEEDS[name]))
    assert paused[name]["status"] == "paused"
    assert 604 <= paused[name]["total_timesteps"] < 604 + 8
    assert paused[name]["eval_mean_return"] is not None  # of step 500
    assert verified[name].startswith("verify: exact;"), verified[name]
    result = json.loads((folder / name / "result.json").read_text())
    assert result["status"] == "finished"
    assert 1100 <= result["total_timesteps"] < 1100 + 8
    assert result["resume"] == ("exact" if name in EXACT else "replayed")


@every_case
def test_logs_continue_without_gaps_or_repeats(name, folder, verified):
    if not available(name):
        pytest.skip(needs.package(NEEDS[name]))
    rows = read_jsonl(folder / name / "metrics.jsonl")
    training = [row["timesteps"] for row in rows if "train/loss" in row]
    assert training == sorted(set(training))
    evaluated = [row["timesteps"] for row in rows if "eval/mean_reward" in row]
    assert len(evaluated) == 3  # 500, 1000 and the end
    assert evaluated == sorted(set(evaluated))
