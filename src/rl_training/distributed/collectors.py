"""Chooses who collects."""

from __future__ import annotations

from collections.abc import Sequence

from rl_training.core import Column, Policy
from rl_training.distributed.pipelined_collector import PipelinedCollector
from rl_training.distributed.sampled_collector import SampledCollector
from rl_training.distributed.sampled_env import SampledEnv
from rl_training.envs import VectorEnv
from rl_training.runtime import Collector, collector_for


def collector_of(env: VectorEnv, policy: Policy, *, seed: int, columns: Sequence[Column] = ()) -> Collector:
    """The collector that suits the environments, wherever they are stepped."""
    if isinstance(env, SampledEnv):
        kind = PipelinedCollector if env.sampling.lag else SampledCollector
        return kind(env, policy, seed=seed, columns=columns)
    return collector_for(env, policy, seed=seed, columns=columns)
