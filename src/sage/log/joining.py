"""One outcome from all reports about a decision: cost may come now, quality tomorrow, a correction later.

A field belongs to the strongest source that has reported it (`SOURCES`), in whatever order the reports came. Within
one source the first report counts, and a correction replaces it. A report that contradicts a value which it may not
replace is a conflict: it is kept and counted, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import NamedTuple, Self

from sage.log.cascade_steps import Attempt, Verdict
from sage.log.record_checks import PROXY, RANK, TRAFFIC, RecordError
from sage.log.records import Decision, Outcome

CORRECTED = "corrected"  # the status of reports that replace what was said before
VERDICTS = "verdicts."
MOST_VERDICTS = 50  # of one source about one answer; more are conflicts
UNSAID = {field.name: field.default for field in fields(Outcome) if field.default is not field.default_factory}
REPORTED = tuple(name for name in UNSAID if name not in ("schema", "source"))
JUDGEMENT = ("quality", "timed_out")
RIVALS = {"quality": "timed_out", "timed_out": "quality", "tokens_in": "tokens_cached", "tokens_cached": "tokens_in"}


class Known(NamedTuple):
    """The joined outcome of all reports so far, with the source of each field."""

    outcome: Outcome
    sources: Mapping[str, str]  # who said it, by field; verdicts by verifier, as 'verdicts.NAME'
    shadow: Known | None = None  # what is known of the outcome's shadow

    @classmethod
    def first(cls, report: Outcome) -> Self:
        """Returns the joined outcome of a single report."""
        names = [name for name in fields_set_by(report) if name not in ("verdicts", "shadow")]
        names += [verdict_key(verdict) for verdict in report.verdicts]
        shadow = None if report.shadow is None else cls.first(report.shadow)
        return cls(report, dict.fromkeys(names, report.source), shadow)


class Merged(NamedTuple):
    """The joined outcome after one more report, with the fields that the report added, replaced or contradicted."""

    known: Known
    new: tuple[str, ...] = ()  # fields that no source of this rank had reported before
    replaced: tuple[str, ...] = ()  # fields that another value was known of
    conflicts: tuple[str, ...] = ()  # fields that cannot be true together with what is known


class Joined(NamedTuple):
    """The status of a record in the log and, of a report, what was and is known of the decision's outcome."""

    status: str
    before: Outcome | None = None
    after: Outcome | None = None


LOGGED = Joined("logged")


def merge(known: Known | None, report: Outcome, *, correction: bool = False) -> Merged:
    """Merges one report into the joined outcome; `known` is None before the first report.

    With `correction`, the report may replace values of its own source; if a part of it conflicts, it is merged without
    that right.
    """
    if known is None:
        return Merged(Known.first(report), tuple(reported(report)))
    merging = Merging(known, report, correction)
    merged = merging.result()
    return merge(known, report) if correction and merged.conflicts else merged


class Merging:
    """The merge of one report into a joined outcome, field by field."""

    def __init__(self, known: Known, report: Outcome, correction: bool) -> None:
        self.outcome, self.sources, self.shadow = known.outcome, dict(known.sources), known.shadow
        self.report, self.correction = report, correction
        self.new: list[str] = []
        self.replaced: list[str] = []
        self.conflicts: list[str] = []

    def result(self) -> Merged:
        for name, value in fields_set_by(self.report).items():
            if name == "verdicts":
                self.add_verdicts()
            elif name == "shadow":
                self.add_shadow()
            else:
                self.add(name, value)
        known = Known(self.outcome, self.sources, self.shadow)
        done = (self.new, self.replaced, self.conflicts)
        return Merged(known, *(tuple(dict.fromkeys(names)) for names in done))

    def add(self, name: str, value: object) -> None:
        before, unsaid = getattr(self.outcome, name), name not in self.sources
        if before == value:
            if unsaid or self.outranks(name):
                self.set(name, value)
                self.new += [name] * (not unsaid)
            return
        of_stronger = name == "provenance" and any(self.is_outranked(part) for part in JUDGEMENT)
        if of_stronger or not (unsaid or self.may_replace(name)):
            self.conflicts.append(name)
            return
        try:
            self.set(name, value)
            (self.new if unsaid else self.replaced).append(name)
        except RecordError:  # where two fields exclude each other, such as a quality and a time-out
            self.add_instead(name, value)

    def add_instead(self, name: str, value: object) -> None:
        """Sets a field and clears the one that excludes it (`RIVALS`), if that may be replaced.

        Else notes a conflict.
        """
        rival = RIVALS.get(name, name)
        if self.outranks(rival) or (rival in JUDGEMENT and self.may_replace(rival)):
            self.set(name, value, instead_of=rival)
            self.replaced.append(name)
        else:
            self.conflicts.append(name)

    def set(self, name: str, value: object, *, instead_of: str = "") -> None:
        """Sets a field and its source; a judgement that replaces another source's brings its own provenance."""
        report = self.report
        changes: dict = {name: value}
        judged_by_another = report.source != self.outcome.source and any(part in self.sources for part in JUDGEMENT)
        if name in JUDGEMENT and judged_by_another and not self.is_outranked("provenance"):
            changes["provenance"] = report.provenance
        besides: dict = {"source": report.source} if name in JUDGEMENT else {}
        besides |= {instead_of: UNSAID[instead_of]} if instead_of else {}
        besides |= {"time": report.time} if getattr(self.outcome, name) != value else {}
        self.outcome = replace(self.outcome, **besides | changes)
        self.sources.pop(instead_of, None)
        self.sources.update(dict.fromkeys(changes, report.source))

    def add_verdicts(self) -> None:
        """Merges the report's verdicts, verifier by verifier; a known 'unknown' gives way to any other verdict."""
        found = {verdict.verifier: verdict for verdict in self.outcome.verdicts}
        for verdict in self.report.verdicts:
            key, before = verdict_key(verdict), found.get(verdict.verifier)
            if before is None and self.num_verdicts() < MOST_VERDICTS:
                done = self.new
            elif before is not None and before.verdict in (verdict.verdict, "unknown"):
                if before.verdict == verdict.verdict and not self.outranks(key):
                    continue
                done = self.new
            elif before is not None and self.may_replace(key):
                done = self.replaced
            else:
                self.conflicts.append("verdicts")
                continue
            found[verdict.verifier] = verdict
            self.sources[key] = self.report.source
            done.append("verdicts")
        if tuple(found.values()) != self.outcome.verdicts:
            self.outcome = replace(self.outcome, verdicts=tuple(found.values()), time=self.report.time)

    def num_verdicts(self) -> int:
        """Returns the number of known verdicts that came from the report's source."""
        return sum(key.startswith(VERDICTS) and source == self.report.source for key, source in self.sources.items())

    def add_shadow(self) -> None:
        assert self.report.shadow is not None
        merged = merge(self.shadow, self.report.shadow, correction=self.correction)
        first = self.shadow is None
        self.new += ["shadow"] if first else [f"shadow.{part}" for part in merged.new]
        self.replaced += [f"shadow.{part}" for part in merged.replaced]
        self.conflicts += [f"shadow.{part}" for part in merged.conflicts]
        self.shadow = merged.known
        time = self.report.time if first else self.outcome.time
        self.outcome = replace(self.outcome, shadow=merged.known.outcome, time=time)

    def outranks(self, name: str) -> bool:
        """Returns True if the known value of the field came from a weaker source than this report."""
        return name in self.sources and RANK[self.report.source] > RANK[self.sources[name]]

    def is_outranked(self, name: str) -> bool:
        """Returns True if the known value of the field came from a stronger source than this report."""
        return name in self.sources and RANK[self.report.source] < RANK[self.sources[name]]

    def may_replace(self, name: str) -> bool:
        """Returns True if the report may change the known value: its source is stronger, or it corrects itself."""
        return self.outranks(name) or (self.correction and self.sources.get(name) == self.report.source)


def verdict_key(verdict: Verdict) -> str:
    return VERDICTS + verdict.verifier


def reported(outcome: Outcome) -> dict:
    """Returns the fields of a report that differ from their defaults, by name."""
    return {name: getattr(outcome, name) for name in REPORTED if getattr(outcome, name) != UNSAID[name]}


def fields_set_by(report: Outcome) -> dict:
    """Returns the fields that a report sets, by name.

    Those are the ones that differ from their defaults, and for calls that sage measured itself also `retries` and
    `model`.
    """
    measured = report.source in (PROXY, TRAFFIC) and report.latency_s is not None
    return reported(report) | ({"retries": report.retries, "model": report.model} if measured else {})


def join(reports: Iterable[tuple[str, Outcome]], known: Known | None = None) -> Known | None:
    """Merges (status, report) pairs in their order into `known`, the joined outcome before them (None: no report yet).

    Returns None if there is no report at all.
    """
    for status, report in reports:
        known = merge(known, report, correction=status == CORRECTED).known
    return known


def attempt_of(decision: Decision, outcome: Outcome | None) -> Attempt:
    """Returns a decision and its outcome as an attempt, as later steps of the cascade see it.

    The sources of verdicts are left out; `outcome` is None if nothing was reported.
    """
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
