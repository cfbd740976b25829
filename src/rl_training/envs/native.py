"""Environments written as batched tensor code: they run on the device of the learner and compile with the policy."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Spec, Tree
from rl_training.envs.episode_columns import SUCCESS, EpisodeColumns, wanted_names
from rl_training.envs.pictures import check_picture
from rl_training.envs.vector import EnvStep, StateKind, VectorEnv, seeds_for


class NativeDynamics(ABC):
    """Base of the rules of one environment, pure functions of a tensor [num_envs, state size] without randomness.

    Random numbers are arguments, so that the rules can be compiled and replayed. If steps need some, too, derive from
    `RandomDynamics`. Tensors that are attributes are moved to the environments' device.
    """

    spec: Spec
    max_episode_steps: int
    num_random: int  # how many uniform numbers a new episode takes
    num_step_random: int = 0  # and every step, see `RandomDynamics`
    info_names: tuple[str, ...] = ()  # of what `info` gives
    render_fps: float = 30  # pictures per second of a video

    @property
    def protocol(self) -> dict[str, object]:
        """Returns the settings on which scores depend, as plain data, which results carry; {} by default."""
        return {}

    @abstractmethod
    def initial(self, uniform: Tensor) -> Tensor:
        """Returns first states [num_envs, state size] made of uniform numbers in [0, 1), [num_envs, num_random]."""

    @abstractmethod
    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the next state [num_envs, state size], and the reward and the bool `terminated`, [num_envs] each.

        `state` is [num_envs, state size], `action` [num_envs, ...] in the environment's units.
        """

    def observe(self, state: Tensor) -> Tree:
        return state

    def info(self, state: Tensor) -> dict[str, Tensor]:
        """Returns one tensor [num_envs] under each name in `info_names`; {} by default.

        `state` [num_envs, state size] is the one that a step has led to.
        """
        return {}

    def render(self, state: Tensor) -> np.ndarray | None:
        """Returns a picture of the state of one environment, [state size], as uint8 [height, width, 3].

        Returns None by default: then videos show the observations if these are pictures.
        """
        return None


def move_tensors(rules: object, device: torch.device) -> None:
    """Moves the tensors among an object's attributes to `device`: a recorded step cannot copy them from the host."""
    for name, value in vars(rules).items():
        if isinstance(value, Tensor):
            setattr(rules, name, value.to(device))


class RandomDynamics(NativeDynamics):
    """Base of rules by chance: every step takes `num_step_random` uniform numbers of its own."""

    num_step_random: int

    @abstractmethod
    def step(  # pyrefly: ignore[bad-override]  (NativeEnv passes one argument more)
        self, state: Tensor, action: Tensor, uniform: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the next state [num_envs, state size], and the reward and the bool `terminated`, [num_envs] each.

        `state` is [num_envs, state size], `action` [num_envs, ...] in the environment's units, and `uniform` has
        numbers in [0, 1), [num_envs, num_step_random].
        """


class GoalDynamics(NativeDynamics):
    """Base of rules with goals: observations are a dict of `observation`, `achieved_goal` and `desired_goal`."""

    info_names = (SUCCESS,)

    @abstractmethod
    def judge(self, achieved: Tensor, desired: Tensor) -> tuple[Tensor, Tensor]:
        """Returns rewards and bool terminations [...] of steps that achieved `achieved` if `desired` had been desired.

        Both are goals [..., goal size]. Must be pure tensor code that agrees with `step`: a replay calls it with other
        goals.
        """


class NativeEnv(VectorEnv):
    """A vector environment of `num_envs` copies of `dynamics`, with time limit and restart, on `device`."""

    state_kind: StateKind = "exact"
    tensor_code = True
    stepped_as = "tensors"

    def __init__(
        self,
        dynamics: NativeDynamics,
        num_envs: int,
        *,
        max_episode_steps: int | None = None,
        device: torch.device | str = "cpu",
        start: int = 0,
    ) -> None:
        self.dynamics, self.num_envs, self.spec = dynamics, num_envs, dynamics.spec
        self.start = start  # the number of its first environment among those of the run
        self.max_episode_steps = max_episode_steps or dynamics.max_episode_steps
        self.device = torch.device(device)  # pyrefly: ignore[read-only]  (torch.device is no descriptor)
        move_tensors(dynamics, self.device)
        self.generator = torch.Generator(self.device)
        self.state = torch.empty(0)
        self.elapsed = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self.all_valid = torch.ones(num_envs, dtype=torch.bool, device=self.device)
        self.render_fps = dynamics.render_fps
        self.reached = self.state  # the last states before restarts, while it is filmed
        self.ask_columns(())

    def ask_columns(self, keys: tuple[str, ...]) -> None:
        names = self.dynamics.info_names
        unknown = next((key for key in keys if key not in names), None)
        if unknown is not None:
            given = f"which gives {', '.join(map(repr, names))}" if names else "which gives none"
            raise ValueError(
                f"env.info_keys: {unknown!r} is not a column of {type(self.dynamics).__name__}, {given}: name it in "
                "`info_names` and return it from `info`, or leave the key out"
            )
        self.column_names = tuple(name for name in wanted_names(keys) if name in names)

    def reset(self, seed: int) -> Tree:
        self.generator.manual_seed(seeds_for(seed, self.start + 1)[-1] if self.start else seed)
        self.state = self.first_states(self.draw()).contiguous()  # as a checkpoint gives it back
        self.elapsed = torch.zeros_like(self.elapsed)
        return self.dynamics.observe(self.state)

    def draw(self) -> Tensor:
        """Draws the numbers in [0, 1) of one step: for first states, then for the step, [num_envs, both counts]."""
        num = self.dynamics.num_random + self.dynamics.num_step_random
        return torch.rand(self.num_envs, num, generator=self.generator, device=self.device)

    def first_states(self, uniform: Tensor) -> Tensor:
        return self.dynamics.initial(uniform[:, : self.dynamics.num_random])

    def next_states(self, state: Tensor, action: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if isinstance(self.dynamics, RandomDynamics):
            return self.dynamics.step(state, action, uniform[:, self.dynamics.num_random :])
        return self.dynamics.step(state, action)

    def step(self, action: Tensor) -> EnvStep:
        self.state, self.elapsed, result = self.advance(self.state, self.elapsed, action, self.draw())
        return result

    def advance(
        self, state: Tensor, elapsed: Tensor, action: Tensor, uniform: Tensor
    ) -> tuple[Tensor, Tensor, EnvStep]:
        """Takes one step as a pure function; returns the new state, the elapsed steps of episodes and the `EnvStep`.

        `uniform` is a result of `draw`. Episodes that end start again from its first numbers; their `EnvStep` has the
        last observation in `next_obs` and the first one in `obs`.
        """
        next_state, reward, terminated = self.next_states(state, action, uniform)
        if terminated.dtype != torch.bool:
            raise ValueError(f"the step's terminated is {terminated.dtype}: return a tensor of torch.bool")
        if self.filmed:
            self.reached = next_state
        elapsed = elapsed + 1
        truncated = elapsed >= self.max_episode_steps
        done = terminated | truncated
        state = torch.where(done.unsqueeze(-1), self.first_states(uniform), next_state).contiguous()
        elapsed = torch.where(done, 0, elapsed)
        next_obs, obs = self.dynamics.observe(next_state), self.dynamics.observe(state)
        columns = self.read_columns(next_state) if self.column_names else {}
        return state, elapsed, EnvStep(reward, terminated, truncated, next_obs, obs, self.all_valid, columns)

    def read_columns(self, state: Tensor) -> EpisodeColumns:
        given, shape = self.dynamics.info(state), state.shape[:-1]
        for name in self.column_names:
            if name not in given or given[name].shape != shape:
                what = f"{name!r} of shape {tuple(given[name].shape)}" if name in given else f"no {name!r}"
                raise ValueError(
                    f"`info` of {type(self.dynamics).__name__} returned {what}: return a tensor of shape {tuple(shape)} "
                    "for each of `info_names`"
                )
        columns = {name: given[name] > 0 if name == SUCCESS else given[name] for name in self.column_names}
        return {name: column.to(torch.float64) for name, column in columns.items()}

    def render(self) -> np.ndarray | None:
        return check_picture(self.dynamics.render(self.state[0].cpu()))

    def render_end(self) -> np.ndarray | None:
        return check_picture(self.dynamics.render(self.reached[0].cpu()))

    def judge(self, achieved: Tensor, desired: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(self.dynamics, GoalDynamics)
        return self.dynamics.judge(achieved, desired)

    @property
    def why_no_judge(self) -> str | None:
        if isinstance(self.dynamics, GoalDynamics):
            return None
        kind = type(self.dynamics).__name__
        return f"{kind} has no `judge` that rewards steps by other goals: derive it from GoalDynamics and write one"

    def get_state(self) -> dict:
        return {"state": self.state, "elapsed": self.elapsed, "generator": self.generator.get_state()}

    def set_state(self, state: dict) -> Tree | None:
        self.generator.set_state(state["generator"])
        if self.state_kind == "boundary":
            self.state, self.elapsed = self.first_states(self.draw()), torch.zeros_like(self.elapsed)
            return self.dynamics.observe(self.state)
        self.state, self.elapsed = state["state"].to(self.device), state["elapsed"].to(self.device)
        return None
