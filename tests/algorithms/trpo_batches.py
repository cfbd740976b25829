"""TRPO on small networks: batches, states and distributions."""

import torch
from torch import Tensor

from rl_training.algorithms import TRPOAlgorithm, TRPOConfig
from rl_training.algorithms.on_policy import NetArch
from rl_training.core import (
    Box,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    RolloutBatch,
    Spec,
)
from rl_training.functional import Distribution, kl_divergence, weighted_mean
from tests.rollouts import act_out, flat

OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)
SPECS = {
    "discrete": Spec(OBS, Discrete(4)),
    "continuous": Spec(OBS, Box((2,), (-1.0,) * 2, (1.0,) * 2)),
    "choices": Spec(OBS, MultiDiscrete((2, 3))),
    "bits": Spec(OBS, MultiBinary(3)),
}
LINEAR = NetArch((), (8,))
SMALL = NetArch((16,), (16,))
SHARED = NetArch((8,), (8,), shared=(8,))


def make(spec: Spec = SPECS["discrete"], **settings: object) -> TRPOAlgorithm:
    torch.manual_seed(0)
    return TRPOAlgorithm(TRPOConfig(**{"net_arch": SMALL, "batch_size": 16, **settings}), spec)


def make_batch(algorithm: TRPOAlgorithm, *, seed: int = 0, scale: float = 1.0) -> RolloutBatch:
    """One prepared rollout of the algorithm's own policy, as 64 rows."""
    obs, next_obs = scale * torch.randn(2, 16, 4, 3, generator=torch.Generator().manual_seed(seed))
    return flat(algorithm.prepare(act_out(algorithm, obs, next_obs, seed=seed))[0])


def spread(algorithm: TRPOAlgorithm, *, seed: int, size: float = 0.5) -> None:
    """Moves the policy away from its almost uniform start."""
    gen = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in algorithm.policy.parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=gen))


def with_advantage(batch: RolloutBatch, advantage: Tensor) -> RolloutBatch:
    return batch._replace(advantage=advantage)


def state_of(algorithm: TRPOAlgorithm) -> dict[str, Tensor]:
    """Parameters, optimizer state and schedules; not the two flags."""
    state = algorithm.state_dict()
    return {name: value.clone() for name, value in state.items() if name not in ("stop", "failed")}


def moved(before: dict[str, Tensor], algorithm: TRPOAlgorithm) -> set[str]:
    after = algorithm.state_dict()
    return {name for name, value in before.items() if not torch.equal(value, after[name])}


def divergence(algorithm: TRPOAlgorithm, batch: RolloutBatch, old: Distribution) -> Tensor:
    with torch.no_grad():
        return weighted_mean(kl_divergence(old, algorithm.batch_distribution(batch)), batch.weight)


def distribution_now(algorithm: TRPOAlgorithm, batch: RolloutBatch) -> Distribution:
    with torch.no_grad():
        return algorithm.batch_distribution(batch)
