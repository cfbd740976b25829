"""Logged decisions, made again from the log: who decided and why, bit for bit, and what others would have done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sage.evidence.routing_data import kept_texts
from sage.log.cascade_steps import STOP
from sage.log.records import HELD, Decision, Request
from sage.log.redaction import REMOVED
from sage.orchestrator.cascade_tier import CascadeTier
from sage.orchestrator.guard import OK, Candidates, Guard, Judgement
from sage.orchestrator.models_file import ModelsFile
from sage.orchestrator.promotion import Served
from sage.orchestrator.static_table import StaticTable
from sage.policies import features
from sage.policies.bandits.contextual_bandit import ContextualBandit
from sage.policies.bandits.ucb_bandit import UCB1
from sage.policies.cascades.cascade_ladder import LadderCascade
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.policies.policy import Contexts, RoutingPolicy
from sage.words import hash_words

BANDITS = (UCB1.name, ContextualBandit.name)
LIMITS = ("context_too_long", "over_latency", "over_budget")
OF_THE_PROBE_COST = [features.COLUMN[name] for name in ("probe_cost_known", "log_probe_cost")]
Policy = RoutingPolicy | LearnedCascade


class NotRepeatableError(ValueError):
    """Error about a decision that cannot be made again; the message says what is missing."""


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """The probabilities of another policy for the same request; None if it cannot judge such a decision."""

    name: str
    probabilities: tuple[float, ...] | None
    note: str


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A logged decision, made again, with its differences from the log and the alternatives of other policies."""

    decision: Decision
    tier: str  # who decided
    seen: str  # where the features are from
    repeated: tuple[float, ...] | None
    differences: tuple[str, ...]  # from the log; none if the decision repeats bit for bit
    alternatives: tuple[Alternative, ...]


def explain(decision: Decision, table: ModelsFile, policies: Sequence[Policy] = ()) -> Explanation:
    """Makes a logged decision again and returns how it differs from the log, and what other policies would have done.

    `table` is the models.yaml that served; `policies` may have decided it, or are those that you want to compare.
    """
    guard = Guard(StaticTable.from_file(table), table.guard)
    seen, differences = compare_features(decision)
    again = None
    try:
        again = repeat_judgement(decision, table, guard, policies)
        differences += differences_from_log(decision, again, guard)
    except NotRepeatableError as error:
        differences.append(str(error))
    return Explanation(
        decision=decision,
        tier=tier_of(decision),
        seen=seen,
        repeated=None if again is None else tuple(again.probabilities.tolist()),
        differences=tuple(differences),
        alternatives=tuple(alternative(decision, policy, guard, table) for policy in (guard.static, *policies)),
    )


def contexts_of(decision: Decision) -> Contexts:
    """Returns a logged decision's context (one row) as the policy saw it, as far as the log has it.

    Hashed words say as much as the text to policies that read it.
    """
    return Contexts(
        role=np.array([decision.role]),
        category=np.array([decision.category]),
        features=np.array([decision.features], np.float32),
        task_id=np.array([decision.task_id]),
        text=kept_texts([decision]),
    )


def compare_features(decision: Decision) -> tuple[str, list[str]]:
    """Returns where the features are from, and sentences about differences between the stored text's and the log's."""
    if decision.features_version != features.VERSION:
        return "the log", [f"features have version {decision.features_version}, and this sage makes {features.VERSION}"]
    if decision.prompt is None or (decision.cascade is not None and decision.cascade.number):
        return "the log, which does not store the text", []
    if REMOVED in decision.prompt:
        return "the log, as a secret was removed from the stored text", []
    logged = np.array(decision.features, np.float32)
    failures, calls, verified = (
        float(features.trigger_variable(name, logged[None])[0])
        for name in ("past_failures", "probe_calls", "probe_verified")
    )
    request = Request(
        role=decision.role,
        task=decision.prompt,
        category="" if decision.category_inferred else decision.category,
        past_failures=int(failures),
        probe_calls=None if np.isnan(calls) else int(calls),
        probe_verified=None if np.isnan(verified) else bool(verified),
    )
    again = features.featurize(request)
    again[OF_THE_PROBE_COST] = logged[OF_THE_PROBE_COST]  # which is not stored but as these features
    differing = [name for name, old, new in zip(features.NAMES, logged, again, strict=True) if old != new]
    if decision.words is not None and tuple(hash_words(decision.prompt).tolist()) != decision.words:
        differing.append("words")
    return "the stored text", [f"of the stored text, {', '.join(differing)} differ from the log"] if differing else []


def repeat_judgement(decision: Decision, table: ModelsFile, guard: Guard, policies: Sequence[Policy]) -> Judgement:
    """Returns the judgement that the logged probabilities came from, made again.

    Raises NotRepeatableError if a model, a cascade or the policy is not there.
    """
    gone = [name for name in decision.candidates if name not in table.models and name != STOP]
    if gone:
        raise NotRepeatableError(
            f"models.yaml has no {', '.join(gone)} any more: give the one that served with --models"
        )
    if decision.held:
        certain = np.array([float(name == decision.model) for name in decision.candidates])
        return Judgement(guard.static, certain, HELD, decision.confidence, decision.reason)
    contexts = contexts_of(decision)
    candidates = Candidates(decision.candidates, decision.verdict if decision.verdict in LIMITS else OK)
    policy = None
    if decision.policy not in (guard.static.name, LadderCascade.name):
        policy = next((p for p in policies if (p.name, p.version) == (decision.policy, decision.policy_version)), None)
        if policy is None:
            raise NotRepeatableError(why_not_repeatable(decision))
    if decision.cascade is not None:
        return cascade_step(decision, table, guard, contexts, candidates, policy)
    if policy is None and decision.verdict not in (OK, *LIMITS):
        return guard.fall_back(contexts, candidates, decision.verdict, decision.reason, decision.confidence)
    return guard.judge(policy, contexts, candidates)  # pyrefly: ignore (a cascade is only found for its steps)


def cascade_step(
    decision: Decision,
    table: ModelsFile,
    guard: Guard,
    contexts: Contexts,
    candidates: Candidates,
    policy: Policy | None,
) -> Judgement:
    if decision.role not in table.cascade:
        raise NotRepeatableError(f"models.yaml has no cascade for {decision.role} any more")
    assert decision.cascade is not None
    learned = Served(policy if isinstance(policy, LearnedCascade) else None)
    tier = CascadeTier(table.cascade, guard, learned=learned).at(decision.cascade)
    return tier.judged(tier.tier.rule(decision.role), contexts, candidates)


def why_not_repeatable(decision: Decision) -> str:
    if decision.policy in BANDITS:
        return f"{decision.policy} learns as it serves, and the log does not store what it knew then"
    named = f"{decision.policy} (version {decision.policy_version})"
    return f"{named} decided it and is not among the policies: give its checkpoint with --policy"


def differences_from_log(decision: Decision, again: Judgement, guard: Guard) -> list[str]:
    """Returns sentences about the differences between a repeated judgement and the log; none if they are equal."""
    found = []
    expected = "policy_unusable" if decision.verdict == "policy_unusable" else again.verdict
    if decision.verdict != expected:
        found.append(f"the guard says {again.verdict}: {again.reason}")
    if again.policy.name == decision.policy and again.policy.version != decision.policy_version:
        found.append(
            f"{decision.policy} has version {again.policy.version}, and {decision.policy_version} decided: models.yaml has changed"
        )
    if tuple(again.probabilities.tolist()) != decision.probabilities:
        worst = float(np.abs(again.probabilities - np.array(decision.probabilities)).max())
        found.append(f"probabilities differ by up to {worst:.3g}")
    if again.confidence is not None and again.confidence != decision.confidence:
        found.append(f"the confidence is {again.confidence!r}, in the log {decision.confidence!r}")
    if decision.shadow_probabilities is not None:
        given = guard.static.shadows(contexts_of(decision), decision.candidates)
        shadows = None if given is None else tuple(np.minimum(again.probabilities @ given, 1.0).tolist())
        if shadows != decision.shadow_probabilities:
            found.append("the probabilities of a shadow differ")
    return found


def tier_of(decision: Decision) -> str:
    if decision.held:
        return f"the session's cache{f', after decision {decision.follows} drew it' if decision.follows else ''}"
    if decision.policy == StaticTable.name:
        return "static table" if decision.verdict == OK else f"static table, as the guard says {decision.verdict}"
    if decision.policy == LadderCascade.name:
        return "ladder of the cascade"
    if decision.policy in BANDITS:
        return "bandit"
    return "learned cascade" if decision.cascade is not None else "learned policy"


def alternative(decision: Decision, policy: Policy, guard: Guard, table: ModelsFile) -> Alternative:
    """Returns the probabilities that the router would have drawn from if this policy served.

    The guard's floor and the exploration are included.
    """
    verdict = decision.verdict if decision.verdict in LIMITS else OK
    alone = replace(decision, verdict=verdict, policy=policy.name, policy_version=policy.version)
    if isinstance(policy, LearnedCascade) != (decision.cascade is not None) and policy is not guard.static:
        kind = "a cascade" if isinstance(policy, LearnedCascade) else "a policy of single decisions"
        return Alternative(name=policy.name, probabilities=None, note=f"{kind} does not make such a decision")
    try:
        judgement = repeat_judgement(alone, table, guard, [policy])
    except NotRepeatableError as error:
        return Alternative(name=policy.name, probabilities=None, note=str(error))
    probabilities = tuple(judgement.probabilities.tolist())
    ladder = policy is guard.static and decision.cascade is not None
    return Alternative(
        name=LadderCascade.name if ladder else policy.name, probabilities=probabilities, note=judgement.reason
    )
