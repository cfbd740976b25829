"""Parallel environments in PettingZoo's form: the runners of `tests/relay.py`, and others that break a rule each."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from tests.relay import ACTING, ALIVE, LENGTH, REWARD

NAMES = ["runner_0", "runner_1", "runner_2"]


class ParallelRelay:
    """The runners of `tests/relay.py`; who waits is allowed no action."""

    metadata: dict[str, Any] = {}
    state_space = spaces.Box(0.0, 1.0, (LENGTH,), np.float32)

    def __init__(self) -> None:
        self.possible_agents, self.agents = list(NAMES), list[str]()
        self.time = 0

    def observation_space(self, agent: str) -> spaces.Space:
        return spaces.Dict(
            {"observation": spaces.Box(0.0, 1.0, (LENGTH,), np.float32), "action_mask": spaces.MultiBinary(2)}
        )

    def action_space(self, agent: str) -> spaces.Space:
        return spaces.Discrete(2)

    def state(self) -> np.ndarray:
        return np.eye(LENGTH + 1, LENGTH, dtype=np.float32)[self.time]

    def observe(self, names: list[str]) -> dict[str, Any]:
        acting = [*ACTING, [0, 0, 0]][self.time]
        masks = {name: np.full(2, acting[NAMES.index(name)], np.int8) for name in names}
        return {name: {"observation": self.state(), "action_mask": masks[name]} for name in names}

    def living(self) -> list[str]:
        return [name for name, alive in zip(NAMES, [*ALIVE, [0, 0, 0]][self.time], strict=True) if alive]

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        self.time = 0
        self.agents = self.living()
        return self.observe(self.agents), {name: {} for name in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[dict, dict, dict, dict, dict]:
        assert sorted(actions) == sorted(self.agents)
        before, last = self.agents, self.time == LENGTH - 1
        rewards = {name: float(REWARD[self.time][NAMES.index(name)]) for name in before}
        terminated = {name: last or (self.time == 2 and name == NAMES[0]) for name in before}
        truncated = {name: self.time == 2 and name == NAMES[1] for name in before}
        self.time += 1
        self.agents = self.living()
        named = list(dict.fromkeys([*before, *self.agents]))
        return self.observe(named), rewards, terminated, truncated, {name: {} for name in named}

    def close(self) -> None: ...


class Stranger(ParallelRelay):
    def step(self, actions: dict[str, int]) -> tuple[dict, dict, dict, dict, dict]:
        obs, rewards, *rest = super().step(actions)
        return obs, rewards | {"nobody": 1.0}, *rest


class Silent(ParallelRelay):
    """Runner 0 leaves without an end."""

    def step(self, actions: dict[str, int]) -> tuple[dict, dict, dict, dict, dict]:
        obs, rewards, terminated, *rest = super().step(actions)
        return obs, rewards, dict.fromkeys(terminated, False), *rest


class Unlike(ParallelRelay):
    def action_space(self, agent: str) -> spaces.Space:
        return spaces.Discrete(3 if agent == NAMES[1] else 2)


class Pair:
    """Two agents for five steps; `mask` is what `info` allows them, `actions` theirs, and `state` what `state()` does."""

    metadata: dict[str, Any] = {}

    def __init__(self, mask: list[int] | None = None, actions: spaces.Space | None = None, state: Any = None) -> None:
        self.possible_agents, self.agents = ["a_0", "a_1"], list[str]()
        self.time, self.seen = 0, spaces.Box(0.0, 1.0, (2,), np.float32)
        self.infos = {} if mask is None else {"action_mask": np.array(mask, np.int8)}
        self.actions = actions or spaces.Discrete(2)
        if state is not None:
            self.state, self.state_space = state, self.seen

    def observation_space(self, agent: str) -> spaces.Space:
        return self.seen

    def action_space(self, agent: str) -> spaces.Space:
        return self.actions

    def answer(self) -> tuple[dict, dict]:
        names = self.possible_agents
        return {name: np.full(2, self.time / 5, np.float32) for name in names}, dict.fromkeys(names, self.infos)

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        self.time, self.agents = 0, list(self.possible_agents)
        return self.answer()

    def step(self, actions: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        self.time += 1
        over = dict.fromkeys(self.agents, self.time == 5)
        rewards = dict.fromkeys(self.agents, 1.0)
        self.agents = [] if self.time == 5 else self.agents
        obs, infos = self.answer()
        return obs, rewards, over, dict.fromkeys(over, False), infos

    def close(self) -> None: ...


class LateState(Pair):
    """A pair whose state cannot be read once nobody is left, as in PettingZoo's multiwalker."""

    def __init__(self) -> None:
        super().__init__(state=lambda: {True: np.zeros(2, np.float32)}[bool(self.agents)])


class Keyless(Pair):
    """The second observation has no key `b`."""

    def observation_space(self, agent: str) -> spaces.Space:
        return spaces.Dict({"a": self.seen, "b": self.seen})

    def answer(self) -> tuple[dict, dict]:
        obs, infos = super().answer()
        return {name: {"a": x, "b": x} if self.time == 0 else {"a": x} for name, x in obs.items()}, infos


class Drawn(Pair):
    """A pair that draws the step it is in."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def render(self) -> np.ndarray:
        return np.full((16, 16, 3), 40 * self.time, np.uint8)


class Leftover(Pair):
    """Agents stay in `agents` when they have ended."""

    def step(self, actions: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        answer = super().step(actions)
        self.agents = list(self.possible_agents)
        return answer


class Unseen(Pair):
    """Truncated agents have no last observation."""

    def step(self, actions: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        obs, rewards, over, never, infos = super().step(actions)
        return {name: obs[name] for name in self.agents}, rewards, never, over, infos


class Cut(Pair):
    """Both agents are truncated in the fifth step."""

    def step(self, actions: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        obs, rewards, over, never, infos = super().step(actions)
        return obs, rewards, never, over, infos


class Late(Pair):
    """The masks come after the first observation."""

    def answer(self) -> tuple[dict, dict]:
        obs, infos = super().answer()
        return obs, infos if self.time == 0 else {name: {"action_mask": np.ones(2, np.int8)} for name in infos}


class Empty(Pair):
    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        super().reset()
        self.agents = []
        return {}, {}


class OldReset(Pair):
    def reset(self, seed: int | None = None, options: dict | None = None) -> dict:  # pyrefly: ignore (that is wrong)
        return super().reset()[0]


class Wordy(Pair):
    def step(self, actions: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        obs, rewards, *rest = super().step(actions)
        return obs, dict.fromkeys(rewards, "one"), *rest


class Turns:
    """An environment in which agents take turns."""

    def __init__(self) -> None:
        self.possible_agents = NAMES

    def agent_iter(self) -> None: ...
