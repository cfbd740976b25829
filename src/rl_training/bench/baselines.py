"""Published results that ours are held against, where mean, spread and number of seeds are known.

The numbers and where they stand are in the reference, section 1; which return they are of (training episodes or
evaluations) decides which of ours is compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Baseline:
    """Mean and standard deviation over the seeds of a published result."""

    mean: float
    std: float
    seeds: int
    of: Literal["training", "evaluation"]


BASELINES = {
    "ppo-cartpole": Baseline(490.04, 6.12, 3, "training"),
    "ppo-acrobot": Baseline(-86.36, 1.32, 3, "training"),
    "ppo-hopper": Baseline(2382.86, 271.74, 3, "training"),
    "ppo-halfcheetah": Baseline(1442.64, 46.03, 3, "training"),
    "dqn-cartpole": Baseline(488.69, 16.11, 3, "training"),
    "dqn-acrobot": Baseline(-91.54, 7.20, 3, "training"),
    "c51-cartpole": Baseline(481.20, 20.53, 3, "training"),
    "c51-acrobot": Baseline(-87.70, 5.52, 3, "training"),
    "pqn-cartpole": Baseline(495.13, 6.89, 3, "training"),
    "td3-halfcheetah-100k": Baseline(5514, 554, 10, "evaluation"),
    "crossq-halfcheetah-100k": Baseline(8112, 895, 10, "evaluation"),
    "sac-halfcheetah-100k": Baseline(6156, 699, 10, "evaluation"),
}
# What random actions reach or nearly reach: a seed that scores no more has learned nothing.
FLOORS = {
    "CartPole-v1": 30.0,
    "CartPoleNoVel-v1": 30.0,
    "Acrobot-v1": -490.0,
    "Pendulum-v1": -1_100.0,
    "PendulumNoVel-v1": -1_100.0,
    "MountainCarContinuous-v0": 0.0,
    "LunarLander-v3": -150.0,
    "InvertedPendulum-v5": 20.0,
    "Hopper-v5": 50.0,
    "HalfCheetah-v5": 0.0,
}
