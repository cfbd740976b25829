"""Construction of the engine that a config asks for."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rl_training.config.sections import SamplingConfig
from rl_training.core import Dict, Space, TeamSpec, Tree, tree_map
from rl_training.core.spaces import Leaf
from rl_training.distributed.engine import Engine
from rl_training.distributed.messages import Assignment, Block, Carry, Request, SamplingMode
from rl_training.distributed.processes import Processes
from rl_training.distributed.ray_engine import RayEngine
from rl_training.envs import EnvStep
from rl_training.envs.result_checks import flags_tensor, rewards_tensor
from rl_training.runtime.collector import kept_columns, remember, transition


def start_engine(sampling: SamplingConfig, obs: Space, fragment: int, assignments: Sequence[Assignment]) -> Engine:
    """Returns the engine that `sampling` names, for one sampler per assignment; no sampler is launched yet.

    `obs` is the space of observations. With `sampling.lag`, the engine holds `lag` + 1 requests of `fragment` steps
    each at a time, otherwise one. Raises ConfigError if Ray is not installed or its cluster cannot be reached.
    """
    slots, fragment = (sampling.lag + 1, fragment) if sampling.lag else (1, 1)
    timeout_s = assignments[0].env.timeout_s
    if sampling.engine == "ray":
        return RayEngine(assignments, slots=slots, fragment=fragment, timeout_s=timeout_s)
    request, block = examples(assignments[0], obs)
    return Processes(assignments, request, block, slots=slots, fragment=fragment, timeout_s=timeout_s)


@torch.no_grad()
def examples(assignment: Assignment, space: Space) -> tuple[Request, Block]:
    """Returns an example of a request and of its answer, of one step in one environment, to show shapes and types.

    `space` is that of the observations. The state of torch's random numbers is the same afterwards.
    """
    policy = assignment.policy
    obs, memory, first = zeros(space), policy.initial_memory(1), torch.ones(1, dtype=torch.bool)
    with torch.random.fork_rng(devices=[]):
        act = policy.act(obs, memory, first)
    flag = flags_tensor((False,))
    step = EnvStep(rewards_tensor((0.0,)), flag, flag, obs, obs, flag)
    given = policy.spec.columns if isinstance(policy.spec, TeamSpec) else ()
    values = {column.name: torch.zeros((1, *column.shape), dtype=column.dtype) for column in given}
    remembered = remember(kept_columns(assignment.columns, memory), memory, first)
    row = transition(obs, act, step, remembered | values)
    random = torch.get_rng_state()
    weights = (*policy.parameters(), *policy.buffers())
    sampling = SamplingMode(1, False, False, 1, "highest")
    steps = tree_map(lambda x: x.unsqueeze(0), row)
    return Request(sampling, weights, random), Block(steps, Carry(obs, act.memory, first), random, {}, 0, {})


def zeros(space: Space) -> Tree:
    """Returns an observation of zeros, [1, ...]; a dict of tensors if the space is a Dict."""
    if isinstance(space, Dict):
        return {key: zeros_of(leaf) for key, leaf in space.spaces.items()}
    return zeros_of(space)


def zeros_of(leaf: Leaf) -> Tensor:
    return torch.zeros((1, *leaf.shape), dtype=getattr(torch, leaf.dtype))
