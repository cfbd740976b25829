"""Evaluation: complete episodes on environments of its own, never touching training's random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from rl_training.core import Policy, Transition
from rl_training.envs import VectorEnv
from rl_training.runtime.collector import EnvCollector, Episode

CHUNK = 50  # steps between looks at how many episodes are done


@dataclass(frozen=True)
class EvalResult:
    """Returns and lengths of complete episodes; unpacks as (mean, std)."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    health: dict[str, float] = field(default_factory=dict)  # of value-based methods, at evaluations during training

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        return float(np.std(self.returns))

    @property
    def mean_length(self) -> float:
        return float(np.mean(self.lengths))

    def __iter__(self) -> Iterator[float]:
        return iter((self.mean, self.std))


def evaluate(
    policy: Policy,
    env: VectorEnv,
    num_episodes: int,
    *,
    seed: int,
    deterministic: bool = True,
    max_steps: int = 1_000_000,
    watch: Callable[[Transition], None] | None = None,
) -> EvalResult:
    """Runs `num_episodes` episodes, the same number on every environment so that short ones are not favoured.

    `watch` sees the [time, env] steps in order.
    """
    quota = [num_episodes // env.num_envs + (index < num_episodes % env.num_envs) for index in range(env.num_envs)]
    devices = [d for d in {env.device, next(policy.parameters()).device} if d.type == "cuda"]
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        collector = EnvCollector(env, policy, seed=seed, explore=not deterministic)
        kept: list[Episode] = []
        for _ in range(math.ceil(max_steps / CHUNK)):
            steps = collector.collect(policy, CHUNK)
            if watch is not None:
                watch(steps)
            for episode in collector.pop_episodes():
                if quota[episode.env] > 0:
                    quota[episode.env] -= 1
                    kept.append(episode)
            if not any(quota):
                break
        else:
            raise ValueError(
                f"evaluation saw only {len(kept)} of {num_episodes} episodes end within {max_steps} steps: give the "
                "environment a time limit with env.max_episode_steps"
            )
    return EvalResult(tuple(e.ret for e in kept), tuple(e.length for e in kept))
