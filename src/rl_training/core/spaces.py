"""Spaces of observations and actions as plain data: the shapes, bounds and counts that networks need."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Literal

import torch

SHOWN = 6  # bounds that a space's text names at most, where they differ


@dataclass(frozen=True)
class Box:
    """A space of arrays: their shape and dtype, and bounds with one number per element, in row-major order."""

    shape: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    dtype: Literal["float32", "uint8", "int64"] = "float32"
    env_dtype: str | None = field(default=None, compare=False)  # of actions at the environment, where it is another

    def __repr__(self) -> str:
        low, high = (short_bound(bound) for bound in (self.low, self.high))
        return f"Box(shape={self.shape}, low={low}, high={high}, dtype={self.dtype!r})"

    @property
    def size(self) -> int:
        """Returns the number of elements of an array: as many inputs or outputs of a network stand for it."""
        return math.prod(self.shape)

    @property
    def is_image(self) -> bool:
        return self.dtype == "uint8" and len(self.shape) == 3


def is_uniform(bound: tuple[float, ...]) -> bool:
    return len(set(bound)) == 1


def short_bound(bound: tuple[float, ...]) -> str:
    """Returns bounds as text: one number if all are equal, otherwise the first six in brackets."""
    if is_uniform(bound):
        return f"{bound[0]:g}"
    shown = [f"{number:g}" for number in bound[:SHOWN]] + ["..."] * (len(bound) > SHOWN)
    return f"({', '.join(shown)})"


@dataclass(frozen=True)
class Discrete:
    """A space of one choice out of `num`; environments may count from `start`, policies count from 0."""

    shape, dtype = (), "int64"
    num: int
    start: int = 0
    env_dtype: str | None = field(default=None, compare=False, repr=False)  # as of Box

    @property
    def size(self) -> int:
        return self.num


@dataclass(frozen=True)
class MultiDiscrete:
    """A space of several independent choices, number i out of `nums[i]`, all counted from 0."""

    dtype = "int64"
    nums: tuple[int, ...]
    env_dtype: str | None = field(default=None, compare=False, repr=False)  # as of Box

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.nums),)

    @property
    def size(self) -> int:
        return sum(self.nums)


@dataclass(frozen=True)
class MultiBinary:
    """A space of `num` independent bits."""

    dtype = "int64"
    num: int
    env_dtype: str | None = field(default=None, compare=False, repr=False)  # as of Box

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.num,)

    @property
    def size(self) -> int:
        return self.num


@dataclass(frozen=True)
class Dict:
    """A space of named observations; the key `action_mask`, if there is one, marks the actions that are allowed."""

    spaces: dict[str, Leaf]


Leaf = Box | Discrete | MultiDiscrete | MultiBinary
Space = Leaf | Dict
DTYPES = ("float32", "uint8", "int64")
KINDS: dict[str, type] = {kind.__name__: kind for kind in (Box, Discrete, MultiDiscrete, MultiBinary)}


def choices(space: Discrete | MultiDiscrete | MultiBinary) -> tuple[int, int | tuple[int, ...]]:
    """Returns the number of the first choice (0 unless a Discrete has another `start`) and how many choices there are.

    That is an int, 2 for bits, or a tuple with an int per part of a MultiDiscrete.
    """
    match space:
        case Discrete():
            return space.start, space.num
        case MultiDiscrete():
            return 0, space.nums
    return 0, 2


def space_to_json(space: Space) -> dict:
    if isinstance(space, Dict):
        return {"kind": "Dict", "spaces": {key: space_to_json(value) for key, value in space.spaces.items()}}
    record = {"kind": type(space).__name__, **asdict(space)}
    if isinstance(space, Box):  # a picture has thousands of equal bounds
        record |= {side: bound[0] for side in ("low", "high") if is_uniform(bound := getattr(space, side))}
    return record


def space_from_json(record: dict) -> Space:
    """Returns the space in a record that `space_to_json` wrote; raises a TypeError or KeyError for other records."""
    if record["kind"] == "Dict":
        return Dict({key: space_from_json(value) for key, value in record["spaces"].items()})  # pyrefly: ignore (one level)
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in record.items() if key != "kind"}
    counts = fields.get("shape") or fields.get("nums") or (fields.get("num", 1),)
    own = fields.get("env_dtype")
    known = isinstance(fields.get("start", 0), int) and fields.get("dtype", "float32") in DTYPES
    known = known and (own is None or (isinstance(own, str) and isinstance(getattr(torch, own, None), torch.dtype)))
    if not known or not all(isinstance(count, int) and count >= 0 for count in counts):
        raise TypeError(f"{record} is not a space")
    if record["kind"] == "Box":
        size = math.prod(record["shape"])
        fields |= {side: (fields[side],) * size for side in ("low", "high") if not isinstance(fields[side], tuple)}
    return KINDS[record["kind"]](**fields)


@dataclass(frozen=True)
class Groups:
    """The keys of a Dict observation that the policy sees, and those that the critic sees; () means all of them."""

    policy: tuple[str, ...] = ()
    critic: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spec:
    """The spaces of an environment's observations and actions, and the observations that policy and critic see."""

    obs: Space
    action: Space
    groups: Groups = field(default=Groups(), compare=False)  # no matter of the environment's

    def seen_by(self, group: Literal["policy", "critic"]) -> Spec:
        """Returns a spec with only the observations that `group` sees and the action mask; itself if it sees all."""
        keys = self.groups.policy if group == "policy" else self.groups.critic
        if not keys:
            return self
        assert isinstance(self.obs, Dict)
        kept = {key: leaf for key, leaf in self.obs.spaces.items() if key in (*keys, "action_mask")}
        return Spec(Dict(kept), self.action)

    @property
    def privileged(self) -> Dict:
        """Returns the space of the observations that the critic sees and the policy does not; it may be empty."""
        seen, critic = self.seen_by("policy").obs, self.seen_by("critic").obs
        if not isinstance(seen, Dict) or not isinstance(critic, Dict):
            return Dict({})
        return Dict({key: leaf for key, leaf in critic.spaces.items() if key not in seen.spaces})

    def to_json(self) -> dict:
        spaces = {"obs": space_to_json(self.obs), "action": space_to_json(self.action)}
        return spaces | {"groups": {name: list(keys) for name, keys in asdict(self.groups).items()}}

    @classmethod
    def from_json(cls, record: dict) -> Spec:
        obs, action = space_from_json(record["obs"]), space_from_json(record["action"])
        groups = {name: tuple(keys) for name, keys in record.get("groups", {}).items()}
        known = obs.spaces if isinstance(obs, Dict) else {}
        if any(key not in known for keys in groups.values() for key in keys):
            raise TypeError(f"{record['groups']} names keys that are not observed")
        spec = cls(obs, action, Groups(**groups))
        if "team" not in record:
            return spec
        from rl_training.core.teams import TeamSpec

        return TeamSpec.read(spec, record["team"])
