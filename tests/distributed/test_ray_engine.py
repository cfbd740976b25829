"""Samplers as actors of Ray, and the runs of a study as its tasks.

One cluster serves both, so the tests of studies are here, too: tests that follow each other nearly always run in the same
worker of xdist. Where the suite is divided between them, a second cluster is started, which costs time and nothing else.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rl_base.strict_yaml import parse_yaml
from rl_training import APPO
from rl_training.api.training import build_run
from rl_training.config import ConfigError
from rl_training.distributed import ray_engine
from rl_training.experiment.checkpoint import difference
from rl_training.tuning.job import Ended, Evaluated, Job
from tests import needs
from tests.distributed.agents import ROLLOUT, ended, make, trained
from tests.tuning.test_search import CONFIG

FIRST = 0  # a user of the cluster, beside the engines of the tests


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster that is started for its first user, serves others meanwhile, and ends with the last."""
    needs.import_package("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        ray = ray_engine.connect(3, FIRST)
        yield
        assert {FIRST} == ray_engine.OWN_CLUSTER
        assert ray.is_initialized()
        ray_engine.disconnect(ray, FIRST)
        assert not ray.is_initialized()


def test_actors_learn_what_one_process_learns_also_if_one_is_killed(
    cluster: None, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make("PPO", sampling={"workers": 2, "engine": "ray"})
    trainer = build_run(agent).trainer
    trainer.run(52)
    engine = trainer.collector.env.pool.engine
    engine.ray.kill(engine.actors[1])
    with caplog.at_level(logging.WARNING):
        assert difference(trained("PPO"), ended(agent)) is None
    assert any("the sampler of environments 2 to 3 was lost" in message for message in caplog.messages)
    settings = ROLLOUT | {"total_timesteps": 96}
    lagging = [
        ended(APPO("CartPole-v1", **settings, sampling={"workers": 1, "lag": 1, "engine": engine}))
        for engine in ("processes", "ray")
    ]
    assert difference(*lagging) is None


def test_tasks_are_answered_stopped_and_paused_with_a_checkpoint(cluster: None, tmp_path: Path) -> None:
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


def test_ray_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    agent = make("PPO", sampling={"workers": 2, "engine": "ray"})
    with pytest.raises(ConfigError, match=r"pip install 'rl-training\[ray\]'"):
        agent.learn(progress=False)
    agent.close()
