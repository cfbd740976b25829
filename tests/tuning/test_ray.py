"""Runs of a study as tasks of a local Ray cluster."""

import json
from pathlib import Path

import pytest

from rl_training.strict_yaml import parse_yaml
from rl_training.tuning.job import Ended, Evaluated, Job
from tests.tuning.test_search import CONFIG


def test_tasks_are_answered_stopped_and_paused_with_a_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    from rl_training.tuning.ray_tasks import RayTasks

    config = parse_yaml(CONFIG)
    assert isinstance(config, dict)
    engine = RayTasks(1)
    try:
        engine.start(Job(0, str(tmp_path / "stopped"), config))
        first = engine.next_event()
        assert isinstance(first, Evaluated)
        assert (first.trial, first.step) == (0, 32)
        engine.answer(0, "pruned")
        assert engine.next_event() == Ended(0, "stopped", "pruned")
        engine.start(Job(1, str(tmp_path / "failed"), config | {"algorithm": {"name": "ppo", "gamma": 2}}))
        failed = engine.next_event()
        assert isinstance(failed, Ended)
        assert (failed.status, "must be at most 1" in failed.reason) == ("failed", True)
        long = config | {"training": {"total_timesteps": 10_000_000, "compile": False}, "evaluation": {"interval": 32}}
        engine.start(Job(2, str(tmp_path / "paused"), long))
        assert isinstance(engine.next_event(), Evaluated)
        engine.answer(2, None)
        assert isinstance(engine.next_event(), Evaluated)
    finally:
        engine.close()
    assert json.loads((tmp_path / "paused" / "result.json").read_text())["status"] == "paused"
    assert list((tmp_path / "paused" / "checkpoints").glob("step-*"))
