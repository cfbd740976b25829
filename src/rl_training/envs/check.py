"""A check that an environment keeps the contract; run it on your environment before you train on it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import gymnasium as gym
import torch
from torch import Tensor

from rl_training.core import (
    ActionConverter,
    Box,
    Dict,
    Discrete,
    Leaf,
    MultiBinary,
    MultiDiscrete,
    Space,
    Spec,
    TeamSpec,
    Tree,
    tree_leaves,
    tree_map,
)
from rl_training.core.entry_points import register
from rl_training.core.goals import ACHIEVED, DESIRED, check_goals, differing_rewards
from rl_training.core.spaces import choices
from rl_training.envs.check_team import check_everybody_acts, check_lives, masks_of
from rl_training.envs.episode_log import EpisodeLog
from rl_training.envs.factory import EnvFactory, call_factory, refuse_several_agents
from rl_training.envs.gymnasium_backend import build_one
from rl_training.envs.gymnasium_vector_env import GymnasiumEnv
from rl_training.envs.local import LocalEnv
from rl_training.envs.make import FACTORIES, EnvConfig, make_env, refusals_as_sentences
from rl_training.envs.native import NativeDynamics, NativeEnv
from rl_training.envs.teams import NativeTeamEnv, TeamDynamics
from rl_training.envs.vector import EnvStep, VectorEnv, same, same_trees

EnvSource = VectorEnv | gym.vector.VectorEnv | gym.Env | EnvConfig | str | EnvFactory
HOLDS = " (it holds "  # before the values of a breach
CONTINUED = 50  # steps that are compared after continuing from a saved state


def check(env: EnvSource, *, num_envs: int = 2, num_steps: int = 1_100, seed: int = 0) -> None:
    """Steps `env` with random actions and raises one ValueError that lists every breach of the environment contract.

    Of environments with several agents it also checks when agents live, act and end.

    It checks shapes, types and bounds; finite numbers; the true successor at the end of an episode; no transition
    between two episodes; the same seed giving the same data; and, where promised, continuing from a saved state.

    `env` may be an id or a function that returns an environment or `NativeDynamics` (`num_envs` copies are built), an
    `EnvConfig` (its `n_envs` copies are built), a single environment, or a vector environment. Environments that are
    built here are closed again:

        check("CartPole-v1")
        check(lambda: MyEnv(size=3))
        check(EnvConfig(id="Hopper-v5", n_envs=4, vectorization="async"))
    """
    given = isinstance(env, VectorEnv | gym.vector.VectorEnv | gym.Env)
    problems: list[str] = []
    cause: ValueError | None = None
    try:
        vector = open_source(env, num_envs)
    except ValueError as error:
        raise ValueError(f"the environment cannot be used:\n  - {error}") from error
    try:
        problems.extend(find_problems(vector, num_steps, seed))
    except ValueError as error:  # the adapters' own refusals, e.g. of a wrong shape
        problems.append(str(error))
        cause = error
    finally:
        if not given:
            vector.close()
    if problems:
        first = {text.partition(HOLDS)[0]: text for text in reversed(problems)}  # values differ from step to step
        lines = "\n".join(f"  - {text}" for text in reversed(first.values()))
        raise ValueError(f"the environment breaks the contract:\n{lines}") from cause


def open_source(env: EnvSource, num_envs: int) -> VectorEnv:
    match env:
        case VectorEnv():
            return env
        case gym.vector.VectorEnv():
            return GymnasiumEnv(env)
        case gym.Env():
            return LocalEnv([partial(EpisodeLog, env)])
        case EnvConfig():
            return make_env(env)
        case str():
            return make_env(EnvConfig(id=env, n_envs=num_envs))
    refuse_several_agents(env)
    if not callable(env):
        raise ValueError(f"env={env!r} is not an environment: pass an id, a function that returns one, or an EnvConfig")
    config = EnvConfig(id=getattr(env, "__qualname__", repr(env)))
    with refusals_as_sentences(config):
        first = call_factory(env, {}, 0, config.id)  # what it returns says which backend it is for
    if isinstance(first, NativeDynamics):
        return NativeEnv(first, num_envs)
    if isinstance(first, TeamDynamics):
        return NativeTeamEnv(first, num_envs)
    if hasattr(first, "possible_agents") and not isinstance(first, gym.Env):
        name = register(env, FACTORIES)
        return make_env(EnvConfig(id=name, backend="pettingzoo", n_envs=num_envs))
    factories: list[EnvFactory] = [lambda index: first, *[env] * (num_envs - 1)]
    return LocalEnv([partial(build_one, config, factory) for factory in factories])


def spec_of(env: EnvSource) -> Spec:
    """Returns the observation and action spaces of `env`, any source that `check` takes.

    Raises a ValueError for any other object. An environment that is built to look at its spaces is closed again; one that is
    passed as an object stays open.
    """
    vector = open_source(env, 1)
    if not isinstance(env, VectorEnv | gym.vector.VectorEnv | gym.Env):
        vector.close()
    return vector.spec


def find_problems(env: VectorEnv, num_steps: int, seed: int) -> Iterator[str]:
    generator = torch.Generator().manual_seed(seed)
    actions: list[Tensor] = []
    record: list[EnvStep] = []
    observations = [env.reset(seed)]
    yield from check_obs(env, observations[0], "reset")
    for _ in range(num_steps):
        masks = masks_of(env.spec, observations[-1]) if isinstance(env.spec, TeamSpec) else None
        actions.append(tree_map(lambda x: x.to(env.device), sample(env.spec.action, env.num_envs, generator, masks)))
        step = env.step(actions[-1])
        yield from check_step(env, step, record[-1] if record else None)
        if isinstance(env.spec, TeamSpec):
            yield from check_lives(env.spec, observations[-1], step)
        record.append(step)
        observations.append(step.obs)
    if isinstance(env.spec, TeamSpec):
        yield from check_everybody_acts(env.spec, observations)
    yield from check_ends(record)
    yield from check_judge(env, record)
    if not all(equal(a, b) for a, b in zip(record, replay(env, actions, seed), strict=True)):
        yield "the same seed and actions gave different data: use only `self.np_random` for randomness"
    elif env.state_kind != "boundary":
        for cut in cuts(record):
            yield from check_state(env, actions, seed, record, cut)


def replay(env: VectorEnv, actions: list[Tensor], seed: int) -> Iterator[EnvStep]:
    env.reset(seed)
    for action in actions:
        yield env.step(action)


def check_obs(env: VectorEnv, obs: Tree, where: str) -> Iterator[str]:
    for name, leaf, space in named_leaves(obs, env.spec.obs):
        shape = (env.num_envs, *space.shape)
        if tuple(leaf.shape) != shape:
            yield f"{where}: observation{name} has shape {tuple(leaf.shape)}, the space says {shape}"
        elif leaf.is_floating_point() and not leaf.isfinite().all():
            yield f"{where}: observation{name} is not finite"
        elif not within(leaf, space):
            low, high = (f"{bound:g}" for bound in (leaf.min(), leaf.max()))
            yield f"{where}: observation{name} leaves its space's bounds{HOLDS}{low} to {high}, the space is {space})"


def check_step(env: VectorEnv, step: EnvStep, previous: EnvStep | None) -> Iterator[str]:
    for name in ("reward", "terminated", "truncated", "valid"):
        column = getattr(step, name)
        if tuple(column.shape) != (env.num_envs,):
            yield f"step: {name} has shape {tuple(column.shape)}, expected ({env.num_envs},)"
            return
    if not step.reward.isfinite().all():
        yield "step: the reward is not finite"
    yield from check_obs(env, step.next_obs, "step")
    if ended(step).any():
        yield from check_obs(env, step.obs, "restart")
    if not rows_equal(step.next_obs, step.obs, ~ended(step) & step.valid):
        yield "step: within an episode, the observation to act on is not the successor that was returned"
    if (~step.valid & (step.reward != 0)).any():
        yield "step: a row that only reset carries a reward"
    if (~step.valid & ended(step)).any():
        yield "step: a row that only reset ends an episode"
    if (~step.valid).any() and (previous is None or (~step.valid & ~ended(previous)).any()):
        yield "step: a row is marked as a mere reset although no episode had ended"


def check_ends(record: list[EnvStep]) -> Iterator[str]:
    """Yields a sentence if no episode ends in the recorded steps.

    Yields another if every `next_obs` at an end is the first observation of the next episode.
    """
    if not any(ended(step).any() for step in record):
        yield f"no episode ended within {len(record)} steps: raise num_steps, or give the environment a time limit"
    # An end before a row that only resets has nothing to compare: the first observation comes one step later.
    restarts = [(step, ended(step) & following.valid) for step, following in pairwise(record)]
    num_restarts = sum(int(rows.sum()) for _, rows in restarts)
    changes = not all(rows_equal(a.next_obs, b.next_obs, torch.ones_like(a.valid)) for a, b in pairwise(record))
    if num_restarts > 1 and changes and all(rows_equal(step.next_obs, step.obs, rows) for step, rows in restarts):
        yield (
            "step: every successor at the end of an episode is the first observation of the next one: return the last "
            "observation of the old episode (a gymnasium vector environment: in info['final_obs'])"
        )


def check_judge(env: VectorEnv, record: list[EnvStep]) -> Iterator[str]:
    """Yields a sentence if `env.judge`, given a recorded step's own goals, returns another reward than the step did.

    For tensor code, also if the terminations differ. Yields nothing for environments that cannot judge goals.
    """
    if env.why_no_judge is not None:
        return
    if env.tensor_code:
        check_goals(env.spec)
    elif not isinstance(env.spec.obs, Dict) or not {ACHIEVED, DESIRED} <= env.spec.obs.spaces.keys():
        return  # `compute_reward` may mean something else
    name = "judge" if env.tensor_code else "compute_reward"
    for step in record:
        assert isinstance(step.next_obs, dict)
        reward, terminated = env.judge(step.next_obs[ACHIEVED], step.next_obs[DESIRED])
        wrong = differing_rewards(step.reward, reward) & step.valid
        if env.tensor_code:
            wrong |= terminated != step.terminated
        if wrong.any():
            row = int(wrong.nonzero()[0])
            yield (
                f"`{name}` gave another reward or end than `step` for the same goals ({reward[row]:g} and {step.reward[row]:g}): let "
                f"`step` return what `{name}` does"
            )
            return


def cuts(record: list[EnvStep]) -> set[int]:
    """Returns numbers of steps after which saving and continuing is tried out, at most two.

    They are in the second half of `record`: one right after a step at which an episode ended, one after another step.
    """
    middle = len(record) // 2
    after = [bool(ended(step).any()) for step in record[middle:-1]]
    return {middle + 1 + after.index(kind) for kind in (False, True) if kind in after}


def check_state(env: VectorEnv, actions: list[Tensor], seed: int, record: list[EnvStep], cut: int) -> Iterator[str]:
    until = min(cut + CONTINUED, len(actions))
    for _ in replay(env, actions[:cut], seed):
        pass
    state = env.get_state()
    for action in actions[cut:until]:
        env.step(action)
    if env.set_state(state) is not None:
        yield "set_state: a re-run episode ended elsewhere: the environment is not a function of its seed and actions"
        return
    rest = [env.step(action) for action in actions[cut:until]]
    if not all(equal(a, b) for a, b in zip(record[cut:until], rest, strict=True)):
        yield f"set_state: the environment promises {env.state_kind!r} states but continued differently"


def sample(
    space: Space, num: int, generator: torch.Generator, mask: Tensor | dict[str, Tensor] | None = None
) -> Tensor:
    """Draws `num` random actions of `space`, [num, ...], in the environment's units; of a team, a dict of them.

    Choices for which `mask` [num, choices] is 0 are not drawn, unless a row allows none; None allows all. A team has a
    mask, [num, agents, choices], for each of its groups or none.
    """
    if isinstance(space, Dict):
        masks = mask if isinstance(mask, dict) else {}
        return {name: sample(leaf, num, generator, masks.get(name)) for name, leaf in space.spaces.items()}  # pyrefly: ignore
    assert not isinstance(mask, dict)
    match space:
        case Discrete() | MultiDiscrete():
            nums = (space.num,) if isinstance(space, Discrete) else space.nums
            allowed = torch.ones(num, sum(nums)) if mask is None else mask.flatten(1) + 1e-9
            parts = [torch.multinomial(part, 1, generator=generator) for part in allowed.split(nums, -1)]
            drawn = parts[0][:, 0] if isinstance(space, Discrete) else torch.cat(parts, -1)
        case MultiBinary():
            drawn = torch.randint(2, (num, space.num), generator=generator)
        case Box():
            low, high = (torch.tensor(bound).clamp(-1e3, 1e3) for bound in (space.low, space.high))
            drawn = low + (high - low) * torch.rand(num, space.size, generator=generator)
        case _:
            raise ValueError(f"cannot draw actions from {space}")
    return ActionConverter(space, squashed=False)(drawn)


def named_leaves(obs: Tree, space: Space) -> Iterator[tuple[str, Tensor, Leaf]]:
    if isinstance(obs, dict):
        assert isinstance(space, Dict)
        for key, leaf in obs.items():
            yield f"[{key!r}]", leaf, space.spaces[key]
    else:
        yield "", obs, space  # pyrefly: ignore (a leaf)


def within(leaf: Tensor, space: Leaf) -> bool:
    """Returns True if every number of the tensor `leaf` is in `space`.

    Numbers may exceed the bounds of a Box by 1e-4 * (1 + |bound|).
    """
    match space:
        case Box():
            low, high = (torch.tensor(bound, device=leaf.device).view(space.shape) for bound in (space.low, space.high))
            low, high = low - 1e-4 * (1 + low.abs()), high + 1e-4 * (1 + high.abs())
        case _:
            low, high = 0, torch.tensor(choices(space)[1], device=leaf.device) - 1
    return bool(((leaf >= low) & (leaf <= high)).all())


def ended(step: EnvStep) -> Tensor:
    return step.terminated | step.truncated


def rows_equal(a: Tree, b: Tree, rows: Tensor) -> bool:
    return all(same(x[rows], y[rows]) for x, y in zip(tree_leaves(a), tree_leaves(b), strict=True))


def equal(a: EnvStep, b: EnvStep) -> bool:
    """Returns True if all tensors of two steps are equal except `columns`, which may hold a clock; NaN equals NaN."""
    return same_trees(a._replace(columns={}), b._replace(columns={}))
