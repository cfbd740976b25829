"""Counters and histograms in Prometheus' text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
HELP = {
    "sage_requests_total": "answers to clients, by dialect and status",
    "sage_attempts_total": "calls of upstreams, by model and result",
    "sage_fallbacks_total": "requests that another model answered than the chosen one",
    "sage_broken_streams_total": "streams that failed after their first token",
    "sage_disconnects_total": "clients that left before their answer was complete",
    "sage_tokens_total": "tokens, by model and kind",
    "sage_cost_usd_total": "cost by list prices, by model",
    "sage_usage_problems_total": "answers whose upstream reported tokens that cannot be, by model",
    "sage_shadows_total": "second models that were asked beside the answering one, by model and result",
    "sage_shadow_cost_usd_total": "their cost by list prices, by model",
    "sage_request_seconds": "time until an answer was complete",
    "sage_first_token_seconds": "time until a stream's first token",
    "sage_unlogged_decisions_total": "decisions that are not in the log, as it could not be written",
    "sage_lost_outcomes_total": "outcomes given up while the log could not be written",
    "sage_waiting_outcomes": "outcomes that wait until the log can be written",
    "sage_log_unusable": "1 while the log cannot be used: locked, replaced, without descriptors or disk",
    "sage_descriptors_exhausted": "1 while the process has no file descriptor left",
    "sage_in_flight": "requests that are being answered",
    "sage_breaker_open": "1 where a model is not asked at an endpoint, by one key at least, because it failed",
    "sage_breaker_openings_total": "times that a model was left alone: for one key, or for all",
    "sage_reloads_total": "times that models.yaml, a checkpoint or a gate record was read again, by result",
    "sage_serving_policy": "1 for what decides now: a learned policy, a bandit or the table, and for cascades the ladder",
}
Labels = tuple[tuple[str, str], ...]


class Histogram:
    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.total += seconds


class Metrics:
    """Of one process; each series has the process as a label, because several may share a port."""

    def __init__(self, worker: str = "0") -> None:
        self.worker = worker
        self.counters: defaultdict[tuple[str, Labels], float] = defaultdict(float)
        self.histograms: defaultdict[tuple[str, Labels], Histogram] = defaultdict(Histogram)

    def count(self, name: str, by: float = 1.0, **labels: str) -> None:
        self.counters[name, tuple(labels.items())] += by

    def time(self, name: str, seconds: float, **labels: str) -> None:
        self.histograms[name, tuple(labels.items())].add(seconds)

    def text(self, gauges: Iterable[tuple[str, float, dict[str, str]]] = ()) -> str:
        """All series; `gauges` are what is true now."""
        lines: defaultdict[str, list[str]] = defaultdict(list)
        for (name, labels), value in self.counters.items():
            lines[name].append(self.line(name, labels, value))
        for name, value, given in gauges:
            lines[name].append(self.line(name, tuple(given.items()), value))
        for (name, labels), histogram in self.histograms.items():
            below = 0
            for limit, number in zip((*map(str, BUCKETS_S), "+Inf"), histogram.counts, strict=True):
                below += number
                lines[name].append(self.line(f"{name}_bucket", (*labels, ("le", limit)), below))
            lines[name] += [
                self.line(f"{name}_sum", labels, histogram.total),
                self.line(f"{name}_count", labels, below),
            ]
        return "".join(
            f"# HELP {name} {HELP[name]}\n# TYPE {name} {kind_of(name)}\n" + "".join(lines[name])
            for name in HELP
            if name in lines
        )

    def line(self, name: str, labels: Labels, value: float) -> str:
        given = ",".join(f'{key}="{escaped(text)}"' for key, text in (*labels, ("worker", self.worker)))
        return f"{name}{{{given}}} {value:.10g}\n"


def kind_of(name: str) -> str:
    return "counter" if name.endswith("_total") else "histogram" if name.endswith("_seconds") else "gauge"


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
