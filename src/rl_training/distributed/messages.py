"""The messages between a learner and its samplers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from rl_training.core import Column, Policy, Transition, Tree
from rl_training.core.policy import Memory
from rl_training.envs import EnvConfig
from rl_training.envs.episode_columns import EpisodeColumns
from rl_training.envs.factory import EnvFactory
from rl_training.runtime.worth_compiling import CompileMode


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The arguments that a sampler is built from: its environments, the policy, and the columns that it records."""

    index: int
    rows: range  # of the run's environments, those that it steps
    num_envs: int  # of the run
    env: EnvConfig
    factory: EnvFactory | None  # what env.id names, where that is known to the learner's process only
    registered: Any  # gymnasium's own record of env.id, or None
    policy: Policy
    columns: tuple[Column, ...]


class Carry(NamedTuple):
    """The observations, policy memory and flags of episode starts before the next step; tensors [env, ...]."""

    obs: Tree
    memory: Memory
    first: Tensor


class SamplingMode(NamedTuple):
    """The settings of the steps to take: their number, random or by policy, compile mode, threads, precision."""

    num_steps: int
    uniform: bool  # by a policy that acts at random, not by the one whose weights are sent
    mode: CompileMode
    threads: int
    precision: str
    version: int = 0  # of the policy: how many fragments had begun when its weights were sent


class Request(NamedTuple):
    """A request for steps, equal for all samplers: how to take them, the policy's weights, and torch's random state."""

    sampling: SamplingMode
    weights: tuple[Tensor, ...]  # of the policy: parameters, then buffers; () where it acts at random
    random: Tensor  # where torch's random numbers stand


def weights_of(policy: Policy) -> list[Tensor]:
    """Returns a policy's parameters, then its buffers: the policy's own tensors, not copies."""
    return [*policy.parameters(), *policy.buffers()]


class Block(NamedTuple):
    """One sampler's answer to a request: steps, [time, env], and observations, memory and random state after them."""

    steps: Transition  # [time, own environments]
    carry: Carry
    random: Tensor  # where torch's random numbers stand afterwards
    columns: dict[int, EpisodeColumns]  # by step: what was said of episodes that ended
    version: int  # of the policy that took them
    starts: dict[int, dict]  # by number of the environment: how its episode began, where an earlier one has ended
