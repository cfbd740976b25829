"""Calls in which a session kept its model: no choice was made, so they count with the decision that drew the model.

A drawn decision and the calls that follow it are one row. Their costs and retries add up. Quality and latency are
means, so that every answer counts the same and a quality stays between 0 and 1; a call that timed out has quality 0. If
the outcome of one call is missing, that of the row is, because the reported calls need not be like the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from sage.log.record_checks import RANK
from sage.log.records import Decision, Outcome

NOT_THERE = "held calls whose drawn decision is not among the rows"
OF_A_CASCADE = "held calls after a step of a cascade"
ANOTHER = "an answer of a model that was no candidate"
NO_OUTCOME, UNSEEN = "no outcome yet", "neither a quality nor a time-out"
UNREPORTED = "a held call without an outcome"
UNPRICED = "a held call without a cost or a latency that others of its session have"
Row = tuple[Decision, Outcome | None]


class JoinedCalls(NamedTuple):
    """A decision with the joint outcome of all calls that count with it; `missing` says why the outcome is None."""

    decision: Decision
    outcome: Outcome | None
    missing: str = ""


class HeldCalls:
    """The held calls of a log, grouped by the decision that drew their model.

    Give every row to `add` in the order of the log, then ask for `rows`.
    """

    def __init__(self) -> None:
        self.drawn: set[str] = set()
        self.steps: set[str] = set()  # of cascades
        self.followers: defaultdict[str, list[Outcome | None]] = defaultdict(list)
        self.left_out: Counter[str] = Counter()
        self._latest: dict[tuple[str, str, str], str] = {}  # tenant, session, model that answered -> who drew it
        self._links: dict[str, str] = {}  # held call -> who drew its model, '' if nobody knows

    def add(self, decision: Decision, outcome: Outcome | None) -> None:
        """Takes one row of the log and finds the decision that drew its model."""
        answered_by = decision.model if outcome is None or outcome.model is None else outcome.model
        drawn_by = decision.id
        if decision.held:
            drawn_by = decision.follows or self._latest.get((decision.tenant, decision.session, decision.model), "")
            self._links[decision.id] = drawn_by
            if drawn_by:
                self.followers[drawn_by].append(outcome)
        elif decision.cascade is None:
            self.drawn.add(decision.id)
        else:
            self.steps.add(decision.id)
        if decision.session and drawn_by:
            self._latest[decision.tenant, decision.session, answered_by] = drawn_by

    @property
    def counted(self) -> int:
        """Returns the number of held calls that count with a decision."""
        return sum(len(outcomes) for drawn_by, outcomes in self.followers.items() if drawn_by in self.drawn)

    def rows(self, rows: Iterable[Row]) -> Iterator[JoinedCalls]:
        """Returns the drawn decisions, each with the joint outcome of all its calls.

        A held call for which the log does not name an earlier decision becomes a decision with one candidate. One that
        follows a decision outside of the added rows, or a step of a cascade, is left out and counted in `left_out`.
        Rows that were never added are skipped.
        """
        for decision, outcome in rows:
            drawn_by = self._links.get(decision.id)
            if decision.id in self.drawn:
                yield join_calls(decision, outcome, self.followers.get(decision.id, []))
            elif drawn_by == "":
                yield with_one_candidate(decision, outcome)
            elif drawn_by in self.steps:
                self.left_out[OF_A_CASCADE] += 1
            elif drawn_by is not None and drawn_by not in self.drawn:
                self.left_out[NOT_THERE] += 1


def with_one_candidate(decision: Decision, outcome: Outcome | None) -> JoinedCalls:
    """Returns the call as a decision with its model as the only candidate, without the outcome of another model."""
    made = replace(decision, candidates=(decision.model,), probabilities=(1.0,), shadow=None, shadow_probabilities=None)
    if outcome is not None and outcome.model not in (None, decision.model):
        return JoinedCalls(made, None, ANOTHER)
    return JoinedCalls(made, outcome and replace(outcome, shadow=None))


def join_calls(decision: Decision, outcome: Outcome | None, followers: list[Outcome | None]) -> JoinedCalls:
    """Returns a decision with the joint outcome of its own call and of the held calls that follow it.

    The outcome is None, with a reason, if that of a call is missing, or if only some calls have a cost or a latency.
    The shadow's outcome is left out, because it belongs to a single call.
    """
    if not followers:
        return JoinedCalls(decision, outcome)
    if outcome is None or not is_seen(outcome):
        return JoinedCalls(decision, None, UNSEEN if outcome else NO_OUTCOME)
    calls = [call for call in (outcome, *followers) if call is not None]
    if len(calls) <= len(followers) or not all(is_seen(call) for call in calls):
        return JoinedCalls(decision, None, UNREPORTED)
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    latencies = [call.latency_s for call in calls if call.latency_s is not None]
    if len(costs) not in (0, len(calls)) or len(latencies) not in (0, len(calls)):
        return JoinedCalls(decision, None, UNPRICED)
    timed_out = all(call.timed_out for call in calls)
    merged = replace(
        outcome,
        quality=None if timed_out else sum(call.quality or 0.0 for call in calls) / len(calls),
        timed_out=timed_out,
        cost_usd=sum(costs) if costs else None,
        latency_s=sum(latencies) / len(calls) if latencies else None,
        retries=sum(call.retries for call in calls),
        time=max(call.time for call in calls),
        source=min((call.source for call in calls), key=RANK.__getitem__),
        shadow=None,
        tokens_in=sum_or_none(calls, "tokens_in"),
        tokens_cached=sum_or_none(calls, "tokens_cached"),
        tokens_out=sum_or_none(calls, "tokens_out"),
    )
    return JoinedCalls(decision, merged)


def is_seen(outcome: Outcome) -> bool:
    """Returns True if the quality is known; a time-out counts as known."""
    return outcome.quality is not None or outcome.timed_out


def sum_or_none(calls: list[Outcome], name: str) -> int | None:
    """Returns the sum of a field over all calls; None if a call lacks it."""
    known = [getattr(call, name) for call in calls]
    return None if None in known else sum(known)
