"""Construction of vector environments from plain settings."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

import gymnasium as gym
import torch

from rl_training.core import Groups
from rl_training.core.entry_points import find, import_named
from rl_training.core.free_memory import check_memory
from rl_training.core.ranges import Count, Positive
from rl_training.core.teams import TeamSpec
from rl_training.envs.backends import BACKENDS, USUAL, Abilities, Backend, find_backend, implied_backend, usual_stack
from rl_training.envs.catalogue import NATIVE
from rl_training.envs.factory import EnvFactory
from rl_training.envs.joint_env import AgentSettings
from rl_training.envs.vector import VectorEnv
from rl_training.envs.watch import TIMEOUT_S

ROBOTICS = (
    "Fetch",
    "Hand",
    "Adroit",
    "PointMaze_",
    "AntMaze_",
    "FrankaKitchen-",
)  # how ids of gymnasium-robotics begin
FACTORIES: dict[str, EnvFactory] = {}  # factories handed over in Python, by the name that stands in the config


LEAST_BYTES = {
    "sync": 1_000,
    "vector_entry_point": 1,
    "async": 30_000_000,
}  # that an environment takes, where it is run


@dataclass(frozen=True, kw_only=True)
class WrapperConfig:
    """Settings of a gymnasium wrapper around every environment: its class, and its arguments after the environment."""

    entry_point: str  # 'package.module:Class'
    kwargs: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Settings of a run's environments: their id, number, backend, wrappers and limits."""

    id: str  # a gymnasium id ('CartPole-v1', 'package.module:Name-v0'), or 'package.module:factory'
    n_envs: Count = 1
    backend: str = "auto"  # auto: the one that owns a prefix of the id, else gymnasium
    vectorization: Literal["sync", "async", "vector_entry_point"] = "sync"
    kwargs: dict[str, object] = field(default_factory=dict)  # for the environment's constructor
    max_episode_steps: Count | None = None  # None: the environment's own limit
    wrappers: tuple[WrapperConfig, ...] = ()  # the first is the innermost
    frame_stack: Count | None = None  # pictures in one observation; None: the backend's usual number, 4 for ale, else 1
    info_keys: tuple[str, ...] = ()  # of `info` at an episode's end, kept as columns of the episode
    obs_groups: Groups = Groups()  # keys of a Dict observation that the policy and the critic see
    agents: AgentSettings = AgentSettings()  # of environments with several
    timeout_s: Positive | None = TIMEOUT_S  # for one answer; None: wait for ever

    def __post_init__(self) -> None:
        if self.backend == "auto":
            object.__setattr__(self, "backend", implied_backend(str(self.id)))
        if self.frame_stack is None:
            object.__setattr__(self, "frame_stack", usual_stack(self.backend))

    @property
    def num_stacked(self) -> int:
        """Returns `frame_stack`, which is never None once the settings are built."""
        return self.frame_stack or 1

    @property
    def can(self) -> Abilities:
        """Returns the features that the environments of `backend` support, as `Abilities`.

        Raises a ValueError if the backend is unknown.
        """
        return find_backend(self.backend).can

    @property
    def protocol(self) -> dict[str, object]:
        """Returns the settings on which scores in this environment depend, as plain data; {} if the backend has none."""
        backend = BACKENDS.find(self.backend)
        return {} if backend is None or backend.protocol is None else backend.protocol(self)


def make_env(
    config: EnvConfig, *, num_envs: int | None = None, device: torch.device | str = "cpu", start: int = 0
) -> VectorEnv:
    """Builds the vector environment of a config; raises a ValueError if the backend cannot follow the settings.

    It holds `num_envs` environments (None: `config.n_envs`); `start` is the number of the first one in the run. Those
    that are tensor code are put on `device`.
    """
    check_settings(config)
    backend, num_envs = find_backend(config.backend), num_envs or config.n_envs
    check_memory(num_envs * LEAST_BYTES[config.vectorization], f"env.n_envs={num_envs}")
    env = backend.make(config, num_envs, device=device, start=start)
    check_made(backend, env, num_envs)
    env.ask_columns(config.info_keys)
    return env


def check_settings(config: EnvConfig) -> None:
    """Raises a ValueError if `config` names an unknown backend, or settings that its environments cannot follow."""
    backend = find_backend(config.backend)
    if config.vectorization not in backend.can.vectorizations:
        others = {other.name: other for other in BACKENDS.values() if config.vectorization in other.can.vectorizations}
        raise ValueError(
            f"env.vectorization={config.vectorization!r} is for {', '.join(others)}: {backend.name} environments need none"
        )
    follows: dict[str, tuple[bool, Callable[[Abilities], bool]]] = {
        "env.frame_stack": (config.num_stacked > 1, lambda can: can.wrap or can.stack),
        "env.wrappers": (bool(config.wrappers), lambda can: can.wrap),
        "env.max_episode_steps": (config.max_episode_steps is not None, lambda can: can.time_limit),
        "env.agents": (config.agents != AgentSettings(), lambda can: can.group_agents),
        "env.kwargs.render_mode": ("render_mode" in config.kwargs, lambda can: can.renders),
    }
    for setting, (given, follow) in follows.items():
        if given and not follow(backend.can):
            others = ", ".join(dict.fromkeys(other.name for other in BACKENDS.values() if follow(other.can)))
            raise ValueError(f"{backend.name} environments take no {setting}: leave it out, or use those of {others}")
    if backend.check is not None:
        backend.check(config)


def check_made(backend: Backend, env: VectorEnv, num_envs: int) -> None:
    """Raises a ValueError if `env`, which `backend` built, is no `VectorEnv` of `num_envs` environments.

    Also raises it if `env` can save its state, or has several agents, and the backend does not declare that.
    """
    wrong = None
    if not isinstance(env, VectorEnv):
        wrong = f"a {type(env).__name__}: return an rl_training.envs.VectorEnv"
    elif env.num_envs != num_envs:
        wrong = f"{env.num_envs} environments where {num_envs} were asked for: return as many"
    elif env.state_kind != "boundary" and not backend.can.saves_state:
        wrong = (
            f"a {type(env).__name__} with state_kind={env.state_kind!r}: register it with Abilities(saves_state=True)"
        )
    elif isinstance(env.spec, TeamSpec) and not backend.can.several_agents:
        wrong = f"a {type(env).__name__} with several agents: register it with Abilities(several_agents=True)"
    if wrong:
        raise ValueError(f"env.backend={backend.name!r} built {wrong}")


@contextmanager
def refusals_as_sentences(config: EnvConfig) -> Iterator[None]:
    """Turns errors of gymnasium and of imports inside the block into a ValueError that names the fix.

    So does it with a TypeError if there are `config.kwargs`. Before the block it imports the module in `config.id`, and
    the package that registers the id with gymnasium.
    """
    NATIVE.load(config.id)  # with gymnasium too, and in every process
    register_robotics(config.id)
    module, colon, _ = config.id.partition(":")
    try:
        if colon and config.id not in FACTORIES and find_backend(config.backend).module_of is None:
            import_named(module)  # gymnasium would not search the working directory
        yield
    except gym.error.DependencyNotInstalled as error:
        raise ValueError(f"env.id={config.id!r} needs a package that is not installed: {advice(config.id)}") from error
    except ImportError as error:
        raise ValueError(f"env.id={config.id!r} cannot be imported ({error}): {advice(config.id)}") from error
    except gym.error.UnregisteredEnv as error:
        if config.id.startswith("ALE/"):
            raise ValueError(
                f"env.id={config.id!r} is not a registered environment of gymnasium: leave env.backend={config.backend!r} out to "
                f"play it through the backend 'ale', or use the id 'ale_py:{config.id}', which has none of Atari's wrappers"
            ) from error
        near = nearest_ids(config.id)
        other = (
            f"install the package that registers it, import the module first, or write 'package.module:{config.id}'; see "
            "gymnasium.pprint_registry()"
        )
        hint = f"did you mean {' or '.join(near)}?" if near else other
        hint = "it exists as tensor code, use backend='native'" if config.id in NATIVE else hint
        if config.id.startswith(ROBOTICS) and not find_spec("gymnasium_robotics"):
            hint = "pip install 'rl-training[robotics]'"
        raise ValueError(f"env.id={config.id!r} is not a registered environment: {hint}") from error
    except gym.error.Error as error:  # deprecated versions, malformed ids
        raise ValueError(f"env.id={config.id!r} was refused: {error}") from error
    except TypeError as error:
        if not config.kwargs:
            raise
        raise ValueError(f"env.kwargs={config.kwargs!r} was refused by {config.id}: {error}") from error


def nearest_ids(env_id: str) -> list[str]:
    """Returns up to three registered ids that resemble `env_id`, all of the namespace that it names or misspells."""
    spaces: dict[str, list[str]] = {}
    for name in gym.registry:
        spaces.setdefault(name.rpartition("/")[0], []).append(name)
    space = difflib.get_close_matches(env_id.rpartition("/")[0], spaces, n=1, cutoff=0.6)
    return difflib.get_close_matches(env_id, spaces[space[0]], n=3, cutoff=0.5) if space else []


def register_robotics(env_id: str) -> None:
    """Imports gymnasium-robotics, which registers its ids, if it is installed and `env_id` looks like one of them."""
    if env_id.startswith(ROBOTICS) and env_id not in gym.registry and find_spec("gymnasium_robotics"):
        import_module("gymnasium_robotics")


def advice(env_id: str) -> str:
    entry = str(gym.registry[env_id].entry_point) if env_id in gym.registry else ""
    extra = "mujoco" if "mujoco" in entry else "box2d" if "box2d" in entry else None
    return f"pip install 'rl-training[{extra}]'" if extra else "install the package that provides it"


def find_factory(path: str) -> EnvFactory | None:
    """Returns the function or class that 'package.module:factory' names, or that was registered as `path`.

    Returns None for gymnasium's ids, such as 'Name-v0' or 'package.module:Name-v0', and for those that another backend
    owns, such as 'pettingzoo:package.module'. Raises a ValueError if `path` names nothing callable.
    """
    _, colon, name = path.partition(":")
    if path not in FACTORIES and (not colon or "-v" in name or implied_backend(path) != USUAL):
        return None
    factory = find(path, FACTORIES, "env.id")
    if not callable(factory):
        raise ValueError(
            f"env.id={path!r} is a {type(factory).__name__}: name a class or a function that returns an environment"
        )
    return factory


def is_registered(config: EnvConfig) -> bool:
    """Returns True if gymnasium has the id 'package.module:Name-v0' and its module is already imported in this process."""
    module, _, name = config.id.partition(":")
    return config.backend == "gymnasium" and module in sys.modules and name in gym.registry
