"""The choice of a collector by the way in which environments are stepped."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rl_training.core import Column, Policy
from rl_training.envs import VectorEnv
from rl_training.runtime.collector import EnvCollector, LocalCollector
from rl_training.runtime.native_collector import NativeCollector
from rl_training.runtime.worth_compiling import CompileMode

COLLECTORS: dict[str, Callable[..., LocalCollector]] = {
    "host": EnvCollector,
    "tensors": NativeCollector,
}  # samplers add theirs


def make_collector(
    env: VectorEnv,
    policy: Policy,
    *,
    seed: int,
    explore: bool = True,
    mode: CompileMode = False,
    columns: Sequence[Column] = (),
) -> LocalCollector:
    """Returns the collector that suits an environment: native, or for environments on the host."""
    return COLLECTORS[env.stepped_as](env, policy, seed=seed, explore=explore, mode=mode, columns=columns)
