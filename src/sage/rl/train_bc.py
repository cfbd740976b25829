"""Behaviour cloning: a policy that imitates the choices of the log, without looking at rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sage.evidence.reward import REWARD_V1, RewardWeights
from sage.evidence.routing_data import RoutingData
from sage.policies.network_policy import NetworkPolicy
from sage.policies.policy import RoutingPolicy
from sage.rl.network_training import learn_network

if TYPE_CHECKING:
    from rl_training import Dataset
    from rl_training.core import Policy

NET_ARCH = (64, 64)
UPDATES = 1_000


def train_bc(
    data: RoutingData,
    *,
    static: RoutingPolicy | None = None,
    weights: RewardWeights = REWARD_V1,
    updates: int = UPDATES,
    seed: int = 0,
) -> NetworkPolicy:
    """Returns a network policy trained by rl_training's BC; a log that one static table wrote gives that table back."""

    def learn(dataset: Dataset) -> Policy:
        from rl_training import BC

        agent = BC(dataset=dataset, seed=seed, net_arch=NET_ARCH, activation_fn="relu")
        agent.learn(total_updates=updates, progress=False)
        return agent.algorithm.policy

    return learn_network(data, learn, name="bc", static=static, weights=weights, seed=seed, updates=updates)
