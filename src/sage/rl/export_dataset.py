"""Decisions with their outcomes, out of the log and into one JSONL file that training and proof read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sage.decision_log import DecisionLog
from sage.records import DATA_SOURCES, Decision, Outcome
from sage.rl.routing_data import write_records

STRONGEST_FIRST = ("real", "replay", "synthetic")


class ExportError(ValueError):
    """Nothing that can be exported: the sentence says why and what to do."""


@dataclass(frozen=True)
class Exported:
    """What was written, and what was not."""

    data_source: str
    rows: int
    left_out: dict[str, int]  # reason -> decisions of this source
    other_sources: dict[str, int]  # source -> decisions that the file does not hold


def export(
    log: DecisionLog,
    path: Path,
    *,
    data_source: str | None = None,
    session: str | None = None,
    since: float | None = None,
    complete: bool = False,
) -> Exported:
    """Writes the rows of one source: the given one, or the strongest evidence that the log holds.

    With `complete`, rows without cost or latency are left out and counted; otherwise they are written as they are.
    """
    if data_source is not None and data_source not in DATA_SOURCES:
        raise ExportError(f"data_source={data_source!r} must be one of {', '.join(DATA_SOURCES)}")
    counts = Counter(decision.data_source for decision, _ in log.rows(None, session, since))
    present = [source for source in STRONGEST_FIRST if counts[source]]
    chosen = data_source or (present[0] if present else None)
    if chosen is None or not counts[chosen]:
        wanted = f" of data_source {data_source}" if data_source else ""
        held = ", ".join(f"{counts[source]} {source}" for source in present) or "none"
        raise ExportError(f"{log.path} has no decision{wanted} for these choices (it has {held}): route some first")
    left_out: Counter[str] = Counter()
    rows = write_records(path, usable(log.rows(chosen, session, since), left_out, complete, log.path))
    others = {source: counts[source] for source in present if source != chosen}
    return Exported(data_source=chosen, rows=rows, left_out=dict(left_out), other_sources=others)


def usable(
    rows: Iterator[tuple[Decision, Outcome | None]], left_out: Counter[str], complete: bool, where: Path
) -> Iterator[tuple[Decision, Outcome]]:
    """The rows that can be learned from; the others are counted by reason."""
    found = False
    for decision, outcome in rows:
        if outcome is None:
            left_out["no outcome yet"] += 1
        elif outcome.quality is None and not outcome.timed_out:
            left_out["neither a quality nor a time-out"] += 1
        elif complete and (outcome.cost_usd is None or outcome.latency_s is None):
            left_out["no cost or no latency"] += 1
        else:
            found = True
            yield decision, outcome
    if not found:
        reasons = ", ".join(f"{number} with {reason}" for reason, number in left_out.items())
        raise ExportError(f"{where} has no decision with a usable outcome ({reasons}): report outcomes first")
