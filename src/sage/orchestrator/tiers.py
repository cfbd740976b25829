"""The tiers above the static table: a learned policy from a checkpoint, and a bandit that learns as it serves."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np

from sage import features
from sage.orchestrator.guard import POLICY_FAILURES, is_distribution
from sage.policy import RoutingPolicy
from sage.records import ROLES, Decision, Outcome, Request
from sage.rl.bandit_store import BanditStore
from sage.rl.contextual_bandit import ContextualBandit
from sage.rl.reward import REWARD_V1, composite_reward, measured_weights
from sage.rl.ucb_bandit import UCB1


def learned_policy(checkpoint: Path, models: tuple[str, ...]) -> tuple[RoutingPolicy | None, str]:
    """Loads a checkpoint and tries it on every role; gives no policy and the reason if it cannot serve."""
    from sage.rl.checkpoint import load_policy

    try:
        policy = load_policy(checkpoint)
        contexts = features.contexts_of([Request(role=role) for role in ROLES])
        eligible = np.ones((len(ROLES), len(models)), bool)
        probabilities = np.asarray(policy.probabilities(contexts, models, eligible))
        policy.confidence(contexts, models, eligible)
    except (*POLICY_FAILURES, OSError) as error:
        text = str(error)
        return None, f"the checkpoint cannot serve: {text if str(checkpoint) in text else f'{checkpoint}: {text}'}"
    if not all(is_distribution(row[None], len(models)) for row in probabilities):
        return None, f"the checkpoint cannot serve: {checkpoint} gives no probabilities for {', '.join(models)}"
    return policy, ""


class BanditTier:
    """A bandit with its state in the log's file."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self.bandit = UCB1() if kind == "ucb1" else ContextualBandit()

    @cached_property
    def store(self) -> BanditStore:
        """Opened on first use: a router starts even where its log cannot be read."""
        return BanditStore(self.path, self.bandit)

    def current(self) -> RoutingPolicy:
        """The bandit as all processes have taught it."""
        self.store.refresh()
        return self.bandit

    def learn(self, decision: Decision, outcome: Outcome) -> None:
        """Learns from an outcome with a quality or a time-out; others say nothing of the model."""
        if outcome.quality is None and not outcome.timed_out:
            return
        self.store.learn(decision.role, decision.category, decision.model, reward_of(outcome))

    def close(self) -> None:
        if "store" in vars(self):
            self.store.file.close()


def reward_of(outcome: Outcome) -> float:
    """reward_v1 of one outcome, without the parts that were not measured."""
    quality, cost, latency = (
        np.array([np.nan if value is None else value], np.float64)
        for value in (outcome.quality, outcome.cost_usd, outcome.latency_s)
    )
    retries, timed_out = np.array([outcome.retries]), np.array([outcome.timed_out])
    weights = measured_weights(REWARD_V1, cost, latency)
    return float(composite_reward(quality, cost, latency, retries, timed_out, weights)[0])
