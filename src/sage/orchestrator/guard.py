"""The guard: who may be chosen, and whether the policy is sure enough; if not, the static table answers, with a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sage.log.budget_settings import TenantBudget
from sage.log.records import HELD, UNLOGGED, Request
from sage.orchestrator.models_file import GuardLimits
from sage.orchestrator.static_table import StaticTable
from sage.policies.cascades.cascade_policy import CascadePolicy
from sage.policies.features import trigger_variable
from sage.policies.policy import Contexts, RoutingPolicy
from sage.policies.serving import (
    LOW_CONFIDENCE,
    OK,
    GuardRules,
    ServingDistribution,
    serving_distribution,
)

CHARACTERS_PER_TOKEN = 4.0
PER = {"day": "per day", "month": "per month", "total": "in total"}
# A policy that was loaded may still fail on a request; the request is answered all the same.
POLICY_FAILURES = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError)


@dataclass(frozen=True)
class Candidates:
    """The models that may be chosen; the verdict is not 'ok' where a limit left none and one had to be kept."""

    names: tuple[str, ...]
    verdict: str = OK
    fallbacks: tuple[str, ...] = ()  # models that were not chosen from and may be asked if the only candidate fails


@dataclass(frozen=True)
class Judgement:
    """The policy whose probabilities are used, the probabilities, and the reason."""

    policy: RoutingPolicy | CascadePolicy
    probabilities: np.ndarray  # [candidates]
    verdict: str = OK
    confidence: float | None = None
    reason: str = ""
    preferred: int = 0  # the candidate that would be chosen without exploration
    follows: str = ""  # the id of the decision that drew the model of a held session


@dataclass(frozen=True, kw_only=True)
class Hold:
    """A session that is with a model, whose provider has its prompt in a cache."""

    model: str
    cached_tokens: float
    gain_usd: float  # what it is worth to follow the router all the same
    follows: str = ""  # the id of the decision that drew the model


@dataclass(frozen=True, kw_only=True)
class Serving:
    """Facts about a call that a server knows beside the request."""

    among: tuple[str, ...] | None = None  # models that it can ask; all if None
    tokens: float | None = None  # of the whole input, of which the task is a part
    hold: Hold | None = None
    budget: TenantBudget | None = None
    most_output_tokens: int | None = None  # that the request lets a model answer with


ANY = Serving()


class BudgetSpentError(ValueError):
    """A call that the tenant's budget has no room for; the sentence is for the caller."""


class Guard:
    """Limits and floor of models.yaml, applied to every request."""

    def __init__(self, static: StaticTable, limits: GuardLimits) -> None:
        self.static = static
        self.limits = limits
        self.rules = GuardRules(limits.confidence_floor, static, static, POLICY_FAILURES)

    def candidates(
        self,
        request: Request,
        spent_usd: float = 0.0,
        *,
        among: Sequence[str] | None = None,
        tokens: float | None = None,
        cost: Callable[[str], float] | None = None,
    ) -> Candidates:
        """Never empty: where a limit excludes every model, the one that breaks it least stays. `cost` is that of a typical
        call, unless it is given."""
        models = self.static.models
        tokens = tokens_of(request) if tokens is None else tokens
        cost = cost or (lambda name: self.static.typical_cost(name, tokens))
        names = [name for name in among or models if request.role in models[name].roles]
        names, long = kept(names, lambda n: models[n].max_context or np.inf, at_least=tokens)
        names, slow = kept(names, lambda n: -(models[n].latency_s or 0.0), at_least=-limit(self.limits.max_latency_s))
        left = limit(self.limits.budget_usd) - spent_usd
        names, poor = kept(names, lambda name: -cost(name), at_least=-left)
        broken = {"context_too_long": long, "over_latency": slow, "over_budget": poor}
        return Candidates(tuple(names), next((verdict for verdict, is_broken in broken.items() if is_broken), OK))

    def judge(self, policy: RoutingPolicy | None, contexts: Contexts, candidates: Candidates) -> Judgement:
        """The policy's probabilities if it is sure enough, else those of the static table; both with the exploration."""
        if candidates.verdict != OK:
            return self.fall_back(contexts, candidates, candidates.verdict, "a limit left no choice")
        if policy is None:
            return self.fall_back(contexts, candidates, OK, self.static.why(contexts))
        found = self.distribution(policy, contexts, candidates)
        confidence = float(found.confidence[0])
        if found.decides[0]:
            return judgement_of(policy, found, OK, f"{policy.name} is {confidence:.2f} sure", min(confidence, 1.0))
        verdict = str(found.verdict[0])
        known = confidence if verdict == LOW_CONFIDENCE and np.isfinite(confidence) else None
        return judgement_of(self.static, found, verdict, self.why_not(policy, found, verdict), known)

    def distribution(
        self, policy: RoutingPolicy | None, contexts: Contexts, candidates: Candidates, *, explore: bool = True
    ) -> ServingDistribution:
        """The probabilities of one request among its candidates."""
        rules = self.rules if explore else self.rules._replace(exploration=None)
        eligible = np.ones((1, len(candidates.names)), bool)
        return serving_distribution(policy, rules, contexts, candidates.names, eligible)

    def why_not(self, policy: RoutingPolicy, found: ServingDistribution, verdict: str) -> str:
        """Says in a sentence why the policy does not decide."""
        if verdict == LOW_CONFIDENCE:
            floor = self.limits.confidence_floor
            return f"{policy.name} is {found.confidence[0]:.2f} sure, below the floor {floor:.2f}"
        return refusal(policy.name, found)

    def affordable(self, request: Request, serving: Serving, left_usd: float | None) -> tuple[str, ...] | None:
        """The models that a tenant's budget can pay whatever they answer; all, as None, where there is no budget. Where
        nobody knows what is left of it, only models that cost nothing."""
        if serving.budget is None:
            return serving.among
        models = self.static.models
        names = [name for name in serving.among or models if request.role in models[name].roles]
        fitting = tuple(name for name in names if self.most_usd(name, request, serving) <= (left_usd or 0.0))
        if not fitting and left_usd is None:
            raise BudgetSpentError("the log cannot be written, and with it no call under a budget: try again later")
        if not fitting or (len(fitting) < len(names) and serving.budget.at_end == "refuse"):
            whole = f"{serving.budget.usd:g} USD {PER[serving.budget.per]}"
            raise BudgetSpentError(
                f"the budget of {whole} has {max(left_usd or 0.0, 0.0):.4g} USD left, which this call may exceed: limit the "
                "answer's tokens, wait for the next period, or ask for a larger budget"
            )
        return fitting

    def most_usd(self, name: str, request: Request, serving: Serving) -> float:
        """Returns the most USD that a call can cost, to be reserved; a token has at least one character."""
        tokens = tokens_of(request) if serving.tokens is None else serving.tokens
        return self.static.models[name].most_usd(tokens * CHARACTERS_PER_TOKEN, serving.most_output_tokens)

    def reserved_usd(self, name: str, request: Request, serving: Serving, tokens: float) -> float | None:
        """Returns the USD that a budget counts for a call until its cost is reported; None without a budget."""
        if serving.budget is not None:
            return self.most_usd(name, request, serving)
        if self.limits.budget_usd is None:
            return None
        return self.static.typical_cost(name, tokens if serving.tokens is None else serving.tokens)

    def held(self, judgement: Judgement, candidates: Candidates, hold: Hold | None) -> tuple[Candidates, Judgement]:
        """The session's model as the only candidate where its cache is worth more than the choice that was judged; else as
        judged. Where only one model could be chosen, nothing is held: it would be taken without the session, too."""
        if hold is None or candidates.verdict != OK or hold.model not in candidates.names or len(candidates.names) == 1:
            return candidates, judgement
        model, tokens = self.static.models[hold.model], hold.cached_tokens
        worth = model.cost_usd(tokens, 0) - model.cost_usd(tokens, 0, cached_tokens=tokens)
        other = candidates.names[judgement.preferred]
        cheaper = self.static.typical_cost(hold.model, tokens) - self.static.typical_cost(other, tokens)
        gain = hold.gain_usd + max(cheaper, 0.0)
        if worth <= gain:
            return candidates, judgement
        why = f"the session stays with {hold.model}: its cache is worth {worth:.2g} USD, {other} at most {gain:.2g}"
        others = tuple(name for name in candidates.names if name != hold.model)
        stays = replace(
            judgement, probabilities=np.ones(1), verdict=HELD, reason=why, preferred=0, follows=hold.follows
        )
        return Candidates((hold.model,), fallbacks=others), stays

    def fall_back(
        self, contexts: Contexts, candidates: Candidates, verdict: str, reason: str, confidence: float | None = None
    ) -> Judgement:
        """The static table's probabilities, with the exploration."""
        return judgement_of(self.static, self.distribution(None, contexts, candidates), verdict, reason, confidence)

    def without_log(
        self, request: Request, contexts: Contexts, reason: str, serving: Serving = ANY
    ) -> tuple[Candidates, Judgement]:
        """The table's choice without exploration, from which nobody could learn; under a budget the cheapest model, as
        nobody knows what is left of it. Of a tenant's budget nothing is spent then."""
        serving = replace(serving, among=self.affordable(request, serving, None))
        spent = 0.0 if self.limits.budget_usd is None else np.inf
        candidates = self.candidates(request, spent, among=serving.among, tokens=serving.tokens)
        found = self.distribution(None, contexts, candidates, explore=False)
        return candidates, judgement_of(self.static, found, UNLOGGED, reason)


def judgement_of(
    policy: RoutingPolicy, found: ServingDistribution, verdict: str, reason: str, confidence: float | None = None
) -> Judgement:
    """The judgement of a single request whose probabilities are found."""
    return Judgement(policy, found.probabilities[0], verdict, confidence, reason, int(found.preferred[0]))


def refusal(name: str, found: ServingDistribution) -> str:
    """Says in a sentence what is wrong with the answer of a policy, single or of cascades."""
    error = None if found.asked is None else found.asked.error
    return f"{name} gave no probabilities" if error is None else f"{name} failed: {error}"


def tokens_of(request: Request) -> float:
    return len(request.task) / CHARACTERS_PER_TOKEN


def tokens_in(features: np.ndarray) -> float:
    """Returns the estimated number of tokens of one row's task, from its features."""
    return float(trigger_variable("task_characters", features)[0]) / CHARACTERS_PER_TOKEN


def kept(names: list[str], measure: Callable[[str], float], at_least: float) -> tuple[list[str], bool]:
    """The models that reach the limit, or the best one and True where none does."""
    passing = [name for name in names if measure(name) >= at_least]
    return (passing, False) if passing else ([max(names, key=measure)], True)


def limit(value: float | None) -> float:
    return np.inf if value is None else value
