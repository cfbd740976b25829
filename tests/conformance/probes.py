"""Probe environments: each isolates one thing an algorithm must get right, with the best return known."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Probe(gym.Env):
    """Observes one number in {-1, 1}; ends after `length` steps."""

    length = 1
    best = 1.0
    continuous = False

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32) if self.continuous else gym.spaces.Discrete(2)

    def draw(self) -> float:
        return float(self.np_random.choice([-1.0, 1.0]))

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.count = 0
        self.seen = self.draw()
        return np.array([self.seen], np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        side = float(action[0]) if self.continuous else 2.0 * float(action) - 1.0
        reward = self.reward(side)
        self.count += 1
        self.seen = self.draw()
        return np.array([self.seen], np.float32), reward, self.count >= self.length, False, {}

    def reward(self, side: float) -> float:
        raise AssertionError("each probe has its own reward")


class ConstantReward(Probe):
    """The value of every state is 1."""

    def reward(self, side: float) -> float:
        return 1.0


class ObservationReward(Probe):
    """The value of a state is its observation."""

    best = 0.0

    def reward(self, side: float) -> float:
        return self.seen


class DelayedReward(Probe):
    """A reward after three steps: values must be discounted backwards. The observation is the step."""

    length = 3

    def draw(self) -> float:
        return float(self.count - 1)

    def reward(self, side: float) -> float:
        return 1.0 if self.count == self.length - 1 else 0.0


class ActionReward(Probe):
    """One action is right everywhere."""

    def reward(self, side: float) -> float:
        return side if not self.continuous else 1.0 - (side - 0.5) ** 2


class Matching(Probe):
    """The right action is the observation."""

    length = 4
    best = 4.0

    def reward(self, side: float) -> float:
        return side * self.seen if not self.continuous else 1.0 - 0.25 * (side - self.seen) ** 2


class ContinuousConstantReward(ConstantReward):
    continuous = True


class ContinuousObservationReward(ObservationReward):
    continuous = True


class ContinuousDelayedReward(DelayedReward):
    continuous = True


class ContinuousActionReward(ActionReward):
    continuous = True


class ContinuousMatching(Matching):
    continuous = True


class Bits(gym.Env):
    """Four bits are right, one of them given by the observation; MultiBinary actions."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Discrete(2)
        self.action_space = gym.spaces.MultiBinary(3)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.seen = int(self.np_random.integers(2))
        return self.seen, {}

    def step(self, action: np.ndarray) -> tuple[int, float, bool, bool, dict]:
        right = int(action[0] == self.seen) + int(action[1] == 1) + int(action[2] == 0)
        return self.seen, right / 3, True, False, {}


class Choices(Bits):
    """Two choices with two and three options; MultiDiscrete actions."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = gym.spaces.MultiDiscrete([2, 3])

    def step(self, action: np.ndarray) -> tuple[int, float, bool, bool, dict]:
        right = int(action[0] == self.seen) + int(action[1] == 2)
        return self.seen, right / 2, True, False, {}


class Masked(gym.Env):
    """Three actions of which one is forbidden in turn; taking a forbidden one is an error, not a penalty."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Dict(
            {"observation": gym.spaces.Box(-1.0, 1.0, (3,), np.float32), "action_mask": gym.spaces.MultiBinary(3)}
        )
        self.action_space = gym.spaces.Discrete(3)

    def observe(self) -> dict[str, np.ndarray]:
        self.forbidden = int(self.np_random.integers(3))
        mask = np.ones(3, np.int8)
        mask[self.forbidden] = 0
        return {"observation": np.eye(3, dtype=np.float32)[self.forbidden], "action_mask": mask}

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}

    def step(self, action: int) -> tuple[dict, float, bool, bool, dict]:
        assert action != self.forbidden, "a forbidden action was taken"
        self.count += 1
        reward = 1.0 if action == (self.forbidden + 1) % 3 else 0.0
        return self.observe(), reward, self.count >= 4, False, {}


class Pictures(gym.Env):
    """A bright or a dark picture beside a number; both say which action is right. Dict with a uint8 image."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Dict(
            {
                "camera": gym.spaces.Box(0, 255, (36, 36, 1), np.uint8),
                "side": gym.spaces.Box(-1.0, 1.0, (1,), np.float32),
            }
        )
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self.side = int(self.np_random.integers(2))
        return self.observe(), {}

    def observe(self) -> dict[str, np.ndarray]:
        picture = np.full((36, 36, 1), 255 * self.side, np.uint8)
        return {"camera": picture, "side": np.array([2.0 * self.side - 1.0], np.float32)}

    def step(self, action: int) -> tuple[dict, float, bool, bool, dict]:
        return self.observe(), float(action == self.side), True, False, {}


class PictureReward(Pictures):
    """The value of a state is its brightness; Box actions, which do nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        return self.observe(), float(self.side), True, False, {}


class Privileged(Probe):
    """The right action is the position; the reward is moved up or down by a state that no action changes."""

    best = 1.0
    told = True

    def __init__(self) -> None:
        super().__init__()
        number = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = gym.spaces.Dict({"position": number} | ({"state": number} if self.told else {}))

    def observe(self) -> dict[str, np.ndarray]:
        seen = {"position": self.seen, "state": self.state}
        return {key: np.array([seen[key]], np.float32) for key in self.observation_space}  # pyrefly: ignore (a Dict)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        _, info = super().reset(seed=seed)
        self.state = self.draw()
        return self.observe(), info

    def step(self, action: Any) -> tuple[dict, float, bool, bool, dict]:
        _, *rest = super().step(action)
        return self.observe(), *rest

    def reward(self, side: float) -> float:
        matching = 1.0 - 0.25 * (side - self.seen) ** 2 if self.continuous else side * self.seen
        return matching + (2.0 * self.state if self.told else 0.0)


class ContinuousPrivileged(Privileged):
    continuous = True


class Untold(Privileged):
    """The same without the state: what a policy finds where it is used."""

    told = False


class ContinuousUntold(Untold):
    continuous = True
