"""Policies that play a task's environment against real execution: baselines, and agents that rl_training trained."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import torch

from sage.grading.task import Task
from sage.sandbox import Backend, SandboxError
from sage.sim.environment import baselines, rules
from sage.sim.environment.dynamics import SoftwareTaskDynamics
from sage.sim.environment.growing import begun
from sage.sim.environment.live import LiveDynamics, Policy, played
from sage.sim.environment.models import Models, ModelTiers
from sage.sim.environment.suspects import NUM_KINDS
from sage.sim.policies import Named, RepairAttempt, SkippedError

if TYPE_CHECKING:
    from rl_training.api import Agent

OCHIAI = baselines.Heuristic(tuple(range(NUM_KINDS)), trials=16, ladder=(), escalate=True)
ONE_AT_A_TIME = Lock()  # agents draw from torch's own generator, which all threads share
Maker = Callable[[torch.Generator], Policy]  # a policy for one episode; the generator is its chance


class Choosing:
    """A policy for single observations, made of one for batches of tensors."""

    def __init__(self, choose: baselines.Chooser) -> None:
        self.choose = choose

    def predict(self, obs: Mapping[str, np.ndarray], mask: np.ndarray) -> int:
        return int(self.choose({name: torch.from_numpy(value).unsqueeze(0) for name, value in obs.items()}))


class Sampled:
    """A policy for single observations that draws its actions from a trained agent, with a generator of its own."""

    def __init__(self, agent: Agent, generator: torch.Generator) -> None:
        self.agent, self.generator = agent, generator

    def predict(self, obs: Mapping[str, np.ndarray], mask: np.ndarray) -> int:
        seed = int(torch.randint(2**62, (1,), generator=self.generator))
        with ONE_AT_A_TIME, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            rows = {name: torch.from_numpy(np.asarray(value)).unsqueeze(0) for name, value in obs.items()}
            return int(self.agent.algorithm.policy.decide(rows, explore=True).action)


BASELINES: dict[str, Maker] = {
    "random": lambda generator: Choosing(baselines.chance(generator)),
    "ochiai": lambda _: Choosing(OCHIAI),
}


def learned(path: Path) -> Maker:
    """Returns a maker of policies from a checkpoint or a run directory."""
    from sage.sim.training import load_policy

    agent = load_policy(path)
    return lambda generator: Sampled(agent, generator)


def identity(path: Path) -> str:
    """Returns the SHA-256 of a checkpoint's manifest, which lists its contents."""
    from rl_training.experiment import find_checkpoint
    from rl_training.experiment.checkpoint import MANIFEST

    return hashlib.sha256((find_checkpoint(path) / MANIFEST).read_bytes()).hexdigest()


def playing(make: Maker, seed: int, models: Models | None = None, **facts: object) -> Named:
    """Returns a policy that plays one episode of each task; chance depends on the seed and the task, not on the order
    of tasks. It raises SkippedError for a task in which nothing can be tried."""
    asked = models or ModelTiers()

    def solve(backend: Backend, task: Task) -> RepairAttempt:
        try:
            growth = begun(backend, task)
        except SandboxError as error:
            raise SkippedError("untraceable") from error
        if growth is None:
            raise SkippedError("nothing to try")
        uniform = torch.rand(1, SoftwareTaskDynamics.num_random, generator=generator_of(f"{seed} {task.id}"))
        policy = make(generator_of(f"policy {seed} {task.id}"))
        episode = played(policy, LiveDynamics(growth, asked), uniform)
        escalated = episode.ended == "escalate"
        files = task.repaired() if escalated else growth.files(episode.node)
        handed_in = episode.solved if escalated else episode.ended == "submit"
        return RepairAttempt(
            files=files if handed_in else None,
            ended=episode.ended,
            cost=round(episode.spent, 3),
            actions=tuple(map(rules.action_name, episode.actions)),
            solved_in_environment=episode.solved,
        )

    return Named(solve, {"seed": seed, "models": asked.facts(), **facts})


def generator_of(text: str) -> torch.Generator:
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1)
