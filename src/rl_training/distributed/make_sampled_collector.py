"""Construction of the collector for environments that samplers step, waiting or running ahead."""

from __future__ import annotations

from collections.abc import Sequence

from rl_training.core import Column, Policy
from rl_training.distributed.pipelined_collector import PipelinedCollector
from rl_training.distributed.sampled_collector import SampledCollector
from rl_training.distributed.sampled_env import SampledEnv
from rl_training.runtime.make_collector import COLLECTORS
from rl_training.runtime.worth_compiling import CompileMode


def make_sampled_collector(
    env: SampledEnv,
    policy: Policy,
    *,
    seed: int,
    explore: bool = True,
    mode: CompileMode = False,
    columns: Sequence[Column] = (),
) -> SampledCollector:
    """Starts the sampler processes of `env`, and returns a collector of the steps that they take.

    With `sampling.lag`, the samplers work ahead of the learner; without, the learner waits for them.
    """
    assert explore, "samplers collect for training"
    kind = PipelinedCollector if env.sampling.lag else SampledCollector
    collector = kind(env, policy, seed=seed, columns=columns)
    collector.execute(mode)
    return collector


COLLECTORS["samplers"] = make_sampled_collector
