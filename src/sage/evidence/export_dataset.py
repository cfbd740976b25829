"""The export of decisions and their outcomes from the log to one JSONL file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sage.evidence.completeness import erased_followers, header_of
from sage.evidence.held_calls import ANOTHER, NO_OUTCOME, UNSEEN, HeldCalls, JoinedCalls, is_seen
from sage.evidence.routing_data import could_answer, write_records
from sage.evidence.selection import EVERYTHING, Selection
from sage.log.decision_log import DecisionLog
from sage.log.numbers import last_number
from sage.log.records import DATA_SOURCES, Decision, Outcome

NOT_DRAWN = "an outcome that was not drawn to be reported"
STRONGEST_FIRST = ("real", "replay", "synthetic")
ENOUGH = 50  # rows: below it nothing can be proved, as everywhere in sage


class ExportError(ValueError):
    """An export without any usable row; the message says why and what to do."""


@dataclass(frozen=True)
class Exported:
    """Counts of the rows that an export wrote, and of those that it left out, by reason."""

    data_source: str
    rows: int  # with an outcome
    missing: dict[str, int]  # reason -> decisions of this source, which the file holds without an outcome
    other_sources: dict[str, int]  # source -> decisions that the file does not hold
    unreadable: list[str]  # sentences about records that cannot be read, and are not in the file
    steps_of_cascades: int  # of all sources, not in the file: they are no independent decisions
    held_calls: int  # of all sources, in which a session kept its model: they count with the decision that drew it
    left_out: dict[str, int]  # reason -> held calls of this source that count nowhere
    dropped: dict[str, int]  # what the selection of tenants and sources took away
    erased_by_task: int = 0  # decisions, which a proof takes at their worst
    unexplained: int = 0  # numbers that the log has given, with neither a decision nor a reason: the same
    note: str = ""  # why a stronger source was passed over


def export(
    log: DecisionLog,
    path: Path,
    *,
    data_source: str | None = None,
    session: str | None = None,
    since: float | None = None,
    until: float | None = None,
    complete: bool = False,
    selection: Selection = EVERYTHING,
) -> Exported:
    """Writes the rows of one data source to a JSONL file: the given one, or the strongest with at least 50 usable rows.

    If none has 50, the source with the most usable rows is written. Decisions without an outcome are written too, and
    counted, because the gate asks what they could change. The first line names every other number of the log. With
    `complete`, outcomes without cost or latency count as missing unless they are time-outs. Raises ExportError if there is
    nothing to export.
    """
    if data_source is not None and data_source not in DATA_SOURCES:
        raise ExportError(f"data_source={data_source!r} must be one of {', '.join(DATA_SOURCES)}")
    counts: Counter[str] = Counter()
    ready: Counter[str] = Counter()
    unreadable: list[str] = []
    steps, held, last = 0, HeldCalls(), last_number(log)
    for decision, outcome in selection.rows(
        log.rows(None, session, since, last=last, unreadable=unreadable), Counter()
    ):
        held.add(decision, outcome)  # also after `until`: what a decision took may come later
        if (until is not None and decision.time >= until) or decision.held:
            continue
        if decision.cascade is not None:
            steps += 1
            continue
        counts[decision.data_source] += 1
        ready[decision.data_source] += not why_missing(decision, outcome, complete)
    chosen = data_source or strongest(counts, ready)
    if chosen is None or not counts[chosen]:
        raise ExportError(nothing_found(log, steps, data_source, session, since, selection))
    for drawn_by, number in erased_followers(log, last).items():
        held.followers[drawn_by] += [None] * number
    missing, dropped = Counter(), Counter()
    there = before(until, log.rows(chosen, session, since, last=last, unreadable=[]))
    limits = {"session": session, "since": since, "until": until, "selection": selection}
    header = header_of(log, last, data_source=chosen, **limits)
    found = blank_unusable(held.rows(selection.rows(there, dropped)), missing, complete, log.path)
    numbers: list[int | None] = []
    rows = write_records(path, noted(found, numbers), header.to_json()) - missing.total()
    lacking = header.compare(numbers, selection)
    others = {source: counts[source] for source in STRONGEST_FIRST if counts[source] and source != chosen}
    note = "" if data_source else passed_over(chosen, counts, ready)
    return Exported(
        chosen,
        rows,
        dict(missing),
        others,
        unreadable,
        steps,
        held.counted,
        dict(held.left_out),
        dict(dropped),
        len(lacking.erased),
        lacking.gone + lacking.reports_gone,
        note,
    )


def strongest(counts: Counter[str], ready: Counter[str]) -> str | None:
    """Returns the strongest source with at least ENOUGH usable rows, else the one with the most.

    Returns None if there is no row at all.
    """
    present = [source for source in STRONGEST_FIRST if counts[source]]
    enough = [source for source in present if ready[source] >= ENOUGH]
    return enough[0] if enough else max(present, key=lambda source: ready[source], default=None)


def passed_over(chosen: str, counts: Counter[str], ready: Counter[str]) -> str:
    """Returns a sentence about the stronger sources that were not chosen; '' if there are none."""
    stronger = [s for s in STRONGEST_FIRST[: STRONGEST_FIRST.index(chosen)] if counts[s]]
    if not stronger:
        return ""
    held = ", ".join(f"{ready[source]} {source}" for source in stronger)
    return f"these rows are {chosen}; passed over: {held} with an outcome, fewer than {ENOUGH} (take them with --data-source)"


def nothing_found(
    log: DecisionLog,
    steps: int,
    data_source: str | None,
    session: str | None,
    since: float | None,
    selection: Selection,
) -> str:
    counts = log.counts()
    held = ", ".join(f"{counts[source]} {source}" for source in STRONGEST_FIRST if counts[source]) or "none"
    tenants = ", ".join(selection.tenants) or None
    limits = {"of data_source": data_source, "of session": session, "since": since, "of tenant": tenants}
    wanted = "".join(f" {name} {value}" for name, value in limits.items() if value is not None)
    undated = "; replayed and synthetic rows have no date, choose them by session" if since is not None else ""
    cascades = f"; {steps} steps of cascades are exported with --cascades" if steps else ""
    return f"{log.path} has no decision{wanted} (in all it has {held}{undated}{cascades}): route some first, or ask for others"


def before(
    until: float | None, rows: Iterator[tuple[Decision, Outcome | None]]
) -> Iterator[tuple[Decision, Outcome | None]]:
    return (row for row in rows if until is None or row[0].time < until)


def why_missing(decision: Decision, outcome: Outcome | None, complete: bool) -> str:
    """Returns why a row cannot be learned from; '' if it can."""
    if not decision.outcome_wanted:
        return NOT_DRAWN
    if outcome is None:
        return NO_OUTCOME
    if not is_seen(outcome):
        return UNSEEN
    if not could_answer(decision, outcome):
        return ANOTHER
    unpriced = complete and not outcome.timed_out and None in (outcome.cost_usd, outcome.latency_s)
    return "no cost or no latency" if unpriced else ""


def noted(
    rows: Iterator[tuple[Decision, Outcome | None]], numbers: list[int | None]
) -> Iterator[tuple[Decision, Outcome | None]]:
    """Passes rows on, and appends their numbers to a list."""
    for row in rows:
        numbers.append(row[0].number)
        yield row


def shadow_alone(outcome: Outcome | None) -> Outcome | None:
    """Returns an outcome with nothing but its shadow's part; None if it has no shadow."""
    if outcome is None or outcome.shadow is None:
        return None
    return Outcome(decision_id=outcome.decision_id, time=outcome.time, shadow=outcome.shadow)


def blank_unusable(
    rows: Iterator[JoinedCalls], missing: Counter[str], complete: bool, where: Path
) -> Iterator[tuple[Decision, Outcome | None]]:
    """Returns every row, with the outcome replaced by None (or by its shadow's part alone) where it is not usable.

    Such rows are counted in `missing` by reason. Raises ExportError if no row has a usable outcome.
    """
    found = False
    for decision, outcome, unknown in rows:
        reason = why_missing(decision, outcome, complete)
        reason = reason if reason == NOT_DRAWN else unknown or reason
        missing.update([reason] * bool(reason))
        found = found or not reason
        yield decision, None if reason == NOT_DRAWN else shadow_alone(outcome) if reason else outcome
    if not found:
        reasons = ", ".join(f"{number} with {reason}" for reason, number in missing.items())
        raise ExportError(f"{where} has no decision with a usable outcome ({reasons}): report outcomes first")
