"""The bandit that decides before the static table and learns as it serves, and the category inferred from a request's text."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sage.evidence.reward import REWARD_V1, RewardWeights, composite_reward
from sage.log.records import ROLES, Decision, Outcome, Request
from sage.orchestrator.guard import POLICY_FAILURES, tokens_in
from sage.orchestrator.models_file import BanditSettings, Model
from sage.orchestrator.static_table import StaticTable
from sage.policies import features
from sage.policies.policy import Contexts, RoutingPolicy
from sage.policies.serving import are_distributions

if TYPE_CHECKING:
    from sage.policies.bandits.bandit_store import BanditStore
    from sage.policies.bandits.contextual_bandit import ContextualBandit
    from sage.policies.bandits.ucb_bandit import UCB1


def try_out(policy: RoutingPolicy, models: tuple[str, ...]) -> None:
    """Asks a policy about every role; raises ValueError if it has no probabilities for these models.

    Other errors of the policy are not caught.
    """
    contexts = features.contexts_of([Request(role=role) for role in ROLES])
    eligible = np.ones((len(ROLES), len(models)), bool)
    probabilities = np.asarray(policy.probabilities(contexts, models, eligible))
    policy.confidence(contexts, models, eligible)
    if probabilities.shape != eligible.shape or not are_distributions(probabilities, eligible).all():
        raise ValueError(f"it gives no probabilities for {', '.join(models)}: train it on a log of these models")


def inferred_category(policy: RoutingPolicy | None, contexts: Contexts) -> str:
    """Returns the category that a learned policy infers from the text of a request; '' if it cannot or is not sure."""
    if policy is None:
        return ""
    from sage.policies.learned_policy import LearnedPolicy

    if not isinstance(policy, LearnedPolicy) or policy.categorizer is None:
        return ""
    try:
        return str(policy.categorizer.infer(contexts)[0])
    except POLICY_FAILURES:
        return ""


class BanditTier:
    """A bandit whose state is in the log's file."""

    def __init__(
        self, path: Path, settings: BanditSettings, static: StaticTable, weights: RewardWeights = REWARD_V1
    ) -> None:
        self.path = path
        self.static = static
        self.weights = weights
        given = {name: value for name, value in vars(settings).items() if name != "kind" and value is not None}
        self.bandit: UCB1 | ContextualBandit
        if settings.kind == "ucb1":
            from sage.policies.bandits.bandit_statistics import BanditStatistics
            from sage.policies.bandits.ucb_bandit import UCB1

            self.bandit = UCB1(statistics=BanditStatistics(**given))
        else:
            from sage.policies.bandits.contextual_bandit import ContextualBandit, ContextualBanditConfig

            self.bandit = ContextualBandit(ContextualBanditConfig(**given))

    @cached_property
    def store(self) -> BanditStore:
        """Returns the bandit's state.

        It is opened on first use, so that a router starts even if its log cannot be read.
        """
        from sage.policies.bandits.bandit_store import BanditStore

        key = None if self.weights == REWARD_V1 else f"{self.bandit.name} for {self.weights.version}"
        return BanditStore(self.path, self.bandit, key=key)

    def current(self) -> RoutingPolicy:
        """Returns the bandit, after it has read from the log's file what all processes have taught it."""
        self.store.refresh()
        return self.bandit

    def learn(self, decision: Decision, before: Outcome | None, after: Outcome | None) -> None:
        """Teaches the bandit how a decision's outcome has changed from `before` to `after`; None means no outcome yet.

        Nothing is learned until a quality or a time-out is known; later costs and corrections replace what was
        learned.
        """
        old, new = self.lesson(decision, before), self.lesson(decision, after)
        if new is not None and new != old:
            self.store.learn(decision.role, decision.category, *new, instead_of=old)

    def lesson(self, decision: Decision, outcome: Outcome | None) -> tuple[str, float] | None:
        """Returns the model that answered, and its reward.

        None as long as neither a quality nor a time-out is known.
        """
        if outcome is None or (outcome.quality is None and not outcome.timed_out):
            return None
        model = outcome.model or decision.model
        return model, reward_of(outcome, self.static.models.get(model), self.tokens(decision), self.weights)

    def tokens(self, decision: Decision) -> float:
        """Returns the number of tokens in a decision's task, as the guard counts them."""
        return tokens_in(np.array([decision.features], np.float32))

    def close(self) -> None:
        if "store" in vars(self):
            self.store.file.close()


def reward_of(outcome: Outcome, model: Model | None, input_tokens: float, weights: RewardWeights = REWARD_V1) -> float:
    """Returns the reward of one outcome; an unreported cost or latency counts as models.yaml expects it of the model.

    If models.yaml says nothing either (or `model` is None), it counts with its full weight: silence earns nothing.
    """
    cost, latency = outcome.cost_usd, outcome.latency_s
    if cost is None and model is not None:
        cost = model.cost_usd(
            input_tokens if outcome.tokens_in is None else outcome.tokens_in,
            model.output_tokens if outcome.tokens_out is None else outcome.tokens_out,
        )
    if latency is None and model is not None:
        latency = model.latency_s
    reward = composite_reward(
        np.array(0.0 if outcome.quality is None else outcome.quality),
        np.array(weights.cost_scale_usd if cost is None else cost),
        np.array(weights.latency_scale_s if latency is None else latency),
        np.array(outcome.retries),
        np.array(outcome.timed_out),
        weights,
    )
    return float(reward)
