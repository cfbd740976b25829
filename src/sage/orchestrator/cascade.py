"""Cascades as users run them: one task that several models may be tried on; every step is a logged decision."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self, Unpack

import numpy as np

from sage.log.cascade_steps import STOP, Attempt, Step, taken
from sage.log.joining import Known, attempt_of, merge, reported
from sage.log.record_checks import OPERATOR
from sage.log.records import Decision, Outcome, Request
from sage.orchestrator.cascade_tier import CascadeError
from sage.orchestrator.request_fields import AttemptFields, check_names
from sage.policies import features
from sage.policies.policy import Contexts
from sage.verifiers.verifier import Answer, Judge, Said, Verifier, verify

if TYPE_CHECKING:
    from sage.orchestrator.model_router import Router


class Cascade:
    """One task that several models may be tried on: iterate over it, and report each attempt before the next.

    It ends when the policy stops. The answer that is then taken is the last that passed, else the last there is. For
    one thread; `Router.resume` goes on with it in another process.
    """

    def __init__(
        self,
        router: Router,
        request: Request,
        contexts: Contexts,
        cascade_id: str,
        judges: Mapping[str, Verifier | Judge],
    ) -> None:
        self.router = router
        self.request = request
        self.contexts = contexts
        self.id = cascade_id  # what the quality of the whole task is reported under
        self.verifiers: dict[str, Verifier | Judge] = {**router.cascades.rule(request.role).verifiers, **judges}
        self.tried: list[tuple[Decision, Outcome | None]] = []  # with all that was reported
        self.stopped: Decision | None = None
        self.answers: dict[str, str] = {}  # by the attempt's id, those that `report` was given

    @classmethod
    def start(cls, router: Router, request: Request, judges: Mapping[str, Verifier | Judge]) -> Self:
        cascade_id = uuid.uuid4().hex
        request = replace(request, task_id=request.task_id or cascade_id)
        return cls(router, request, features.contexts_of([request]), cascade_id, judges)

    @classmethod
    def resume(cls, router: Router, cascade_id: str, judges: Mapping[str, Verifier | Judge]) -> Self:
        rows = router.log.cascade(cascade_id)
        if not rows:
            raise CascadeError(f"cascade {cascade_id!r} is not in {router.log.path}: check the id and the file")
        first = rows[0][0]
        names = ("role", "task_id", "category", "tenant", "session")
        request = Request(**{name: getattr(first, name) for name in names}, task=first.prompt or "")
        contexts = features.contexts_of([request])
        if first.features_version == features.VERSION:  # the text may not be in the log, but what was seen of it is
            contexts = contexts._replace(features=np.array([first.features], np.float32))
        found = cls(router, request, contexts, cascade_id, judges)
        found.tried = [row for row in rows if row[0].model != STOP]
        found.stopped = next((decision for decision, _ in rows if decision.model == STOP), None)
        return found

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Returns the attempts so far, with all that was reported about them."""
        return tuple(attempt_of(decision, outcome) for decision, outcome in self.tried)

    def next(self) -> Decision | None:
        """Decides and logs the next attempt, and returns its decision; None once the cascade has stopped."""
        if self.stopped is None:
            step = Step(cascade_id=self.id, number=len(self.tried), attempts=self.attempts)
            decision = self.router.decide(self.request, self.contexts, step)
            if decision.model != STOP:
                self.tried.append((decision, None))
                return decision
            self.stopped = decision
        return None

    def __iter__(self) -> Iterator[Decision]:
        while (attempt := self.next()) is not None:
            yield attempt

    def report(
        self,
        answer: str | None = None,
        *,
        samples: Sequence[str] = (),
        verdicts: Mapping[str, Said] | None = None,
        at: float | None = None,
        **outcome: Unpack[AttemptFields],
    ) -> str:
        """Logs the outcome of the last attempt, after the verifiers have looked at the answer.

        `samples` are other answers of the model, `verdicts` those that you know already: {"tests": True}; `at` is in
        seconds since 1970, None means now. Returns 'passed', 'failed' or 'unknown'. Raises CascadeError if nothing was
        tried yet.
        """
        check_names("report", outcome, AttemptFields)
        if not self.tried:
            raise CascadeError("nothing was tried yet: call next() first, or iterate over the cascade")
        decision, known = self.tried[-1]
        seen = None if answer is None else Answer(text=answer, samples=tuple(samples))
        judged = verify(seen, self.verifiers, verdicts or {})
        report = self.router.outcome_of(decision.id, at, {"source": OPERATOR, **outcome}, judged)
        if reported(report):
            self.router.report(report)
            before = None if known is None else Known.first(known)
            self.tried[-1] = decision, merge(before, report).known.outcome
        if answer is not None:
            self.answers[decision.id] = answer
        return attempt_of(*self.tried[-1]).verdict

    @property
    def taken(self) -> Decision | None:
        """Returns the decision of the attempt whose answer is the task's, as things stand; None before the first."""
        return self.tried[taken(self.attempts)][0] if self.tried else None

    @property
    def answer(self) -> str | None:
        """Returns the answer of the taken attempt; None if it was not reported to this object."""
        return None if self.taken is None else self.answers.get(self.taken.id)

    def outcome(
        self,
        quality: float | None = None,
        *,
        provenance: str = "",
        source: str = OPERATOR,
        at: float | None = None,
    ) -> str:
        """Logs how good the taken answer was, from 0 to 1; `at` is in seconds since 1970, None means now.

        The same as `Router.outcome(cascade.id, ...)`, which anybody can call at any time, and with the same result.
        """
        return self.router.outcome(self.id, at=at, quality=quality, provenance=provenance, source=source)
