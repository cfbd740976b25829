"""Filming of environments: building one that draws, and showing the pictures of its episodes."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator
from torch import Tensor

from rl_training.core import Tree
from rl_training.envs.make import EnvConfig, find_factory, refusals_as_sentences
from rl_training.envs.pettingzoo_backend import find_maker
from rl_training.envs.pictures import enlarge, newest_frame
from rl_training.envs.vector import EnvStep, VectorEnv

DRAWS = "rgb_array"  # gymnasium's render mode of pictures
SIMULATORS = (("mujoco", "FatalError"), ("OpenGL.error", "Error"), ("pygame", "error"))  # modules and their errors
SCREENLESS = "on Linux without a screen, MuJoCo draws if MUJOCO_GL=egl is set before Python starts"


def drawing_config(config: EnvConfig) -> EnvConfig:
    """Returns the settings with which an environment of `config` is built in this process and draws pictures.

    Settings of environments that take no render mode are returned unchanged. Imports the module that defines the
    environment, and raises a ValueError if that is impossible.
    """
    config = replace(config, vectorization="sync", n_envs=1)
    if config.can.renders and takes_render_mode(config):
        return replace(config, kwargs=config.kwargs | {"render_mode": DRAWS})
    return config


def takes_render_mode(config: EnvConfig) -> bool:
    """Returns True if the function or class that `config.id` names takes a keyword `render_mode` and can draw pictures."""
    with refusals_as_sentences(config):
        of_team = config.can.group_agents  # an environment of PettingZoo
        creator: Callable = find_maker(config) if of_team else find_factory(config.id) or creator_of(config.id)
    try:
        parameters = inspect.signature(creator).parameters
    except (TypeError, ValueError):  # written in C
        return False
    modes = getattr(creator, "metadata", {}).get("render_modes") or ()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return "render_mode" in parameters or (takes_any and (of_team or DRAWS in modes))


def creator_of(env_id: str) -> Callable:
    """Returns the class or function that gymnasium calls to build an environment of this id."""
    entry_point = gym.spec(env_id).entry_point
    assert entry_point is not None
    return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point


def graphics_errors() -> tuple[type[Exception], ...]:
    """Returns the types of errors with which simulators say that they cannot draw on this machine."""
    loaded = ((sys.modules.get(module), name) for module, name in SIMULATORS)
    theirs = tuple(getattr(module, name) for module, name in loaded if module is not None)
    return (gym.error.Error, ImportError, AttributeError, OSError, *theirs)


class FilmedEnv(VectorEnv):
    """One environment that calls `show` with the pictures of its first `num_episodes` episodes as it is stepped.

    They are what the environment draws or, if it draws nothing, its observations, if these are pictures. A reset raises
    a ValueError, which calls the environment `name`, if there is nothing to show.
    """

    def __init__(self, env: VectorEnv, name: str, num_episodes: int) -> None:
        if env.num_envs != 1:
            raise ValueError(
                f"{name} was handed over with {env.num_envs} environments, and a video shows one: pass its id or a function"
            )
        self.env, self.name, self.left = env, name, num_episodes
        self.show: Callable[[np.ndarray], None] = lambda picture: None
        self.num_envs, self.spec, self.state_kind, self.always_valid = 1, env.spec, env.state_kind, env.always_valid
        self.render_fps = env.render_fps
        self.draws, env.filmed = True, True

    def ask_columns(self, keys: tuple[str, ...]) -> None:
        self.env.ask_columns(keys)

    def reset(self, seed: int) -> Tree:
        obs = self.env.reset(seed)
        self.draws = self.drawn(self.env.render) is not None
        if not self.draws and newest_frame(obs, self.spec.obs) is None:
            raise ValueError(
                f"{self.name} cannot be filmed: it draws nothing, and its observations are no pictures. An environment of "
                "gymnasium needs the render mode 'rgb_array' (a function that builds one: a parameter `render_mode`), a "
                "native one a method `render(state)`"
            )
        self.show_now(obs)
        return obs

    def step(self, action: Tensor) -> EnvStep:
        step = self.env.step(action)
        if self.left and bool(step.terminated[0] | step.truncated[0]):
            self.left -= 1
            end = self.drawn(self.env.render_end) if self.draws else newest_frame(step.next_obs, self.spec.obs)
            if end is not None:
                self.show(enlarge(end))
        if self.left:
            self.show_now(step.obs)
        return step

    def show_now(self, obs: Tree) -> None:
        picture = self.drawn(self.env.render) if self.draws else newest_frame(obs, self.spec.obs)
        assert picture is not None
        self.show(enlarge(picture))

    def drawn(self, draw: Callable[[], np.ndarray | None]) -> np.ndarray | None:
        """Returns the picture that `draw` makes; raises a ValueError if the graphics of a simulator fail."""
        try:
            with warnings.catch_warnings(action="ignore"):  # GLFW's, before MuJoCo's error
                return draw()
        except graphics_errors() as error:
            raise ValueError(
                f"{self.name} cannot be filmed: drawing it failed with {type(error).__name__} ({error}); {SCREENLESS}"
            ) from error

    def get_state(self) -> dict:
        return self.env.get_state()

    def set_state(self, state: dict) -> Tree | None:
        return self.env.set_state(state)
