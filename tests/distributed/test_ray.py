"""The same on Ray. One cluster serves all that needs one, so that is one test."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest

from rl_training import APPO
from rl_training.distributed import ray_engine
from rl_training.experiment import ConfigError
from rl_training.experiment.checkpoint import difference
from tests.distributed.agents import ROLLOUT, ended, make, trained


@pytest.fixture
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    ray_engine.start_local(ray, 3)
    yield
    ray.shutdown()


def test_actors_learn_what_one_process_learns_also_if_one_is_killed(
    cluster: None, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make("PPO", sampling={"workers": 2, "engine": "ray"})
    trainer = agent.prepare_trainer()
    trainer.run(52)
    engine = trainer.collector.env.crew.engine
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


def test_ray_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    agent = make("PPO", sampling={"workers": 2, "engine": "ray"})
    with pytest.raises(ConfigError, match=r"pip install 'rl-training\[ray\]'"):
        agent.learn(progress=False)
    agent.close()
