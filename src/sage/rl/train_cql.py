"""Conservative Q-learning on one-step decisions: values are lowered the more, the less a model was tried."""

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
UPDATES = 2_000
# In a table the penalty lowers Q by alpha (pi / mu - 1): .01 takes about .1 from a model that one row in a hundred tried.
ALPHA = 0.01


def train_cql(
    data: RoutingData,
    *,
    static: RoutingPolicy | None = None,
    weights: RewardWeights = REWARD_V1,
    updates: int = UPDATES,
    alpha: float = ALPHA,
    seed: int = 0,
) -> NetworkPolicy:
    """Returns a network policy trained by rl_training's DiscreteCQL; `alpha` is the weight of its penalty."""

    def learn(dataset: Dataset) -> Policy:
        from rl_training import DiscreteCQL

        agent = DiscreteCQL(dataset=dataset, seed=seed, net_arch=NET_ARCH, activation_fn="relu", cql_alpha=alpha)
        agent.learn(total_updates=updates, progress=False)
        return agent.algorithm.policy

    return learn_network(
        data,
        learn,
        name="cql",
        static=static,
        weights=weights,
        seed=seed,
        updates=updates,
        alpha=alpha,
    )
