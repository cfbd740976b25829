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
    """Builds a collector for an environment, of the kind that `env.stepped_as` names, and resets the environment.

    `seed` is that of the reset; `columns` are values that the policy must give with every step. Raises ValueError if it
    does not give one of them.
    """
    return COLLECTORS[env.stepped_as](env, policy, seed=seed, explore=explore, mode=mode, columns=columns)
