"""A trial, on throwaway copies, of whether environments continue from a saved state as if without a pause."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Dict, Space, Tree
from rl_training.envs.check import sample
from rl_training.envs.failure import EnvFailedError
from rl_training.envs.make import EnvConfig
from rl_training.envs.native import NativeEnv
from rl_training.envs.vector import EnvStep, VectorEnv, same_trees

EPISODE = 16  # steps after which an episode is cut: some environments differ only after a few resets
BEFORE = 59  # steps before the state is saved
AFTER = 31  # steps that are compared; both primes, so that what counts modulo something is rarely missed
ROUNDS = 2  # how often the state is saved
SECONDS = 1.5  # for each part: of slow environments fewer steps are seen
SEED = 20
OURS = "rl_training."
COMPARED = {  # fields of a step, and what people call them
    "reward": "reward",
    "terminated": "terminated",
    "truncated": "truncated",
    "next_obs": "observation",
    "obs": "observation",
}


def needs_probe(env: VectorEnv) -> bool:
    """Returns True if continuing `env` from a saved state must be tried, because it depends on code of others."""
    if env.proven:
        return False
    rules = env.dynamics if isinstance(env, NativeEnv) else env
    return env.state_kind == "replayed" or (env.state_kind == "exact" and not type(rules).__module__.startswith(OURS))


def probe(config: EnvConfig, build: Callable[[EnvConfig], VectorEnv]) -> str | None:
    """Returns what differs between an environment and a copy that continues from its saved state; None if nothing does.

    The answer is "reward", "terminated", "truncated" or "observation". Both are made by `build(config)` with one
    environment, take random actions for some seconds and are closed; the random states of this process stay as they
    were. Raises an EnvFailedError if one calls `sys.exit`.
    """
    limit = min(EPISODE, config.max_episode_steps or EPISODE) if config.can.time_limit else None
    short = dataclasses.replace(config, n_envs=1, max_episode_steps=limit)
    generator = torch.Generator().manual_seed(SEED)
    opened: list[VectorEnv] = []
    with kept_random_numbers():
        try:
            opened.append(going := build(short))
            obs = going.reset(SEED)
            for _ in until(time.monotonic() + SECONDS, BEFORE):
                obs = going.step(draw(going.spec.action, obs, generator)).obs
            for _ in range(ROUNDS):
                opened.append(fresh := build(short))
                if fresh.set_state(going.get_state()) is not None:
                    return "observation"
                for _ in until(time.monotonic() + SECONDS, AFTER):
                    action = draw(going.spec.action, obs, generator)
                    ours, theirs = going.step(action), fresh.step(action)
                    different = first_difference(ours, theirs)
                    if different is not None:
                        return different
                    obs = ours.obs
        except SystemExit as error:
            raise EnvFailedError(
                f"env.id={config.id!r} called sys.exit({error.code!r}) in its first steps: let it end episodes instead of the "
                "program"
            ) from error
        finally:
            for env in opened:
                env.close()
    return None


def first_difference(ours: EnvStep, theirs: EnvStep) -> str | None:
    pairs = ((name, getattr(ours, name), getattr(theirs, name)) for name in COMPARED)
    return next((COMPARED[name] for name, a, b in pairs if not same_trees(a, b)), None)


def until(deadline: float, num: int) -> Iterator[int]:
    """Yields 0, 1, ... up to `num` - 1, and stops early once `time.monotonic()` exceeds `deadline`."""
    for number in range(num):
        if time.monotonic() > deadline:
            return
        yield number


def draw(space: Space, obs: Tree, generator: torch.Generator) -> Tensor:
    """Draws one random action of `space`, [1, ...].

    If `obs` is a dict with a key `action_mask`, choices that it forbids are not drawn.
    """
    if isinstance(space, Dict):  # a team's
        keys = {name: f"{name}.action_mask" for name in space.spaces}
        return sample(space, 1, generator, {name: obs[key] for name, key in keys.items() if key in obs})  # pyrefly: ignore
    return sample(space, 1, generator, obs.get("action_mask") if isinstance(obs, dict) else None)


@contextmanager
def kept_random_numbers() -> Iterator[None]:
    """Restores the global random states of Python, numpy and torch's CPU when the block ends."""
    python, numbers = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)
