"""Forbids actions with a mask: the observation is a dictionary with the key `action_mask`."""

from typing import Any

import gymnasium as gym
import numpy as np

from rl_training import PPO

NUM_ACTIONS = 6


class PickFromMenu(gym.Env):
    """Ten courses; in each, half of the dishes are sold out. Dish k pays k / 5, a sold-out one costs 10."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Dict(
            {
                "course": gym.spaces.Discrete(10),
                "action_mask": gym.spaces.MultiBinary(NUM_ACTIONS),
            }
        )
        self.action_space = gym.spaces.Discrete(NUM_ACTIONS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self.course = 0
        return self.observe(), {}

    def step(self, action: int) -> tuple[dict, float, bool, bool, dict]:
        reward = action / (NUM_ACTIONS - 1) if self.mask[action] else -10.0
        self.course += 1
        return self.observe(), float(reward), self.course == 10, False, {}

    def observe(self) -> dict[str, Any]:
        self.mask = np.zeros(NUM_ACTIONS, dtype=np.int8)
        self.mask[self.np_random.choice(NUM_ACTIONS, NUM_ACTIONS // 2, replace=False)] = 1
        return {"course": min(self.course, 9), "action_mask": self.mask}


def main() -> None:
    agent = PPO(PickFromMenu, n_envs=8, n_steps=64, batch_size=128, learning_rate=3e-3, seed=0)
    untrained = agent.evaluate(50, deterministic=False)
    print(f"untrained return {untrained.mean:.2f}, worst {min(untrained.returns):.2f}")
    assert min(untrained.returns) > 0  # not one sold-out dish, before any learning
    agent.learn(5_000)
    trained = agent.evaluate(50)
    print(f"trained return {trained.mean:.2f}")
    assert trained.mean > untrained.mean

    mask = np.array([1, 0, 1, 0, 0, 0])
    action, _ = agent.predict({"course": 0, "action_mask": mask})
    print(f"with only 0 and 2 allowed, the action is {action}")
    assert mask[action] == 1


if __name__ == "__main__":
    main()
