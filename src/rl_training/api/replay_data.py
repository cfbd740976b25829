"""The steps in an agent's replay as a dataset."""

from __future__ import annotations

import numpy as np
import torch

from rl_training.api.agent import Agent
from rl_training.config import ConfigError
from rl_training.core import Tree, tree_map
from rl_training.data import Dataset
from rl_training.experience import Replay
from rl_training.experience.ring import DRAWABLE
from rl_training.functional import ENDED, TERMINATED


def replay_dataset(agent: Agent) -> Dataset:
    """What the replay holds, oldest first, environment after environment; the episodes under way are marked as cut.

    Actions and rewards are in the environment's units. The probability of an action is not kept in a replay.
    """
    replay = None if agent.trainer is None else agent.trainer.experience
    if not isinstance(replay, Replay) or not replay.added:
        raise ConfigError(
            f"{agent.config.name} has no replay with steps: take a method with one, and let it learn first"
        )
    ring, columns = replay.ring, replay.columns
    numbers = [torch.arange(max(0, end - ring.reach), end) for end in columns.written.tolist()]
    row = torch.cat([number % ring.slots * ring.num_envs + env for env, number in enumerate(numbers)])
    newest = torch.cat([torch.arange(len(number)) == len(number) - 1 for number in numbers])
    kept = (columns.flags[row.to(ring.device)] & DRAWABLE != 0).cpu()
    # The last slot of an environment may hold the observation after a cut: then the step before it is the newest.
    newest[:-1] |= newest[1:] & ~kept[1:]
    row, newest = row[kept].to(ring.device), newest[kept].numpy()
    flags = columns.flags[row].cpu().numpy()
    terminated = flags & TERMINATED != 0
    truncated = ((flags & ENDED != 0) | newest) & ~terminated
    last = row[torch.from_numpy(np.flatnonzero(terminated | truncated)).to(row.device)]
    after = torch.where(columns.flags[last] & TERMINATED != 0, last, ring.follow(last))  # never looked at if terminated
    return Dataset.from_arrays(
        obs=arrays(ring.observation(columns, row)),
        action=agent.algorithm.policy.to_env(columns.action[row].cpu()).numpy(),
        reward=(columns.reward[row].cpu().numpy() - replay.rewards.shift) / replay.rewards.scale,
        terminated=terminated,
        truncated=truncated,
        last_obs=arrays(ring.observation(columns, after)),
        spec=agent.spec,
    )


def arrays(tree: Tree) -> np.ndarray | dict[str, np.ndarray]:
    return tree_map(lambda leaf: leaf.cpu().numpy(), tree)  # pyrefly: ignore (tensors in, arrays out)
