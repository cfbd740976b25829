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
    """Returns a collector for the environments, of the kind for `env.stepped_as`, and resets them with `seed`.

    Raises ValueError if the policy does not give one of the `columns`.
    """
    return COLLECTORS[env.stepped_as](env, policy, seed=seed, explore=explore, mode=mode, columns=columns)
