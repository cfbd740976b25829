"""Counters, histograms and gauges in Prometheus' text format, which can be added up over processes."""

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
Series = tuple[str, Labels]
# Gauges that are true for the server if they are true for one of its processes; others are added up.
LARGEST = frozenset(["sage_log_unusable", "sage_descriptors_exhausted", "sage_breaker_open", "sage_serving_policy"])


class Histogram:
    """Counts of durations by bucket, and their sum in seconds."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.total += seconds


class Metrics:
    """Counters, histograms and gauges of one process, or of several that were added up."""

    def __init__(self) -> None:
        self.counters: defaultdict[Series, float] = defaultdict(float)
        self.histograms: defaultdict[Series, Histogram] = defaultdict(Histogram)
        self.gauges: dict[Series, float] = {}

    def count(self, name: str, by: float = 1.0, **labels: str) -> None:
        self.counters[name, tuple(labels.items())] += by

    def time(self, name: str, seconds: float, **labels: str) -> None:
        self.histograms[name, tuple(labels.items())].add(seconds)

    def with_gauges(self, gauges: Iterable[tuple[str, float, dict[str, str]]]) -> Metrics:
        """Returns a copy with values that are true now; those named `..._total` are kept as counters."""
        copy = Metrics()
        copy.add(self)
        for name, value, labels in gauges:
            series = name, tuple(labels.items())
            if name.endswith("_total"):
                copy.counters[series] += value
            else:
                copy.gauges[series] = value
        return copy

    def add(self, other: Metrics, *, gauges: bool = True) -> None:
        """Adds the series of another process; without `gauges` for one that has ended."""
        for series, value in other.counters.items():
            self.counters[series] += value
        for series, histogram in other.histograms.items():
            own = self.histograms[series]
            own.counts = [a + b for a, b in zip(own.counts, histogram.counts, strict=True)]
            own.total += histogram.total
        for series, value in other.gauges.items() if gauges else ():
            before = self.gauges.get(series, 0.0)
            self.gauges[series] = max(before, value) if series[0] in LARGEST else before + value

    def to_json(self) -> dict[str, list]:
        return {
            "counters": [[*series, value] for series, value in self.counters.items()],
            "histograms": [[*series, each.counts, each.total] for series, each in self.histograms.items()],
            "gauges": [[*series, value] for series, value in self.gauges.items()],
        }

    @classmethod
    def from_json(cls, values: dict[str, list]) -> Metrics:
        """Returns the metrics that `to_json` described; raises a ValueError, TypeError or KeyError for anything else."""
        found = cls()
        for name, labels, value in values["counters"]:
            found.counters[name, as_labels(labels)] = float(value)
        for name, labels, counts, total in values["histograms"]:
            histogram = found.histograms[name, as_labels(labels)]
            histogram.counts, histogram.total = [int(count) for count in counts], float(total)
        for name, labels, value in values["gauges"]:
            found.gauges[name, as_labels(labels)] = float(value)
        return found

    def text(self) -> str:
        """Returns all series in Prometheus' text format, in the order of `HELP`."""
        lines: defaultdict[str, list[str]] = defaultdict(list)
        for (name, labels), value in (*self.counters.items(), *self.gauges.items()):
            lines[name].append(line(name, labels, value))
        for (name, labels), histogram in self.histograms.items():
            below = 0
            for limit, number in zip((*map(str, BUCKETS_S), "+Inf"), histogram.counts, strict=True):
                below += number
                lines[name].append(line(f"{name}_bucket", (*labels, ("le", limit)), below))
            lines[name] += [line(f"{name}_sum", labels, histogram.total), line(f"{name}_count", labels, below)]
        return "".join(
            f"# HELP {name} {HELP[name]}\n# TYPE {name} {kind_of(name)}\n" + "".join(lines[name])
            for name in HELP
            if name in lines
        )


def as_labels(pairs: list) -> Labels:
    return tuple((str(key), str(text)) for key, text in pairs)


def line(name: str, labels: Labels, value: float) -> str:
    """Returns the line of one series; a series without labels has no braces."""
    given = ",".join(f'{key}="{escaped(text)}"' for key, text in labels)
    return f"{name}{{{given}}} {value:.10g}\n" if given else f"{name} {value:.10g}\n"


def kind_of(name: str) -> str:
    return "counter" if name.endswith("_total") else "histogram" if name.endswith("_seconds") else "gauge"


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
