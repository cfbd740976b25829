"""Calls in which a session kept its model: nothing was chosen, so they count with the decision that drew the model.

A drawn decision and the calls that follow it are one row. Their costs and retries add up. Quality and latency are means, so that every
answer counts the same and a quality stays between 0 and 1; a call that timed out has quality 0. If the outcome of one call is
missing, that of the row is: the calls that were reported need not be like those that were not.
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
    """A decision with the outcome of all calls that count with it; `missing` says why that is None."""

    decision: Decision
    outcome: Outcome | None
    missing: str = ""


class HeldCalls:
    """The held calls of a log by the decision that they follow. Add every row in the order of the log, then ask for `rows`."""

    def __init__(self) -> None:
        self.drawn: set[str] = set()
        self.steps: set[str] = set()  # of cascades
        self.followers: defaultdict[str, list[Outcome | None]] = defaultdict(list)
        self.left_out: Counter[str] = Counter()
        self._latest: dict[tuple[str, str, str], str] = {}  # tenant, session, model that answered -> who drew it
        self._links: dict[str, str] = {}  # held call -> who drew its model, '' if nobody knows

    def add(self, decision: Decision, outcome: Outcome | None) -> None:
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
        """The drawn decisions with what came of all their calls. A held call of which the log does not say what it follows
        is a decision with one candidate; one that follows a decision outside of these rows is left out, and counted. Rows
        that were never added, as the log has grown meanwhile, are passed over."""
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
    """The same call with the only candidate that it had; an outcome of another model, to which it fell back, is none."""
    made = replace(decision, candidates=(decision.model,), probabilities=(1.0,), shadow=None, shadow_probabilities=None)
    if outcome is not None and outcome.model not in (None, decision.model):
        return JoinedCalls(made, None, ANOTHER)
    return JoinedCalls(made, outcome and replace(outcome, shadow=None))


def join_calls(decision: Decision, outcome: Outcome | None, followers: list[Outcome | None]) -> JoinedCalls:
    """The outcome of the shadow is left out: it is one of a single call, and nobody knows what the others would have been."""
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
    """Tells whether the quality is known; a time-out is known to be worth nothing."""
    return outcome.quality is not None or outcome.timed_out


def sum_or_none(calls: list[Outcome], name: str) -> int | None:
    known = [getattr(call, name) for call in calls]
    return None if None in known else sum(known)
