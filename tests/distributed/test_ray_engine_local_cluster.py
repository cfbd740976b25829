"""A run without RAY_ADDRESS has a cluster of its own; one that cannot be joined, or is too small, is named."""

from __future__ import annotations

import logging
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from rl_training.config import ConfigError
from rl_training.distributed import ray_engine
from rl_training.envs.failure import EnvFailedError


class RayBesideACluster:
    """Ray on a machine on which somebody has called `ray start --head`."""

    def __init__(self) -> None:
        self.started = 0

    def init(self, *, address: str | None = None, num_cpus: int | None = None, **settings: object) -> None:
        if address != "local" and num_cpus is not None:
            raise ValueError("When connecting to an existing cluster, num_cpus and num_gpus must not be provided.")
        self.started += address == "local"


def test_a_cluster_that_runs_on_this_machine_is_not_joined() -> None:
    ray = RayBesideACluster()
    ray_engine.start_local(ray, 2)
    assert ray.started == 1


def test_an_address_where_nobody_listens_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(ConfigError, match=f"RAY_ADDRESS='{address}' cannot be reached .*refused.* unset RAY_ADDRESS"):
        ray_engine.join(SimpleNamespace(), address)


def test_a_cluster_that_refuses_is_named() -> None:
    def init(**settings: object) -> None:
        raise ConnectionError("Failed to connect to Ray cluster\nInvalidAuthToken")

    with pytest.raises(
        ConfigError, match=r"RAY_ADDRESS='auto' .*\(Failed to connect to Ray cluster\).*RAY_AUTH_MODE=token"
    ):
        ray_engine.join(SimpleNamespace(init=init), "auto")


class SmallRay:
    """A cluster with one place: the second actor is never built."""

    exceptions = SimpleNamespace(RayError=RuntimeError, OutOfDiskError=MemoryError, ObjectStoreFullError=MemoryError)

    def put(self, value: Any) -> Any:
        return value

    def remote(self, **settings: object) -> Any:
        waiting = SimpleNamespace(ready=SimpleNamespace(remote=object), count_beats=self.unanswered())
        return lambda kind: SimpleNamespace(remote=lambda *arguments: waiting)

    def unanswered(self) -> Any:
        return SimpleNamespace(options=lambda **group: SimpleNamespace(remote=object))

    def wait(self, references: list, timeout: float) -> tuple[list, list]:
        return [], references

    def get(self, reference: object, timeout: float) -> Any:
        raise RuntimeError

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1.0}


def test_samplers_without_a_place_end_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ray_engine, "connect", lambda num_cpus, engine: SmallRay())
    monkeypatch.setattr(ray_engine, "START_S", 0.0)
    assignments: Any = [None, None]
    with caplog.at_level(logging.WARNING):
        engine = ray_engine.RayEngine(assignments, slots=1, fragment=1, timeout_s=None)
    assert "the Ray cluster has 1 CPUs, and 2 samplers ask for one each" in caplog.text
    engine.launch(1)
    with pytest.raises(EnvFailedError, match=r"sampler 1 was not built within .* has 1 CPUs, and 2 samplers"):
        engine.receive(1)
