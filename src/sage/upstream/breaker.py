"""Circuit breakers: a model that failed several times in a row is not asked for a while, then tried again.

Every model has one breaker for each endpoint, in which every caller's key has its own circuit. Failures of one key open
its circuit only; once two keys have failed with no success in between, the breaker opens for everybody.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sage.orchestrator.upstream_settings import ServeSettings
from sage.upstream.metrics import Metrics

log = logging.getLogger(__name__)
MOST_KEYS = 1000  # whose circuits a breaker remembers
KEYS_FOR_ALL = 2  # that must have failed before a model is left alone for everybody
MOST_REST_S = 300.0  # that an upstream can ask to be left alone with status 429
FORGET_S = 600.0  # after which failures of a key are forgotten, if it has not asked since


class ModelEndpoint(NamedTuple):
    """A model and the endpoint at which it is called, which share a breaker."""

    model: str
    endpoint: str


@dataclass
class Circuit:
    """Failures of one key's calls. While the circuit is open, one call at a time tries whether the model is back."""

    failures: int = 0
    is_open: bool = False
    next_trial: float = 0.0  # while it is open
    rests_until: float = 0.0  # as the upstream asked for with status 429
    failed_at: float = 0.0

    def matters(self, now: float) -> bool:
        """Returns whether the circuit rests, or has failures that are less than FORGET_S seconds old."""
        failed = self.is_open or self.failures
        return now < self.rests_until or bool(failed and now < max(self.failed_at, self.next_trial) + FORGET_S)


@dataclass
class Breaker:
    """The circuits of one model at one endpoint, by key; circuits without recent failures are dropped."""

    circuits: dict[str, Circuit] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)  # keys whose open circuits failed since anybody's last success
    is_open: bool = False  # for everybody, until anybody succeeds
    open_until: float = 0.0  # no key is let through before; afterwards each may try once at a time
    rests_until: float = 0.0

    def circuit(self, key: str, now: float) -> Circuit:
        """Returns the circuit of a key; makes it if needed, and drops the oldest one if there are MOST_KEYS."""
        if key not in self.circuits:
            self.forget(now)
            while len(self.circuits) >= MOST_KEYS:
                del self.circuits[next(iter(self.circuits))]
        return self.circuits.setdefault(key, Circuit())

    def forget(self, now: float) -> None:
        """Drops circuits that neither rest nor have recent failures."""
        self.circuits = {key: circuit for key, circuit in self.circuits.items() if circuit.matters(now)}
        self.failing &= self.circuits.keys()
        self.is_open = self.is_open and bool(self.failing)

    def ready_at(self, key: str) -> float:
        """Returns the time, by the clock of `Breakers`, from which a key may ask."""
        found = self.circuits.get(key)
        own = 0.0 if found is None else max(found.next_trial if found.is_open else 0.0, found.rests_until)
        return max(own, self.open_until if self.is_open else 0.0, self.rests_until)

    def rests(self, key: str, now: float) -> bool:
        """Returns whether the model waits for this key because its upstream answered 429."""
        found = self.circuits.get(key)
        return now < max(0.0 if found is None else found.rests_until, self.rests_until)


class Breakers:
    """The breakers of all models, by model and endpoint; `key` is the id of the caller's key, '' without one. Every
    opening is logged and counted."""

    def __init__(self, settings: ServeSettings, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.metrics = metrics
        self.clock = clock
        self.at: dict[ModelEndpoint, Breaker] = {}

    def breaker(self, place: ModelEndpoint) -> Breaker:
        return self.at.setdefault(place, Breaker())

    def usable(self, place: ModelEndpoint, key: str) -> bool:
        """Returns whether the key may ask the model now."""
        return self.wait_s(place, key) <= 0

    def wait_s(self, place: ModelEndpoint, key: str) -> float:
        """Returns the seconds until the key may ask the model."""
        found = self.at.get(place)
        return 0.0 if found is None else max(found.ready_at(key) - self.clock(), 0.0)

    def rests(self, place: ModelEndpoint, key: str) -> bool:
        """Returns whether the model waits for this key because its upstream answered 429, which does not count as a
        failure."""
        found = self.at.get(place)
        return found is not None and found.rests(key, self.clock())

    def call_started(self, place: ModelEndpoint, key: str) -> None:
        """Notes the start of a call. If the circuit is open, the call is a trial, which blocks further calls of its key
        until it returns or `breaker_s` seconds pass."""
        breaker, now = self.breaker(place), self.clock()
        found = breaker.circuits.get(key)
        if breaker.is_open or (found is not None and found.is_open):
            circuit = breaker.circuit(key, now)
            circuit.is_open, circuit.next_trial = True, now + self.settings.breaker_s

    def stream_started(self, place: ModelEndpoint, key: str) -> None:
        """Closes open circuits because a stream has begun; if this stream breaks off, its failure opens them again at
        once."""
        breaker = self.breaker(place)
        found = breaker.circuits.get(key)
        closing = list(breaker.circuits.values()) if breaker.is_open else [] if found is None else [found]
        if breaker.is_open:
            log.warning(f"{place.model} answers at {place.endpoint} again")
        elif found is not None and found.is_open:
            log.warning(f"{place.model} answers at {place.endpoint} again for {key_label(key)}")
        for circuit in closing:
            if circuit.is_open:
                circuit.is_open, circuit.failures = False, self.settings.breaker_failures - 1
        breaker.is_open = False
        breaker.failing.clear()

    def succeeded(self, place: ModelEndpoint, key: str) -> None:
        self.stream_started(place, key)
        if (found := self.breaker(place).circuits.get(key)) is not None:
            found.failures = 0

    def failed(self, place: ModelEndpoint, key: str, reason: str) -> None:
        """Counts a failure of the upstream; after `breaker_failures` in a row, opens the circuit of the key, or the
        breaker for everybody if two keys have failed so. `reason` is for the log."""
        breaker, now = self.breaker(place), self.clock()
        circuit = breaker.circuit(key, now)
        was_open, circuit.failures, circuit.failed_at = circuit.is_open, circuit.failures + 1, now
        if not (was_open or breaker.is_open or circuit.failures >= self.settings.breaker_failures):
            return
        circuit.is_open, circuit.next_trial = True, now + self.settings.breaker_s
        breaker.failing.add(key)
        if breaker.is_open:
            return
        if len(breaker.failing) >= KEYS_FOR_ALL:
            breaker.is_open, breaker.open_until = True, circuit.next_trial
            self.opened(place, "everybody", "all", reason)
        elif not was_open:
            self.opened(place, key_label(key), "key", reason)

    def opened(self, place: ModelEndpoint, whom: str, scope: str, reason: str) -> None:
        self.metrics.count("sage_breaker_openings_total", model=place.model, endpoint=place.endpoint, scope=scope)
        log.warning(
            f"{place.model} is not asked at {place.endpoint} for {self.settings.breaker_s:g} s by {whom}, as it failed "
            f"{self.settings.breaker_failures} times in a row: {reason}"
        )

    def rest(self, place: ModelEndpoint, key: str, seconds: float) -> None:
        """Leaves a model alone for `seconds` after an answer 429, at most MOST_REST_S: for the key, and for everybody
        once two keys were told to wait."""
        breaker, now = self.breaker(place), self.clock()
        circuit = breaker.circuit(key, now)
        circuit.rests_until = max(circuit.rests_until, now + min(seconds, MOST_REST_S))
        told = sorted((other.rests_until for other in breaker.circuits.values()), reverse=True)
        breaker.rests_until = told[KEYS_FOR_ALL - 1] if len(told) >= KEYS_FOR_ALL else 0.0

    def gauges(self) -> Iterator[tuple[str, float, dict[str, str]]]:
        """Yields name, value and labels of a metric for each model and endpoint: 1.0 if any circuit is open, else
        0.0."""
        for (model, endpoint), breaker in self.at.items():
            breaker.forget(self.clock())
            is_open = any(circuit.is_open for circuit in breaker.circuits.values())
            yield "sage_breaker_open", float(is_open), {"model": model, "endpoint": endpoint}

    def take_over(self, old: Breakers, models: Iterable[str]) -> None:
        """Takes over the breakers of `models` from another set, so that a reload forgets no failures."""
        kept = set(models)
        self.at |= {place: breaker for place, breaker in old.at.items() if place.model in kept}


def key_label(key: str) -> str:
    return f"the key {key}" if key else "callers without a key"
