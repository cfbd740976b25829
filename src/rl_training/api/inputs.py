"""Conversion of a user's observations and states to tensors, and of actions to arrays."""

from __future__ import annotations

from math import isfinite

import numpy as np
import torch
from torch import Tensor

from rl_training.config import ConfigError
from rl_training.core import Box, Dict, Leaf, Space, Spec, TeamSpec, Tree, owned, tree_leaves
from rl_training.core.policy import Memory
from rl_training.core.spaces import choices
from rl_training.core.teams import ACTING, ALIVE, joint
from rl_training.envs.conversion import to_batch

FEW = 4096  # numbers whose sum says quickly that all are finite
LARGEST = float(np.finfo(np.float32).max)
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def encode_observation(
    obs: object, space: Space, device: torch.device, whole: Space | None = None
) -> tuple[Tree, bool]:
    """Returns an observation, or a batch of them, as tensors with a batch dimension, and True if it was a single one.

    Keys that are in the space `whole` and not in `space` may be given and are left out. Raises ConfigError if the
    observation does not fit `space`.
    """
    if isinstance(obs, tuple) and len(obs) > 1 and isinstance(obs[-1], dict):
        raise ConfigError(
            "this is a tuple, not an observation: reset returns (obs, info), and step obs first: pass obs"
        )
    if isinstance(space, Dict):
        unseen = whole.spaces.keys() - space.spaces.keys() if isinstance(whole, Dict) else set()
        if not isinstance(obs, dict) or obs.keys() - unseen != space.spaces.keys():
            given = (list(obs) or "an empty one") if isinstance(obs, dict) else type(obs).__name__
            raise ConfigError(f"the observation must be a mapping with the keys {sorted(space.spaces)}, not {given}")
        parts = {
            key: encode_leaf(obs[key], leaf, f"observation[{key!r}]", device) for key, leaf in space.spaces.items()
        }
        singles = {single for _, single in parts.values()}
        if len(singles) > 1:
            raise ConfigError("some parts of the observation are batched and some are not: batch all or none")
        rows = {key: len(tensor) for key, (tensor, _) in parts.items()}
        if len(set(rows.values())) > 1:
            raise ConfigError(f"the parts of the observation have different numbers of rows, {rows}: give each as many")
        if "action_mask" in parts and not parts["action_mask"][0].bool().any(-1).all():
            raise ConfigError("observation['action_mask'] allows no action: at least one entry must be 1")
        return {key: tensor for key, (tensor, _) in parts.items()}, singles.pop()
    return encode_leaf(obs, space, "the observation", device)


def encode_joint(obs: object, spec: Spec, device: torch.device, whole: Space) -> tuple[Tree, bool]:
    """Returns the result of `encode_observation` for the spaces `spec`; a team's agents live and act if not told of.

    Without `alive` all of them live, without `acting` all who live act.
    """
    if not isinstance(spec, TeamSpec) or not isinstance(obs, dict):
        return encode_observation(obs, spec.obs, device, whole)
    assert isinstance(spec.obs, Dict)
    left_out = [key for key in (ALIVE, ACTING) if key in spec.obs.spaces and key not in obs]
    told = Dict({key: leaf for key, leaf in spec.obs.spaces.items() if key not in left_out})
    batch, single = encode_observation(obs, told, device, whole)
    everyone = torch.ones(num_rows(batch), len(spec.agents), dtype=torch.int64, device=device)
    return {key: joint(batch).get(ALIVE, everyone) for key in left_out} | joint(batch), single


def encode_plain(value: object, space: Leaf) -> Tensor | None:
    """Returns one observation of a Box of floats, the usual case, as a tensor [1, ...]; None if it is anything else."""
    if type(value) is not np.ndarray or value.shape != space.shape or not 0 < value.size <= FEW:
        return None
    if value.dtype not in FLOATS or not isinstance(space, Box) or space.dtype != "float32":
        return None
    row = torch.tensor(value, dtype=torch.float32, device="cpu")  # aligned, as `owned` makes it
    return row[None] if isfinite(row.sum().item()) else None  # infinite also where the sum alone is too large


def encode_leaf(value: object, space: Leaf, name: str, device: torch.device) -> tuple[Tensor, bool]:
    plain = encode_plain(value, space)
    if plain is not None:
        return plain.to(device), True
    array = as_numbers(value, name)
    shape = space.shape
    if array.shape != shape and array.shape[1:] != shape:
        raise ConfigError(f"{name} has shape {array.shape}: it must be {shape}, or {('batch', *shape)}")
    if not np.isfinite(array).all():
        raise ConfigError(f"{name} is not finite: give real numbers, without nan and inf")
    if (np.abs(array) > LARGEST).any():
        raise ConfigError(f"{name} holds {np.abs(array).max():g}, and float32 ends at {LARGEST:.2g}: scale it down")
    single = array.shape == shape
    array = array[None] if single else array
    if not isinstance(space, Box):
        low, num = choices(space)
        high = (np.add(low, num) - 1).tolist()
        if ((array < low) | (array > high) | (array != np.floor(array))).any():
            raise ConfigError(f"{name}={value} must be whole numbers in {low} to {high}")
        return torch.from_numpy(array.astype(np.int64)).to(device), single
    return to_batch(array, space, len(array)).to(device), single


def as_numbers(value: object, name: str) -> np.ndarray:
    """Returns a value as an array of float64; raises ConfigError, which calls it `name`, if it is not numeric."""
    if isinstance(value, dict):
        raise ConfigError(f"{name} is a dict, and the space has no keys: give an array")
    try:
        given = np.asarray(value)
        array = given.astype(np.float64) if given.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        reason = "its parts have different lengths" if "inhomogeneous" in str(error) else error
        raise ConfigError(f"{name} is not numeric: {reason}") from error
    if array is None:
        raise ConfigError(f"{name} is not numeric: it has the type {given.dtype}, give real numbers")
    return array


def decode_action(action: Tree, single: bool) -> np.ndarray:
    if isinstance(action, dict):  # a team's
        return {name: decode_action(part, single) for name, part in action.items()}  # pyrefly: ignore (see `Agent.predict`)
    array = action.cpu().numpy()
    return array[0] if single else array


def num_rows(obs: Tree) -> int:
    return next(tree_leaves(obs)).shape[0]


def encode_memory(
    state: tuple | None, episode_start: object, empty: Memory, batch: Tree
) -> tuple[Memory, Tensor | None]:
    """Returns a recurrent policy's memory, and a bool tensor, [row], that is True where an episode starts.

    `state` is the memory that `predict` returned before. If it is None, the memory is `empty` and `episode_start` None
    means True; else None means False. Returns ((), None) for a policy without memory, whose `empty` is (). Raises
    ConfigError if an argument does not fit the observations `batch` or the policy.
    """
    if state is None and episode_start is None:
        return empty, None
    num, device = num_rows(batch), next(tree_leaves(batch)).device
    if empty and state is not None and (episode_start is None or episode_start is False):  # the usual step
        return encode_state(state, [part.shape for part in empty], device), None
    start = as_numbers(state is None if episode_start is None else episode_start, "episode_start")
    if start.shape not in ((), (num,)):
        raise ConfigError(
            f"episode_start has shape {start.shape}: it must be one truth value, or one for each of {num} rows"
        )
    if not np.isin(start, (0, 1)).all():
        raise ConfigError(f"episode_start={episode_start!r} must be true or false, for each row")
    if not empty:
        if state is not None:
            raise ConfigError(
                "state was given, but this policy has no memory and returns none: leave it out, or use None"
            )
        return (), None
    first = torch.from_numpy(np.broadcast_to(start == 1, (num,)).copy()).to(device)
    if state is None:
        return empty, first
    return encode_state(state, [part.shape for part in empty], device), first


def encode_state(state: object, shapes: list[torch.Size], device: torch.device) -> Memory:
    advice = "hand back the state that predict returned for the same number of observations"
    if not isinstance(state, tuple | list):
        raise ConfigError(f"state is a {type(state).__name__}, not a tuple of arrays: {advice}")
    try:
        memory = tuple(owned(torch.as_tensor(part, dtype=torch.float32, device=device)) for part in state)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"state is not numeric ({error}): {advice}") from error
    if [part.shape for part in memory] != shapes:
        given, ours = ([tuple(shape) for shape in kind] for kind in ((part.shape for part in memory), shapes))
        raise ConfigError(f"state has the shapes {given}, this policy's are {ours}: {advice}")
    if not all(isfinite(part.sum().item()) or part.isfinite().all() for part in memory):  # a sum may be too large
        raise ConfigError(f"state is not finite: {advice}")
    return memory
