"""The deciders of a cascade's steps: a learned cascade that the gate has promoted, else the ladder of models.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sage.log.cascade_steps import STOP, Attempt, Step, taken
from sage.log.records import UNLOGGED, Request
from sage.orchestrator.cascade_rules import CascadeRule
from sage.orchestrator.guard import POLICY_FAILURES, Candidates, Guard, Judgement, limit, refusal, tokens_in
from sage.orchestrator.promotion import Served
from sage.policies.cascades.cascade_ladder import LadderCascade
from sage.policies.cascades.cascade_policy import ACCEPTED, REJECTED, UNVERIFIED, CascadePolicy, CascadeStates
from sage.policies.policy import Contexts
from sage.policies.serving import OK, ServingDistribution, StepRules, step_distribution

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

    def step_rules(self, rule: CascadeRule) -> StepRules:
        """Returns a step's rules: the ladder as fallback, the exploration, and the failures after which the ladder decides."""
        share = self.guard.static.exploration if rule.exploration is None else rule.exploration
        return StepRules(LadderCascade(rule.ladder), share, POLICY_FAILURES)

    def at(self, step: Step) -> StepTier:
        return StepTier(self, step)


@dataclass(frozen=True)
class StepTier:
    """Candidates and probabilities of one step."""

    tier: CascadeTier
    step: Step

    def options(self, request: Request, contexts: Contexts, spent_usd: float) -> tuple[Candidates, Judgement]:
        """Returns the models that may be tried, and stopping if it is possible, with the probability of each."""
        rule = self.tier.rule(request.role)
        candidates = self.candidates(rule, request, tokens_in(contexts.features), spent_usd)
        return candidates, self.judged(rule, contexts, candidates)

    def judged(self, rule: CascadeRule, contexts: Contexts, candidates: Candidates) -> Judgement:
        """The learned cascade's probability of each candidate, or the ladder's; both with exploration."""
        policy, problem, _ = self.tier.learned[:3]
        asked = policy if candidates.verdict == OK else None
        rules = self.tier.step_rules(rule)
        found = self.distribution(asked, rules, rule, contexts, candidates)
        decider = asked if found.decides[0] else rules.fallback
        if asked is not None:
            return judgement_of(decider, found, str(found.verdict[0]), self.told(asked, found))
        if problem and candidates.verdict == OK:
            return judgement_of(decider, found, "policy_unusable", problem)
        return judgement_of(decider, found, candidates.verdict, self.why(found, candidates))

    def distribution(
        self,
        policy: CascadePolicy | None,
        rules: StepRules,
        rule: CascadeRule,
        contexts: Contexts,
        candidates: Candidates,
    ) -> ServingDistribution:
        """The probabilities of this step's candidates."""
        states = states_of(contexts, self.step.attempts, rule.ladder)
        eligible = np.array([[name in candidates.names for name in (*rule.ladder, STOP)]])
        found = step_distribution(policy, rules, states, rule.ladder, eligible)
        columns = np.flatnonzero(eligible[0])
        preferred = np.searchsorted(columns, found.preferred)
        return found._replace(probabilities=found.probabilities[:, columns], preferred=preferred)

    def without_log(self, request: Request, contexts: Contexts, reason: str) -> tuple[Candidates, Judgement]:
        """The ladder's next step without exploration; under a budget the cheapest model, and then the end."""
        spent = 0.0 if self.tier.guard.limits.budget_usd is None else np.inf
        rule = self.tier.rule(request.role)
        candidates = self.candidates(rule, request, tokens_in(contexts.features), spent)
        rules = self.tier.step_rules(rule)._replace(exploration=0.0)
        found = self.distribution(None, rules, rule, contexts, candidates)
        return candidates, judgement_of(rules.fallback, found, UNLOGGED, reason)

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

    def told(self, policy: CascadePolicy, found: ServingDistribution) -> str:
        """Says in a few words that the learned cascade decides, or why it does not."""
        if found.decides[0]:
            forced = self.tier.learned.forced
            return f"{policy.name}; {forced}" if forced else policy.name
        return refusal(policy.name, found)

    def why(self, found: ServingDistribution, candidates: Candidates) -> str:
        """Says in a few words what the ladder does."""
        if candidates.names[found.preferred[0]] != STOP:
            return "ladder: the next model" if self.step.attempts else "ladder: the first model"
        answer = self.step.attempts[taken(self.step.attempts)]
        if answer.verdict == "passed":
            return f"ladder: the answer of {answer.answered_by or answer.model} passed"
        return "ladder: nothing is left to try" if len(candidates.names) == 1 else "ladder: stops"


def judgement_of(policy: CascadePolicy | None, found: ServingDistribution, verdict: str, reason: str) -> Judgement:
    """The judgement of a step whose probabilities are found."""
    assert policy is not None, "the rules of a tier have a fallback"
    return Judgement(policy, found.probabilities[0], verdict, None, reason, int(found.preferred[0]))


def states_of(contexts: Contexts, attempts: Sequence[Attempt], ladder: tuple[str, ...]) -> CascadeStates:
    """One row: which models of the ladder were chosen, in which order, and what became of it."""
    order, verdict = np.zeros((2, 1, len(ladder)), np.int64)
    for number, attempt in enumerate(attempts, start=1):
        if attempt.model in ladder:
            column = ladder.index(attempt.model)
            order[0, column], verdict[0, column] = number, CODES[attempt.verdict]
    return CascadeStates(contexts, order, verdict, np.array([sum(a.cost_usd or 0.0 for a in attempts)]))
