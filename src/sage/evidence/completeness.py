"""Completeness: whether an export holds every decision of its log, and what those could change that it does not hold.

The first line of an export names, by reason, every number of the log that has no row in the file. A number with neither a row
nor a reason is a decision that somebody took away, and perhaps because of its outcome. Such a decision is taken at its worst:
whatever its task, its model and its outcome were, it adds at most the range of rewards, divided by the least probability, to
the sum that an estimate is a mean of.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from rl_base.evaluation import BanditLog
from sage.evidence.selection import Selection
from sage.log.decision_log import DecisionLog
from sage.log.numbers import NumberedRow, last_number, numbered_rows, reports_gone
from sage.log.records import HELD

MARK, VERSION = "sage_export", 1
BEFORE, AFTER = "before --since", "not before --until"
STEP, HELD_CALL = "a step of a cascade", "a held call"
ERASED = {"tenant": "erased by tenant", "time": "erased by time", "": "erased by a sage that noted no reason"}
NO_HEADER = "whether rows are missing was not checked, as these rows have no header of `sage log export`"
Ranges = list[list[int]]  # first and last number of each


class HeaderError(ValueError):
    """A first line of an export that does not fit its rows; the message says what is wrong and how to go on."""


class ErasedRow(NamedTuple):
    """A decision of this export that was erased by task: its number, its tenant, and the most that it can weigh."""

    number: int
    tenant: str
    weight: float


@dataclass(frozen=True, kw_only=True)
class Completeness:
    """Counts of the decisions that belong to an export and have no row in it."""

    checked: bool = False
    numbers: int = 0  # that the log had given
    gone: int = 0  # without a row or a reason
    reports_gone: int = 0  # reports that are neither in the log nor erased: any of them may have changed an outcome
    erased: tuple[float, ...] = ()  # how much each decision that was erased by task can weigh
    erased_before_reasons: int = 0
    bounded: bool = True  # absent rows have a worst case; those of cascades may have had any number of attempts

    @property
    def absent(self) -> int:
        """Returns how many rows are missing that may be so because of their outcome."""
        return self.gone + self.reports_gone + len(self.erased)

    def weights(self, log: BanditLog) -> np.ndarray | None:
        """Returns the weights that absent rows have at worst, [absent]; None if there are none.

        A row that nobody knows anything about weighs as much as the least likely try of the whole log.
        """
        if not self.absent:
            return None
        least = float(log.chances[log.chances > 0].min())
        tries = len(log.tries)
        unknown = np.full(self.gone + self.reports_gone, tries / least - (tries - 1))
        return np.concatenate([unknown, self.erased])

    def __str__(self) -> str:
        """Returns a sentence part for a verdict; '' for a complete export."""
        if not self.checked:
            return NO_HEADER
        found = {
            f"of the log's {self.numbers:,} decisions {self.gone:,} are not here, and nothing says why": self.gone,
            f"{self.reports_gone:,} reports of outcomes are not in the log": self.reports_gone,
            f"{len(self.erased):,} decisions were erased by task": len(self.erased),
        }
        parts = [text for text, number in found.items() if number]
        then = "taken at their worst" if self.bounded else "cascades may be missing"
        text = f"{'; '.join(parts)}: {then}" if parts else ""
        if self.erased_before_reasons:
            old = f"{self.erased_before_reasons:,} decisions were erased by a sage that noted no reason, and are not counted"
            text = f"{text}; {old}" if text else old
        return text


UNCHECKED = Completeness()


@dataclass(frozen=True, kw_only=True)
class ExportHeader:
    """The first line of an export: the log's numbers up to the last one, and those without a row, by reason."""

    last: int
    left_out: dict[str, Ranges] = field(default_factory=dict)
    erased: tuple[ErasedRow, ...] = ()
    reports_gone: int = 0

    def to_json(self) -> dict:
        """Returns the header as plain values, as they stand in the file."""
        return {MARK: VERSION} | vars(self) | {"erased": [row._asdict() for row in self.erased]}

    @classmethod
    def from_json(cls, values: dict) -> Self:
        """Raises HeaderError for a header of another version or with other fields."""
        values = dict(values)
        try:
            if (version := values.pop(MARK)) != VERSION:
                raise HeaderError(f"it is of version {version!r}, and this sage reads {VERSION}: export the file again")
            header = cls(**values | {"erased": tuple(ErasedRow(**row) for row in values["erased"])})
            header.named  # noqa: B018 (fails for ranges that are none)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, HeaderError):
                raise
            raise HeaderError(f"it cannot be read ({error}): export the file again") from error
        return header

    @classmethod
    def lost(cls, numbers: Collection[int | None]) -> Self | None:
        """Returns the header of rows that came without one: no number up to the last row's has a reason not to be there.

        None for rows that no log numbered.
        """
        known = [number for number in numbers if number is not None]
        return cls(last=max(known)) if known and len(known) == len(numbers) else None

    @property
    def named(self) -> np.ndarray:
        """Returns bool [last + 1]: the numbers that have a reason not to be there."""
        named = np.zeros(self.last + 1, bool)
        for first, last in (pair for ranges in self.left_out.values() for pair in ranges):
            named[first : last + 1] = True
        named[[row.number for row in self.erased]] = True
        return named

    def compare(self, numbers: Collection[int | None], selection: Selection) -> Completeness:
        """Returns what the rows of the file, by their numbers, lack; `selection` is that of the rows that count.

        Raises HeaderError for a row without a number, with one that another row has, or with one that the log had not
        given.
        """
        accounted = self.named
        for number in numbers:
            if number is None or not 0 < number <= self.last:
                raise HeaderError(f"it is not of these rows, one of which has number {number}: export the file again")
        present = np.fromiter((number for number in numbers if number is not None), np.int64, len(numbers))
        if len(np.unique(present)) < len(present):
            raise HeaderError("two rows have the same number: export the file again")
        accounted[present] = True
        old = self.left_out.get(ERASED[""], [])
        return Completeness(
            checked=True,
            numbers=self.last,
            gone=int((~accounted[1:]).sum()),
            reports_gone=self.reports_gone,
            erased=tuple(row.weight for row in self.erased if selection.includes(row.tenant)),
            erased_before_reasons=sum(last - first + 1 for first, last in old),
        )


def header_of(
    log: DecisionLog,
    last: int,
    *,
    data_source: str,
    session: str | None,
    since: float | None,
    until: float | None,
    selection: Selection,
) -> ExportHeader:
    """Returns the header of an export of single decisions up to number `last`."""
    reasons: defaultdict[str, list[int]] = defaultdict(list)
    erased, there = [], np.zeros(last + 1, bool)
    time_of = {}  # number -> BEFORE or AFTER
    for row in numbered_rows(log, last):
        there[row.number] = True
        reason = why_left_out(row, data_source, session, since, until, selection)
        if reason:
            reasons[reason].append(row.number)
        elif row.kept is not None:
            erased.append(ErasedRow(row.number, row.tenant or "", weight_of(row.kept)))
        if outside := why_outside(row.time, since, until):
            time_of[row.number] = outside
    for first, end in ranges_of(np.flatnonzero(~there[1:]) + 1):  # also deleted from what the time leaves out
        beside = {time_of.get(number) for number in (first - 1, end + 1) if 0 < number <= last}
        if len(beside) == 1 and (reason := beside.pop()):
            reasons[reason].extend(range(first, end + 1))
    return ExportHeader(
        last=last,
        left_out={reason: ranges_of(np.sort(numbers)) for reason, numbers in reasons.items()},
        erased=tuple(erased),
        reports_gone=reports_gone(log),
    )


def gaps_for_cascades(log: DecisionLog) -> Completeness:
    """Returns what a log lacks of which steps of cascades may be a part: whatever has no reason, or was erased by task."""
    last, there, erased_steps = last_number(log), 0, 0
    for row in numbered_rows(log, last):
        there += 1
        erased_steps += row.kept is not None and row.is_step
    return Completeness(
        checked=True,
        numbers=last,
        gone=last - there,
        reports_gone=reports_gone(log),
        erased=(1.0,) * erased_steps,
        bounded=False,
    )


def why_left_out(
    row: NumberedRow,
    data_source: str,
    session: str | None,
    since: float | None,
    until: float | None,
    selection: Selection,
) -> str:
    """Returns the reason for which a row is no part of an export, whatever its outcome is; '' if it is a part of it."""
    if row.erased is not None and row.kept is None:
        return ERASED.get(row.erased, "")
    if row.data_source != data_source:
        return "another data source"
    if outside := why_outside(row.time, since, until):
        return outside
    if session is not None and row.erased is None and row.session != session:
        return "another session"
    if not selection.includes(row.tenant or ""):
        return "another tenant"
    if row.is_step:
        return STEP
    return HELD_CALL if row.verdict == HELD else ""


def why_outside(time: float | None, since: float | None, until: float | None) -> str:
    """Returns BEFORE or AFTER for a time outside the given ones, else ''; None stands for an unknown time or no limit."""
    if time is None:
        return ""
    if since is not None and time < since:
        return BEFORE
    return AFTER if until is not None and time >= until else ""


def weight_of(kept: dict) -> float:
    """Returns how many ranges of rewards an erased decision can take from the sum of a gain, by its probabilities.

    With a chosen model of probability p, that is 1 / p: once predictions are subtracted, a reward has at most the range's
    size, and the row's own prediction at most makes up for what it lacks. A shadow adds its own.
    """
    if not kept["outcome_wanted"]:
        return 1.0
    rate = kept.get("outcome_probability") or 1.0
    weight = 1 / (rate * kept["probabilities"][kept["candidates"].index(kept["model"])])
    if kept.get("shadow") is not None:
        weight += 1 / (rate * kept["shadow_probabilities"][kept["candidates"].index(kept["shadow"])]) - 1
    return weight


def erased_followers(log: DecisionLog, last: int) -> Counter[str]:
    """Counts erased calls that were held to an earlier decision's model, by the id of that decision."""
    erased = (row.kept for row in numbered_rows(log, last) if row.kept is not None and row.verdict == HELD)
    return Counter(kept["follows"] for kept in erased if kept.get("follows"))


def ranges_of(numbers: Iterable[int] | np.ndarray) -> Ranges:
    """Returns sorted numbers as ranges without a gap."""
    sorted_numbers = np.asarray(numbers, dtype=np.int64)
    if not len(sorted_numbers):
        return []
    parts = np.split(sorted_numbers, np.flatnonzero(np.diff(sorted_numbers) > 1) + 1)
    return [[int(part[0]), int(part[-1])] for part in parts]


def begins_header(line: bytes) -> bool:
    """Returns True if a line of a file is a header, not a row."""
    return line.startswith(f'{{"{MARK}"'.encode())


def parse_header(line: bytes) -> ExportHeader:
    """Returns the header in the first line of a file; raises HeaderError if it cannot be read."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise HeaderError(f"it is not whole JSON ({error}): export the file again") from error
    return ExportHeader.from_json(values)
