"""What decides the steps of a cascade: a learned cascade that the gate has promoted, else the ladder of models.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sage.evidence.objective import Objective
from sage.log.cascade_steps import STOP, Attempt, Step, taken
from sage.log.records import UNLOGGED, Request
from sage.orchestrator.cascade_rules import CascadeRule
from sage.orchestrator.guard import OK, POLICY_FAILURES, Candidates, Guard, Judgement, is_distribution, limit, tokens_in
from sage.orchestrator.promotion import Checkpoint, Promoted, Served
from sage.policies.cascades.cascade_ladder import LadderCascade
from sage.policies.cascades.cascade_policy import ACCEPTED, REJECTED, UNVERIFIED, CascadePolicy, CascadeStates
from sage.policies.policy import Contexts, with_exploration
from sage.settings import CASCADE, Settings, SettingsError

CODES = {"passed": ACCEPTED, "failed": REJECTED, "unknown": UNVERIFIED}


class CascadeError(ValueError):
    """A cascade that cannot be begun or gone on with: the sentence says why and what to do."""


class CascadeTier:
    """The rules of models.yaml, and the learned cascade that is asked before them if there is one."""

    def __init__(self, rules: Mapping[str, CascadeRule], guard: Guard, learned: Served[CascadePolicy]) -> None:
        self.rules = rules
        self.guard = guard
        self.learned = learned

    def rule(self, role: str) -> CascadeRule:
        if role not in self.rules:
            raise CascadeError(f"models.yaml has no cascade for {role}: add cascade.{role} or cascade.default")
        return self.rules[role]

    def at(self, step: Step) -> StepTier:
        return StepTier(self, step)


@dataclass(frozen=True)
class StepTier:
    """Candidates and probabilities of one step."""

    tier: CascadeTier
    step: Step

    def options(self, request: Request, contexts: Contexts, spent_usd: float) -> tuple[Candidates, Judgement]:
        """Who may be tried, whether to stop is possible, and the probability of each."""
        rule = self.tier.rule(request.role)
        candidates = self.candidates(rule, request, tokens_in(contexts.features), spent_usd)
        return candidates, self.judged(rule, contexts, candidates)

    def judged(self, rule: CascadeRule, contexts: Contexts, candidates: Candidates) -> Judgement:
        """The probability of each candidate, with exploration."""
        eligible = np.array([[name in candidates.names for name in (*rule.ladder, STOP)]])
        judgement = self.judge(rule, contexts, eligible, candidates.verdict)
        share = self.tier.guard.static.exploration if rule.exploration is None else rule.exploration
        explored = with_exploration(judgement.probabilities[None], eligible, share)[0, eligible[0]]
        return replace(judgement, probabilities=explored, preferred=preferred(judgement, eligible))

    def without_log(self, request: Request, contexts: Contexts, reason: str) -> tuple[Candidates, Judgement]:
        """The ladder's next step without exploration; under a budget the cheapest model, and then the end."""
        spent = 0.0 if self.tier.guard.limits.budget_usd is None else np.inf
        rule = self.tier.rule(request.role)
        candidates = self.candidates(rule, request, tokens_in(contexts.features), spent)
        eligible = np.array([[name in candidates.names for name in (*rule.ladder, STOP)]])
        ladder = self.ladder(rule, contexts, eligible, UNLOGGED)
        probabilities = ladder.probabilities[eligible[0]]
        return candidates, replace(
            ladder, probabilities=probabilities, reason=reason, preferred=int(probabilities.argmax())
        )

    def candidates(self, rule: CascadeRule, request: Request, tokens: float, spent_usd: float) -> Candidates:
        """The models that are left and within all limits, in the order of the ladder, and to stop once there is an answer."""
        attempts, static = self.step.attempts, self.tier.guard.static
        tried = {attempt.model for attempt in attempts} | {attempt.answered_by for attempt in attempts}
        names = [name for name in rule.ladder if name not in tried] if len(attempts) < rule.most_attempts else []
        cost = {name: static.typical_cost(name, tokens) for name in rule.ladder}
        spent = sum(cost.get(a.model, 0.0) if a.cost_usd is None else a.cost_usd for a in attempts)
        affordable = [name for name in names if spent + cost[name] <= limit(rule.budget_usd)]
        verdict = "over_budget" if names and not affordable else OK
        if attempts and not affordable:
            return Candidates((STOP,), verdict)
        found = self.tier.guard.candidates(
            request, spent_usd, among=affordable or [min(names, key=cost.__getitem__)], tokens=tokens
        )
        verdict = found.verdict if verdict == OK else verdict
        if attempts:
            return Candidates((STOP,), verdict) if verdict != OK else Candidates((*found.names, STOP))
        return Candidates(found.names, verdict)

    def judge(self, rule: CascadeRule, contexts: Contexts, eligible: np.ndarray, verdict: str) -> Judgement:
        """The learned cascade's probabilities over the ladder and stopping, or the ladder's."""
        policy, problem, forced = self.tier.learned[:3]
        if verdict != OK or (policy is None and not problem):
            return self.ladder(rule, contexts, eligible, verdict)
        if policy is None:
            return replace(self.ladder(rule, contexts, eligible, "policy_unusable"), reason=problem)
        states = states_of(contexts, self.step.attempts, rule.ladder)
        try:
            probabilities = np.asarray(policy.step_probabilities(states, rule.ladder, eligible), np.float64)
        except POLICY_FAILURES as error:
            failed = self.ladder(rule, contexts, eligible, "policy_failed")
            return replace(failed, reason=f"{policy.name} failed: {error}")
        if not is_distribution(probabilities, eligible.shape[1]) or probabilities[~eligible].any():
            invalid = self.ladder(rule, contexts, eligible, "policy_invalid")
            return replace(invalid, reason=f"{policy.name} gave no probabilities")
        reason = f"{policy.name}; {forced}" if forced else policy.name
        return Judgement(policy, probabilities[0], OK, None, reason)

    def ladder(self, rule: CascadeRule, contexts: Contexts, eligible: np.ndarray, verdict: str) -> Judgement:
        policy = LadderCascade(rule.ladder)
        states = states_of(contexts, self.step.attempts, rule.ladder)
        probabilities = policy.step_probabilities(states, rule.ladder, eligible)[0]
        return Judgement(policy, probabilities, verdict, None, self.why(probabilities[-1] == 1, eligible[0]))

    def why(self, stops: bool, eligible: np.ndarray) -> str:
        if not stops:
            return "ladder: the next model" if self.step.attempts else "ladder: the first model"
        answer = self.step.attempts[taken(self.step.attempts)]
        if answer.verdict == "passed":
            return f"ladder: the answer of {answer.answered_by or answer.model} passed"
        return "ladder: nothing is left to try" if eligible.sum() == 1 else "ladder: stops"


def served_cascade(
    environment: Mapping[str, str] | None,
    rules: Mapping[str, CascadeRule],
    objective: Objective,
    before: Promoted[CascadePolicy] | None = None,
) -> Served[CascadePolicy]:
    """Returns the learned cascade that the environment asks for, if the gate has promoted it."""
    try:
        settings = Settings.read(environment)
    except SettingsError:  # which the policy of single decisions says
        return Served()
    if not settings.policy_on or settings.cascade is None:
        return Served()
    if not rules:
        return Served(problem=f"{CASCADE} is set, but models.yaml has no section cascade: add one", promoted=before)
    from sage.policies.cascades.learned_cascade import LearnedCascade
    from sage.policies.checkpoint import load_cascade

    def check(policy: CascadePolicy) -> None:
        assert isinstance(policy, LearnedCascade)
        strangers = [rule.ladder for rule in rules.values() if not set(rule.ladder) & set(policy.models)]
        if strangers:
            raise ValueError(f"it knows none of {', '.join(strangers[0])}: train it on a log of these models")

    floor = 0.0  # a cascade has no confidence, and so no floor
    checkpoint: Checkpoint[CascadePolicy] = Checkpoint(
        settings.cascade, "cascade", load_cascade, check, floor, objective, settings.forced
    )
    return checkpoint.served(before)


def preferred(judgement: Judgement, eligible: np.ndarray) -> int:
    """Among the candidates, the one that would be chosen without exploration."""
    return int(judgement.probabilities[eligible[0]].argmax())


def states_of(contexts: Contexts, attempts: Sequence[Attempt], ladder: tuple[str, ...]) -> CascadeStates:
    """One row: which models of the ladder were chosen, in which order, and what became of it."""
    order, verdict = np.zeros((2, 1, len(ladder)), np.int64)
    for number, attempt in enumerate(attempts, start=1):
        if attempt.model in ladder:
            column = ladder.index(attempt.model)
            order[0, column], verdict[0, column] = number, CODES[attempt.verdict]
    return CascadeStates(contexts, order, verdict, np.array([sum(a.cost_usd or 0.0 for a in attempts)]))
