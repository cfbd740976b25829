"""Backends: the ways to build vector environments from settings, registered by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from rl_training.core.registry import Registry
from rl_training.envs.vector import VectorEnv

if TYPE_CHECKING:
    from rl_training.envs.local import LocalEnv
    from rl_training.envs.make import EnvConfig

USUAL = "gymnasium"  # the backend of ids that no other one owns
PREFIX_ENDS = ("/", ":")  # a registered name that ends so is a prefix of ids, any other one a backend


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """The settings and features that the environments of a backend support.

    A config that needs another one is refused with a ValueError before anything is built.
    """

    vectorizations: tuple[str, ...] = ("sync",)  # values of env.vectorization; "sync" alone: it does it by itself
    samplers: bool = False  # its `make_part` builds environments in other processes
    on_device: bool = False  # tensor code steps all environments at once, on the device of the learner
    saves_state: bool = False  # a run that is resumed may continue its episodes
    time_limit: bool = False  # it follows env.max_episode_steps
    wrap: bool = False  # it follows env.wrappers and env.frame_stack
    stack: bool = False  # it follows env.frame_stack, and need not follow env.wrappers
    usual_stack: int = 1  # the default of env.frame_stack
    renders: bool = False  # env.kwargs may hold `render_mode`
    group_agents: bool = False  # it follows env.agents
    several_agents: bool = False  # environments may have several agents: their `spec` is a TeamSpec


NONE = Abilities()


class MakeEnv(Protocol):
    """A function that builds a `VectorEnv` of `num_envs` environments on `device`, numbered from `start` in the run."""

    def __call__(self, config: EnvConfig, num_envs: int, *, device: torch.device | str, start: int) -> VectorEnv: ...


class MakePart(Protocol):
    """A function that builds the environments `rows` of a run that has `total`, in a sampler's process.

    `factory` builds one of them, if the id names one.
    """

    def __call__(self, config: EnvConfig, factory: Callable | None, rows: range, total: int) -> LocalEnv: ...


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A registered way to build environments: its name, functions that build and check, id prefixes and features."""

    name: str
    make: MakeEnv
    check: Callable[[EnvConfig], None] | None = None
    protocol: Callable[[EnvConfig], dict[str, object]] | None = None
    module_of: Callable[[str], str] | None = None
    make_part: MakePart | None = None
    owns: tuple[str, ...] = ()
    can: Abilities = NONE


BACKENDS: Registry[Backend] = Registry("backends")  # by name, and by each prefix that a backend owns


def register_backend(
    name: str,
    make: MakeEnv,
    *,
    owns: tuple[str, ...] = (),
    can: Abilities = NONE,
    check: Callable[[EnvConfig], None] | None = None,
    protocol: Callable[[EnvConfig], dict[str, object]] | None = None,
    module_of: Callable[[str], str] | None = None,
    make_part: MakePart | None = None,
) -> None:
    """Registers a way to build environments for this process: `env.backend` may then be `name`.

    `make(config, num_envs, device=..., start=...)` returns a `VectorEnv`; settings that need an ability which `can`
    does not declare raise a ValueError before it is called. Ids that begin with a prefix in `owns`, such as "ALE/" or
    "pettingzoo:", need no `env.backend`. `check(config)` raises a ValueError for settings that cannot work; it is
    called before a run begins. `protocol(config)` returns, as plain data, the settings on which scores depend; results
    carry it, and results with unlike ones are not compared. If ids name modules, which a checkpoint may then import only
    if it is trusted, `module_of(env_id)` returns the module. `make_part` builds environments for samplers.

    A checkpoint holds only the name: before you load one,
    register the backend, or install a package that declares the name, and each prefix, as entry points. Raises a
    ValueError if `name` or a prefix is malformed or already registered.
    """
    if not isinstance(name, str) or not name or name == "auto" or name.endswith(PREFIX_ENDS):
        raise ValueError(f"{name!r} is not a name for a backend: use one such as 'ale'")
    wrong = next((prefix for prefix in owns if not prefix.endswith(PREFIX_ENDS) or len(prefix) == 1), None)
    if isinstance(owns, str) or wrong is not None:
        raise ValueError(
            f"owns={owns!r} of the backend {name!r} must be a tuple of prefixes such as 'ALE/' or 'pettingzoo:'"
        )
    if "sync" not in can.vectorizations:
        raise ValueError(f"the backend {name!r} must take env.vectorization='sync', the default")
    backend = Backend(
        name=name,
        make=make,
        check=check,
        protocol=protocol,
        module_of=module_of,
        make_part=make_part,
        owns=owns,
        can=can,
    )
    for key in (name, *owns):
        if BACKENDS.get(key, backend) != backend:
            raise ValueError(f"{key!r} is registered by the backend {BACKENDS[key].name!r} already: choose another")
    BACKENDS.update(dict.fromkeys((name, *owns), backend))


def find_backend(name: str) -> Backend:
    """Returns the registered `Backend` of this name, importing the package that declares it.

    Raises a ValueError if there is none.
    """
    known = [other for other in BACKENDS.names() if not other.endswith(PREFIX_ENDS)]
    backend = BACKENDS.find(name) if name in known else None
    if backend is not None:
        return backend
    close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else "install the package that registers it, or import it first"
    raise ValueError(f"env.backend={name!r} is not one of {', '.join(map(repr, known))}: {hint}")


def usual_stack(name: str) -> int:
    """Returns the default of `env.frame_stack` for the backend `name`; 1 if there is no such backend."""
    backend = BACKENDS.find(name)
    return backend.can.usual_stack if backend else 1


def implied_backend(env_id: str) -> str:
    """Returns the name of the backend that owns the longest prefix of `env_id`, or "gymnasium" if no backend owns one."""
    owned = [key for key in BACKENDS.names() if key.endswith(PREFIX_ENDS) and env_id.startswith(key)]
    backend = BACKENDS.find(max(owned, key=len)) if owned else None
    return backend.name if backend else USUAL
