"""One outcome out of all the reports about a decision: cost may come now, quality tomorrow, a correction later.

The first report of a field counts. A later one that says something else is a conflict, which is kept and counted but changes
nothing; only a correction replaces what was said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import NamedTuple

from sage.cascade_steps import Attempt, Verdict
from sage.record_checks import RecordError
from sage.records import Decision, Outcome

CORRECTED = "corrected"  # the status of reports that replace what was said before
UNSAID = {field.name: field.default for field in fields(Outcome) if field.default is not field.default_factory}
REPORTED = tuple(name for name in UNSAID if name != "schema")


class Merged(NamedTuple):
    """What is known after a report, and what that report did."""

    outcome: Outcome
    new: tuple[str, ...]  # fields that nobody had reported before
    conflicts: tuple[str, ...]  # fields that cannot be true together with what is known


def merge(known: Outcome | None, report: Outcome) -> Merged:
    """Adds a report to what is known."""
    said = reported(report)
    if known is None:
        return Merged(report, tuple(said), ())
    new, conflicts, merged = [], [], known
    for name, value in said.items():
        before = getattr(merged, name)
        if name == "shadow" and merged.shadow is not None:
            of_shadow = merge(merged.shadow, value)
            new += [f"shadow.{part}" for part in of_shadow.new]
            conflicts += [f"shadow.{part}" for part in of_shadow.conflicts]
            merged = replace(merged, shadow=of_shadow.outcome)
            continue
        if name == "verdicts":
            conflicts += [name] * contradict(before, value)
            value = united(before, value)
        if before == value:
            continue
        try:
            if before != UNSAID[name] and name != "verdicts":
                raise RecordError(f"{name} was reported before, with another value")
            merged = replace(merged, **{name: value}, time=report.time)
            new.append(name)
        except RecordError:  # also where two fields exclude each other: a quality of a time-out
            conflicts.append(name)
    return Merged(merged, tuple(new), tuple(conflicts))


def correct(known: Outcome | None, report: Outcome) -> Merged:
    """Replaces what is known by what the report says; where that cannot be true, it is a report like others."""
    said = reported(report)
    excluded: dict = {"timed_out": False} if "quality" in said else {"quality": None} if "timed_out" in said else {}
    if known is not None and "verdicts" in said:
        said["verdicts"] = tuple(({v.verifier: v for v in (*known.verdicts, *report.verdicts)}).values())
    if known is not None and report.shadow is not None:
        said["shadow"] = correct(known.shadow, report.shadow).outcome
    try:
        merged = report if known is None else replace(known, **excluded | said, time=report.time)
    except RecordError:
        return merge(known, report)
    return Merged(merged, tuple(said), ())


def united(known: tuple[Verdict, ...], report: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """The first verdict of every verifier; one that knew nothing gives way to one that does."""
    found = {verdict.verifier: verdict for verdict in known}
    for verdict in report:
        if verdict.verifier not in found or found[verdict.verifier].verdict == "unknown":
            found[verdict.verifier] = verdict
    return tuple(found.values())


def contradict(known: tuple[Verdict, ...], report: tuple[Verdict, ...]) -> bool:
    """Whether a verifier that knew something says another thing now."""
    said = {verdict.verifier: verdict.verdict for verdict in known}
    return any("unknown" != said.get(new.verifier, new.verdict) != new.verdict for new in report)


def reported(outcome: Outcome) -> dict:
    """The fields that a report says something about."""
    return {name: getattr(outcome, name) for name in REPORTED if getattr(outcome, name) != UNSAID[name]}


def join(reports: Iterable[tuple[str, Outcome]]) -> Outcome | None:
    """What (status, report) pairs say together, in the order in which they came."""
    known = None
    for status, report in reports:
        known = (correct if status == CORRECTED else merge)(known, report).outcome
    return known


def attempt_of(decision: Decision, outcome: Outcome | None) -> Attempt:
    """The state that later steps depend on; where verdicts come from is left to the outcome."""
    if outcome is None:
        return Attempt(decision_id=decision.id, model=decision.model)
    return Attempt(
        decision_id=decision.id,
        model=decision.model,
        answered_by=outcome.model if outcome.model != decision.model else None,
        verdicts=tuple(replace(verdict, source="") for verdict in outcome.verdicts),
        cost_usd=outcome.cost_usd,
        latency_s=outcome.latency_s,
        timed_out=outcome.timed_out,
    )
