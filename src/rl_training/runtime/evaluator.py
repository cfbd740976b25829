"""Evaluation: complete episodes on environments of its own, never touching training's random numbers."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Act, Policy, Transition, Tree, UniformPolicy
from rl_training.core.policy import Memory
from rl_training.envs import VectorEnv
from rl_training.envs.episode_columns import SUCCESS
from rl_training.runtime.collector import Episode
from rl_training.runtime.finite import check_steps
from rl_training.runtime.make_collector import make_collector

CHUNK = 50  # steps between looks at how many episodes are done
MAX_STEPS = 30_000  # of one episode: more than Atari's 108,000 frames
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EvalResult:
    """The episode returns, lengths and `info` columns of an evaluation; unpacks as (mean, std) of the returns.

    `health` holds metrics of value learning by name; it is empty outside of training.
    """

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    health: dict[str, float] = field(default_factory=dict)  # of value-based methods, at evaluations during training
    columns: dict[str, tuple[float | None, ...]] = field(default_factory=dict)  # what `info` said of each episode
    protocol: dict[str, object] = field(default_factory=dict)  # what the returns depend on besides the policy

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        return float(np.std(self.returns))

    @property
    def mean_length(self) -> float:
        return float(np.mean(self.lengths))

    @property
    def column_means(self) -> dict[str, float]:
        """The mean of every `info` column over the episodes that gave a value, by name."""
        given = {name: [value for value in column if value is not None] for name, column in self.columns.items()}
        return {name: float(np.mean(values)) for name, values in given.items() if values}

    @property
    def success_rate(self) -> float | None:
        """The share of episodes that ended with `is_success` (0 to 1); None if the environment never gives it."""
        return self.column_means.get(SUCCESS)

    @property
    def success_interval(self) -> tuple[float, float] | None:
        """The 95 % Wilson interval (low, high) of the success rate; None if there is no success rate."""
        given = [value for value in self.columns.get(SUCCESS, ()) if value is not None]
        return wilson_interval(sum(given) / len(given), len(given)) if given else None

    def __iter__(self) -> Iterator[float]:
        return iter((self.mean, self.std))


def evaluate(
    policy: Policy,
    env: VectorEnv,
    num_episodes: int,
    *,
    seed: int,
    deterministic: bool = True,
    max_steps: int = MAX_STEPS,
    epsilon: float = 0.0,
    watch: Callable[[Transition], None] | None = None,
) -> EvalResult:
    """Runs `num_episodes` complete episodes, spread evenly over the environments so that short ones are not favoured.

    Raises ValueError if an episode takes more than `max_steps` steps, and NonFiniteError if an observation or reward is
    not finite. Random numbers come from `seed`, and the process's own are restored. A share `epsilon` of the actions is
    uniformly random. `watch` is called with every chunk of [time, env] steps, in order.
    """
    policy = RandomAtTimes(policy, epsilon) if epsilon else policy
    quota = [num_episodes // env.num_envs + (index < num_episodes % env.num_envs) for index in range(env.num_envs)]
    devices = [d for d in {env.device, policy.device} if d.type == "cuda"]
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        collector = make_collector(env, policy, seed=seed, explore=not deterministic, mode="record")
        kept: list[Episode] = []
        for chunk in itertools.count():
            steps = collector.collect(policy, CHUNK)
            check_steps(collector.latest, chunk * CHUNK * env.num_envs, " of the evaluation")
            if watch is not None:
                watch(steps)
            for episode in collector.pop_episodes():
                if quota[episode.env] > 0:
                    quota[episode.env] -= 1
                    kept.append(episode)
            if not any(quota):
                break
            check_length(collector.lengths * (np.array(quota) > 0), max_steps, f"{len(kept)} of {num_episodes}", chunk)
    names = dict.fromkeys(name for episode in kept for name in episode.columns)
    columns = {name: tuple(e.columns.get(name) for e in kept) for name in names}
    return EvalResult(tuple(e.ret for e in kept), tuple(e.length for e in kept), columns=columns)


class RandomAtTimes(Policy):
    """A policy that takes a uniformly random allowed action with the chance `epsilon`, else that of another policy."""

    def __init__(self, policy: Policy, epsilon: float) -> None:
        super().__init__(policy.spec)
        self.policy, self.random, self.epsilon = policy, UniformPolicy(policy.spec), epsilon

    @property
    def device(self) -> torch.device:
        return self.policy.device

    def initial_memory(self, num: int) -> Memory:
        return self.policy.initial_memory(num)

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        act = self.policy.act(obs, memory, first, explore=explore)
        drawn = self.random.act(obs).action
        chosen = torch.rand(len(drawn), device=drawn.device) < self.epsilon
        return act._replace(action=torch.where(chosen, drawn, act.action))


def wilson_interval(rate: float, num: int, level: float = 0.95) -> tuple[float, float]:
    """Returns the interval (low, high) of a probability that `num` trials estimated as `rate` (Wilson, 1927)."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    middle = (rate + z * z / (2 * num)) / (1 + z * z / num)
    half = z / (1 + z * z / num) * math.sqrt(rate * (1 - rate) / num + z * z / (4 * num * num))
    return max(0.0, middle - half), min(1.0, middle + half)


def check_length(lengths: np.ndarray, max_steps: int, done: str, chunk: int) -> None:
    """Raises ValueError if an open episode is longer than `max_steps`; logs a warning at about a third of that.

    `lengths` [env] are the steps of open episodes; `done` is text such as "3 of 10", the finished ones; `chunk` counts
    the chunks of 50 steps before this one. The warning is for an environment's first episode only.
    """
    longest = int(lengths.max())
    advice = "cut episodes with env.max_episode_steps, or raise evaluation.max_steps"
    if longest > max_steps:
        raise ValueError(
            f"evaluation gave up: an episode of environment {int(lengths.argmax())} has taken {longest} steps without an end, "
            f"and {done} episodes are done: {advice}"
        )
    if (chunk + 1) * CHUNK == max_steps // 3 // CHUNK * CHUNK and longest == (chunk + 1) * CHUNK:
        log.warning(
            f"an evaluation has taken {longest} steps and no end of its first episode; it gives up after "
            f"{max_steps}: {advice}"
        )
