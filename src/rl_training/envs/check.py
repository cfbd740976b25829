"""Checks that an environment keeps the contract: run it on yours before you train on it."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium as gym
import torch
from torch import Tensor

from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tree, tree_leaves, tree_map
from rl_training.envs.conversion import leaf_shape
from rl_training.envs.gymnasium_env import GymnasiumEnv
from rl_training.envs.vector import EnvStep, VectorEnv


def check(env: VectorEnv | gym.vector.VectorEnv, *, num_steps: int = 500, seed: int = 0) -> None:
    """Steps random actions and raises one ValueError that lists every breach of the contract.

    Looked at: shapes, types and bounds; finite numbers; the true successor at the end of an episode; no transition
    between two episodes; the same seed giving the same data; and, where promised, continuing from a saved state.
    """
    env = env if isinstance(env, VectorEnv) else GymnasiumEnv(env)
    generator = torch.Generator().manual_seed(seed)
    actions = [sample(env.spec.action, env.num_envs, generator).to(env.device) for _ in range(num_steps)]
    problems = list(dict.fromkeys(find_problems(env, actions, seed)))
    if problems:
        raise ValueError("the environment breaks the contract:\n" + "\n".join(f"  - {text}" for text in problems))


def find_problems(env: VectorEnv, actions: list[Tensor], seed: int) -> Iterator[str]:
    obs = env.reset(seed)
    yield from check_obs(env, obs, "reset")
    previous: EnvStep | None = None
    record: list[EnvStep] = []
    for action in actions:
        step = env.step(action)
        yield from check_step(env, step, previous)
        record.append(step)
        previous = step
    if not any((s.terminated | s.truncated).any() for s in record):
        yield f"no episode ended within {len(actions)} steps: raise num_steps, or give the environment a time limit"
    again = replay(env, actions, seed)
    if not all(equal(a, b) for a, b in zip(record, again, strict=True)):
        yield "the same seed and actions gave different data: use only `self.np_random` for randomness"
    yield from check_state(env, actions, seed, record)


def replay(env: VectorEnv, actions: list[Tensor], seed: int) -> list[EnvStep]:
    env.reset(seed)
    return [env.step(action) for action in actions]


def check_obs(env: VectorEnv, obs: Tree, where: str) -> Iterator[str]:
    for name, leaf, space in named_leaves(obs, env.spec.obs):
        shape = (env.num_envs, *leaf_shape(space))
        if tuple(leaf.shape) != shape:
            yield f"{where}: observation{name} has shape {tuple(leaf.shape)}, the space says {shape}"
        if leaf.is_floating_point() and not leaf.isfinite().all():
            yield f"{where}: observation{name} is not finite"
        if isinstance(space, Box) and space.shape and not within(leaf, space):
            yield f"{where}: observation{name} leaves its space's bounds"


def check_step(env: VectorEnv, step: EnvStep, previous: EnvStep | None) -> Iterator[str]:
    for name in ("reward", "terminated", "truncated", "valid"):
        column = getattr(step, name)
        if tuple(column.shape) != (env.num_envs,):
            yield f"step: {name} has shape {tuple(column.shape)}, expected ({env.num_envs},)"
    if not step.reward.isfinite().all():
        yield "step: the reward is not finite"
    yield from check_obs(env, step.next_obs, "step")
    done = step.terminated | step.truncated
    going_on = ~done & step.valid
    if not rows_equal(step.next_obs, step.obs, going_on):
        yield "step: within an episode, the observation to act on is not the successor that was returned"
    if previous is not None:
        ended = previous.terminated | previous.truncated
        if (~step.valid & ~ended).any():
            yield "step: a row is marked as a mere reset although no episode had ended"
        if (~step.valid & (step.reward != 0)).any():
            yield "step: a row that only reset carries a reward"


def check_state(env: VectorEnv, actions: list[Tensor], seed: int, record: list[EnvStep]) -> Iterator[str]:
    if env.state_kind == "boundary":
        return
    half = len(actions) // 2
    env.reset(seed)
    for action in actions[:half]:
        env.step(action)
    state = env.get_state()
    for action in actions[half:]:
        env.step(action)
    if env.set_state(state) is not None:
        yield "set_state: a re-run episode ended elsewhere: the environment is not a function of its seed and actions"
        return
    rest = [env.step(action) for action in actions[half:]]
    if not all(equal(a, b) for a, b in zip(record[half:], rest, strict=True)):
        yield f"set_state: the environment promises {env.state_kind!r} states but continued differently"


def sample(space: Space, num: int, generator: torch.Generator) -> Tensor:
    """Draws random actions in the environment's units."""
    match space:
        case Discrete():
            return torch.randint(space.num, (num,), generator=generator) + space.start
        case MultiDiscrete():
            return torch.stack([torch.randint(n, (num,), generator=generator) for n in space.nums], -1)
        case MultiBinary():
            return torch.randint(2, (num, space.num), generator=generator)
        case Box():
            low, high = (torch.tensor(bound).clamp(-1e3, 1e3) for bound in (space.low, space.high))
            return (low + (high - low) * torch.rand(num, space.size, generator=generator)).reshape(num, *space.shape)
    raise ValueError(f"cannot draw actions from {space}")


def named_leaves(obs: Tree, space: Space) -> Iterator[tuple[str, Tensor, Space]]:
    if isinstance(obs, dict):
        assert isinstance(space, Dict)
        for key, leaf in obs.items():
            yield f"[{key!r}]", leaf, space.spaces[key]
    else:
        yield "", obs, space


def within(leaf: Tensor, space: Box) -> bool:
    low, high = (torch.tensor(bound, device=leaf.device).view(space.shape) for bound in (space.low, space.high))
    slack = 1e-4 * (1 + torch.maximum(low.abs(), high.abs()).clamp(max=1e6))
    return bool(((leaf >= low - slack) & (leaf <= high + slack)).all())


def rows_equal(a: Tree, b: Tree, rows: Tensor) -> bool:
    pairs = zip(tree_leaves(a), tree_leaves(b), strict=True)
    return all(torch.equal(x[rows], y[rows]) for x, y in pairs)


def equal(a: EnvStep, b: EnvStep) -> bool:
    same = tree_map(lambda x, y: torch.tensor(torch.equal(x, y)), a, b)
    return all(bool(leaf) for leaf in tree_leaves(same))
