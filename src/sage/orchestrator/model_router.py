"""The router: request in, logged decision out."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self, Unpack

import numpy as np

from sage.log.cascade_steps import STOP, Step, Verdict
from sage.log.database import DatabaseError, Identity, ReplacedFileError, WrongFileError
from sage.log.decision_log import DecisionLog, OverBudgetError
from sage.log.joining import reported
from sage.log.openings import OpeningHasher
from sage.log.record_checks import OPERATOR
from sage.log.records import UNLOGGED, Decision, Outcome, RecordError, Request, of_shadow
from sage.log.spending import NOTHING_SPENT, Budgets, Spent
from sage.orchestrator.backlog import LOG_FAILURES, Backlog
from sage.orchestrator.bandit_tier import BanditTier, inferred_category
from sage.orchestrator.cascade import Cascade
from sage.orchestrator.cascade_tier import CascadeTier
from sage.orchestrator.draw import Draw, now
from sage.orchestrator.guard import ANY, OK, Candidates, Guard, Judgement, Serving
from sage.orchestrator.models_file import ModelsFile
from sage.orchestrator.promotion import Served, cascade_kind, served_policy, single_decision_kind
from sage.orchestrator.request_fields import AttemptFields, OutcomeFields, RequestFields, check_names
from sage.orchestrator.static_table import StaticTable
from sage.policies import features
from sage.policies.cascades.cascade_ladder import LadderByRole
from sage.policies.cascades.cascade_policy import CascadePolicy
from sage.policies.policy import Contexts, RoutingPolicy
from sage.verifiers.verifier import Judge, Verifier, verify

log = logging.getLogger(__name__)


class Prepared(NamedTuple):
    """A decision that is not logged yet, and the budgets that must have room for its expected cost when it is."""

    decision: Decision
    budgets: Budgets


class Router:
    """Chooses a model for every call: by the learned policy if one is on, else by the bandit if one is configured, and by
    the static table wherever these are not sure or cannot answer. Safe to share between threads."""

    def __init__(
        self,
        log: DecisionLog,
        table: ModelsFile,
        *,
        served: Served[RoutingPolicy] = Served(),  # noqa: B008 (immutable)
        cascade: Served[CascadePolicy] = Served(),  # noqa: B008
        data_source: str = "real",
        seed: int | None = None,
    ) -> None:
        self.log = log
        self.table = table
        self.static = StaticTable.from_file(table)
        self.guard = Guard(self.static, table.guard)
        self.served = served
        self.bandit = (
            None if table.bandit is None else BanditTier(log.path, table.bandit, self.static, table.objective.weights)
        )
        self.cascades = CascadeTier(table.cascade, self.guard, learned=cascade)
        self.backlog = Backlog(log, self.join)
        self.openings = OpeningHasher(log.path)
        self.random = random.Random(seed)
        self.draw = Draw(self.random, self.guard, self.openings, table.log, table.outcomes, data_source)
        self.lock = threading.Lock()

    @classmethod
    def open(
        cls,
        db: str | Path,
        *,
        models: str | Path,
        data_source: str = "real",
        seed: int | None = None,
        environment: Mapping[str, str] | None = None,
        needs_log: bool = False,
        before: Router | None = None,
        identity: Identity | None = None,
    ) -> Self:
        """Opens or starts the log; the environment says whether a learned policy serves.

        A log that cannot be opened because of the disk is a warning: the router serves, and logs as soon as it can. With
        `needs_log` it is an error. `before` is the router that this one replaces: policies that it has in memory may go on.
        `identity` is that of a log which must not have been replaced.
        """
        table = ModelsFile.read(models)
        decisions = DecisionLog(db, identity=identity)
        try:
            decisions.file.open()
        except DatabaseError as error:
            if needs_log or (isinstance(error, WrongFileError) and not isinstance(error, ReplacedFileError)):
                raise
            log.warning(f"{error}; nothing is logged until then")
        router = cls(decisions, table, data_source=data_source, seed=seed)
        router.look_again(environment, before)
        if before is None:
            for served, told in zip((router.served, router.cascades.learned), router.in_charge, strict=True):
                if served.problem or served.forced:
                    log.warning(told)
        return router

    def look_again(self, environment: Mapping[str, str] | None, before: Router | None = None) -> None:
        """Reads checkpoints and gate records, and puts in charge whom they promote: at once, for all threads.

        Policies that `before` (else this router) has in memory go on where `promotion.py` says so.
        """
        table, before, db = self.table, before or self, self.log.path
        single = single_decision_kind(tuple(table.models), table.guard.confidence_floor)
        self.served = served_policy(environment, single, table.objective, before.served.promoted, db)
        cascade, promoted = cascade_kind(table.cascade), before.cascades.learned.promoted
        self.cascades.learned = served_policy(environment, cascade, table.objective, promoted, db)

    @property
    def policy(self) -> RoutingPolicy | None:
        return self.served.policy

    @property
    def deciding(self) -> dict[str, RoutingPolicy | CascadePolicy]:
        """Returns what makes single decisions and, where there are cascades, what takes their steps; where it is not sure, the
        table or the ladder stands in."""
        single = self.policy or (self.static if self.bandit is None else self.bandit.bandit)
        if not self.table.cascade:
            return {"decisions": single}
        ladders = LadderByRole({role: rule.ladder for role, rule in self.table.cascade.items()})
        return {"decisions": single, "cascades": self.cascades.learned.policy or ladders}

    @property
    def in_charge(self) -> tuple[str, str]:
        """Says who makes single decisions, and who those of cascades; empty where no learned policy was asked for."""
        table = "the static table answers" if self.bandit is None else f"the bandit {self.bandit.bandit.name} answers"
        return self.served.told(table), self.cascades.learned.told("the ladders of models.yaml answer")

    def route(self, *, serving: Serving = ANY, **request: Unpack[RequestFields]) -> Decision:
        """Decides and logs; the decision is in the log when this returns, unless its verdict is 'unlogged'."""
        check_names("route", request, RequestFields)
        return self.decide(*self.seen(Request(**request)), serving=serving)

    def seen(self, request: Request) -> tuple[Request, Contexts]:
        """Returns a request as policies see it, with a category where one can be inferred."""
        contexts = features.contexts_of([request])
        category = "" if request.category or self.policy is None else inferred_category(self.policy, contexts)
        if category:
            return replace(request, category=category), contexts._replace(category=np.array([category]))
        return request, contexts

    def cascade(
        self, verifiers: Mapping[str, Verifier | Judge] | None = None, **request: Unpack[RequestFields]
    ) -> Cascade:
        """A task that several models may be tried on; `verifiers` judge an answer, by name: functions of yours, or `SandboxTests`."""
        check_names("cascade", request, RequestFields)
        return Cascade.start(self, Request(**request), verifiers or {})

    def resume(self, cascade_id: str, verifiers: Mapping[str, Verifier | Judge] | None = None) -> Cascade:
        """A cascade that was begun by any process, as it is in the log."""
        return Cascade.resume(self, cascade_id, verifiers or {})

    def decide(
        self, request: Request, contexts: Contexts, step: Step | None = None, serving: Serving = ANY
    ) -> Decision:
        """Decides a request, or a step of a cascade, and logs it; else as `route`."""
        try:
            decision = self.commit(request, contexts, step, serving)
        except LOG_FAILURES as error:
            return self.unlogged(request, contexts, step, serving, error)
        self.backlog.flush()
        return decision

    def commit(self, request: Request, contexts: Contexts, step: Step | None, serving: Serving) -> Decision:
        """Returns a decision that is in the log, with what it may cost reserved in the same transaction."""
        while True:
            spent = self.read(request, step, serving)
            decision, budgets = self.prepare(request, contexts, step, serving, spent)
            try:
                self.log.append(decision, budgets=budgets)
            except OverBudgetError:  # other calls have reserved meanwhile what was left: there is less to choose from
                continue
            return decision

    def decides_at_once(self, serving: Serving) -> bool:
        """Tells whether `read` has nothing to read and `prepare` takes a fraction of a millisecond, so that an event loop can
        call it: the static table decides, and there is no budget."""
        without = self.policy is self.bandit is serving.budget is self.guard.limits.budget_usd is None
        return without and self.openings.is_open

    def read(self, request: Request, step: Step | None, serving: Serving) -> Spent:
        """Reads what `prepare` needs: the key of openings, what the bandit has learned, and what was spent of the budgets."""
        if request.opening or request.task:
            self.openings.open()
        if step is None and self.bandit is not None and self.policy is None:
            with self.lock:
                self.bandit.current()
        session_limit, budget = self.guard.limits.budget_usd, serving.budget
        return Spent(
            0.0 if session_limit is None else self.log.spent(request.tenant, request.session),
            0.0 if budget is None else self.log.tenant_spent(request.tenant, budget, now()),
        )

    def prepare(
        self,
        request: Request,
        contexts: Contexts,
        step: Step | None = None,
        serving: Serving = ANY,
        spent: Spent = NOTHING_SPENT,
    ) -> Prepared:
        """Makes the decision that is to be logged, and says in which budgets its expected cost has to be reserved.

        It uses no file and takes no lock but the bandit's, and changes nothing but the random stream: the same state and seed
        give the same decision, apart from its id and time.
        """
        if step is None:
            candidates = self.served_candidates(request, spent, serving)
            candidates, judgement = self.guard.held(self.judge(contexts, candidates), candidates, serving.hold)
        else:
            candidates, judgement = self.cascades.at(step).options(request, contexts, spent.session_usd)
        decision = self.draw.decision(request, contexts, candidates, judgement, step, serving)
        reserves = candidates.verdict == OK and decision.model != STOP
        return Prepared(decision, Budgets(self.guard.limits.budget_usd if reserves else None, serving.budget))

    def unlogged(
        self, request: Request, contexts: Contexts, step: Step | None, serving: Serving, error: ValueError
    ) -> Decision:
        """Returns the choice of the table, or of the ladder, where the log cannot be written, as the error says."""
        self.backlog.complain(error)
        if step is None:
            candidates, judgement = self.guard.without_log(request, contexts, str(error), serving)
        else:
            candidates, judgement = self.cascades.at(step).without_log(request, contexts, str(error))
        self.backlog.add_decision(error)  # which a call that no budget can pay is not
        return self.draw.decision(request, contexts, candidates, judgement, step, serving)

    def served_candidates(self, request: Request, spent: Spent, serving: Serving) -> Candidates:
        """Returns the models that may be chosen: of those that the tenant's budget can pay."""
        if serving.budget is None:
            return self.guard.candidates(request, spent.session_usd, among=serving.among, tokens=serving.tokens)
        among = self.guard.affordable(request, serving, serving.budget.usd - spent.tenant_usd)
        cost = partial(self.guard.most_usd, request=request, serving=serving)
        return self.guard.candidates(request, spent.session_usd, among=among, tokens=serving.tokens, cost=cost)

    def reserve(self, decision: Decision, model: str, request: Request, serving: Serving) -> bool:
        """Returns True if a call may fall back to `model`: reserves its additional cost; False if a budget lacks it."""
        if serving.budget is None:
            return True
        cost = self.guard.most_usd(model, request, serving)
        if decision.logged and cost > (decision.expected_cost_usd or 0.0):
            try:
                self.log.reserve(decision, cost, budgets=Budgets(self.guard.limits.budget_usd, serving.budget))
            except LOG_FAILURES:  # of which a budget without room is one
                return False
        return decision.logged or cost == 0.0

    def judge(self, contexts: Contexts, candidates: Candidates) -> Judgement:
        policy, problem, forced = self.served[:3]
        if self.bandit is None or policy is not None:
            judgement = self.guard.judge(policy, contexts, candidates)
        else:
            with self.lock:
                judgement = self.guard.judge(self.bandit.bandit, contexts, candidates)
        if problem and judgement.verdict == OK:
            return replace(judgement, verdict="policy_unusable", confidence=None, reason=problem)
        if forced and judgement.policy is policy:
            return replace(judgement, reason=f"{judgement.reason}; {forced}")
        return judgement

    def outcome(
        self, decision_id: str, *, at: float | None = None, shadow: bool = False, **outcome: Unpack[OutcomeFields]
    ) -> str:
        """Logs what came of a decision, now or `at` a time; what is known later may be reported later, in another call.

        With `shadow` it is what came of the second model that was asked. It counts as the operator's, who outranks all
        others, unless `source` says otherwise ('ci', 'traffic' or 'client'). Returns what became of the report:

        - 'joined', or 'late' after more than a day: it says something new.
        - 'duplicate': it says nothing new.
        - 'conflict': what this source said first, or a stronger one, stays.
        - 'corrected': it replaces what a weaker source said.
        - 'refused': this source has reported too often.
        - 'unknown': there is no such decision (yet).
        - 'unlogged': the log cannot be written, and the outcome is kept in memory until it can be.
        """
        check_names("outcome", outcome, OutcomeFields)
        said = verify(None, {}, outcome.pop("verdicts", {}))
        outcome.setdefault("source", OPERATOR)
        return self.report(self.outcome_of(decision_id, at, outcome, said), shadow=shadow)

    def correct(
        self, decision_id: str, *, at: float | None = None, shadow: bool = False, **outcome: Unpack[OutcomeFields]
    ) -> str:
        """Replaces what this source and weaker ones reported of a decision; the log keeps both. 'corrected', 'conflict',
        'unknown' (there is nothing to correct) or 'unlogged'."""
        check_names("correct", outcome, OutcomeFields)
        said = verify(None, {}, outcome.pop("verdicts", {}))
        outcome.setdefault("source", OPERATOR)
        return self.report(self.outcome_of(decision_id, at, outcome, said), correction=True, shadow=shadow)

    def outcome_of(
        self, decision_id: str, at: float | None, fields: AttemptFields, verdicts: tuple[Verdict, ...]
    ) -> Outcome:
        return Outcome(decision_id=decision_id, time=now() if at is None else at, verdicts=verdicts, **fields)

    def report(self, outcome: Outcome, correction: bool = False, shadow: bool = False) -> str:
        if not reported(outcome):
            raise RecordError(
                f"the outcome of {outcome.decision_id!r} says nothing: give quality, cost_usd, latency_s, "
                "timed_out=True, model or another field"
            )
        if shadow:
            outcome = of_shadow(outcome)
        self.backlog.flush()
        try:
            return self.join(outcome, correction)
        except LOG_FAILURES as error:
            self.backlog.add_outcome(outcome, correction, error)
            return UNLOGGED

    def join(self, outcome: Outcome, correction: bool) -> str:
        """Logs a report and learns from it."""
        joined = self.log.join(outcome, correction=correction)
        if self.bandit is not None and joined.before != joined.after:
            with suppress(*LOG_FAILURES):  # the report is logged: that the bandit misses it is no reason to repeat it
                decision = self.log.decision(outcome.decision_id)
                single = decision.cascade is None and not decision.held  # else models are not chosen one by one
                if single and decision.outcome_wanted:
                    with self.lock:
                        self.bandit.learn(decision, joined.before, joined.after)
        return joined.status

    def close(self) -> None:
        self.log.finish()
        self.backlog.flush()
        if self.backlog.waiting:
            log.warning(
                f"{len(self.backlog.waiting)} outcomes could not be written to {self.log.path} and are lost: keep the router "
                "open until the log is mended"
            )
        self.log.close()
        if self.bandit is not None:
            self.bandit.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
