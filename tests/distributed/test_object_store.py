"""A full object store of Ray delays a run, and changes nothing in it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from rl_training import APPO
from rl_training.distributed import object_store, ray_engine
from rl_training.distributed.object_store import StoreFullError
from rl_training.experiment.checkpoint import difference
from tests.distributed.agents import ROLLOUT, ended, make, trained


class RayError(Exception): ...


class RayTaskError(RayError): ...


class OutOfDiskError(RayError): ...


@dataclass
class Reference:
    """What a call or a put left in the store."""

    value: Any = None
    error: Exception | None = None


class Method:
    """A method of an actor, which runs at once; the store may have no room for what it returns."""

    def __init__(self, ray: FakeRay, method: Callable) -> None:
        self.ray, self.method = ray, method

    def remote(self, *arguments: Any) -> Reference:
        answer = self.method(*(one.value if isinstance(one, Reference) else one for one in arguments))
        refused = answer is not None and self.ray.refuses()  # Ray returns what is small another way
        return Reference(error=OutOfDiskError()) if refused else Reference(answer)


class Handle:
    """An actor of this process."""

    def __init__(self, ray: FakeRay, actor: object) -> None:
        self.ray, self.actor = ray, actor

    def __getattr__(self, name: str) -> Method:
        return Method(self.ray, getattr(self.actor, name))


class FakeRay:
    """Ray in this process, with a store that is full whenever something comes whose number is a multiple of `each`."""

    exceptions = SimpleNamespace(
        RayError=RayError, RayTaskError=RayTaskError, OutOfDiskError=OutOfDiskError, ObjectStoreFullError=OutOfDiskError
    )

    def __init__(self, each: int) -> None:
        self.each, self.came, self.refused, self.now = each, 0, 0, 0.0

    def refuses(self) -> bool:
        self.came += 1
        refused = self.came % self.each == 0
        self.refused += refused
        return refused

    def put(self, value: Any) -> Reference:
        if self.refuses():
            raise OutOfDiskError
        return Reference(value)

    def get(self, reference: Reference) -> Any:
        if reference.error is not None:
            raise reference.error
        return reference.value

    def wait(self, references: list[Reference], timeout: float) -> tuple[list[Reference], list[Reference]]:
        return references, []

    def remote(self, **settings: object) -> Callable:
        def launcher(kind: type) -> SimpleNamespace:
            return SimpleNamespace(
                remote=lambda assignment, slots: Handle(self, kind(assignment.value, slots))  # never refused: no answer
            )

        return launcher

    def kill(self, actor: Handle) -> None: ...

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def is_initialized(self) -> bool:
        return False

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], FakeRay]:
    def start(each: int) -> FakeRay:
        ray = FakeRay(each)
        monkeypatch.setattr(ray_engine, "connect", lambda num_cpus, engine: ray)
        monkeypatch.setattr(object_store, "time", ray)
        return ray

    return start


def test_what_finds_the_store_full_is_tried_again_and_learning_is_the_same(
    start: Callable[[int], FakeRay], caplog: pytest.LogCaptureFixture
) -> None:
    ray = start(3)
    with caplog.at_level(logging.WARNING):
        assert difference(trained("PPO"), trained("PPO", sampling={"workers": 2, "engine": "ray"})) is None
    assert ray.refused > 5
    assert not [message for message in caplog.messages if "it is replaced" in message]
    for what in ("what all samplers get", "what sampler 0 answers", "what sampler 1 answers"):
        assert f"Ray's object store is full: no room for {what}; the run waits up to 300 s" in caplog.messages


def test_with_a_lag_the_answer_that_was_refused_is_asked_for_and_not_a_later_one(
    start: Callable[[int], FakeRay],
) -> None:
    settings = ROLLOUT | {"total_timesteps": 160}
    start(10_000)
    roomy, ray = ended(APPO("CartPole-v1", **settings, sampling={"workers": 2, "lag": 2, "engine": "ray"})), start(3)
    tight = ended(APPO("CartPole-v1", **settings, sampling={"workers": 2, "lag": 2, "engine": "ray"}))
    assert ray.refused > 5
    assert difference(roomy, tight) is None


def test_a_store_that_stays_full_ends_the_run_with_what_to_do(start: Callable[[int], FakeRay]) -> None:
    ray = start(1)
    with pytest.raises(StoreFullError, match=r"no room for what .* for 300 s.*free space on that disk.*resume the run"):
        ended(make("PPO", sampling={"workers": 2, "engine": "ray"}))
    assert 300 < ray.now < 310
