"""Trains the pointer policy on one task and prints its return; every action must be allowed."""

import torch

from rl_training.api import Agent
from rl_training.experiment import RunConfig
from sage.sim.environment import baselines, packed, pointer_ppo
from sage.sim.environment.dynamics import SoftwareTaskDynamics
from tests.sage.sim.environment.test_dynamics import SURE, known_table

ALGORITHM = {
    "name": "pointer_ppo",
    "n_steps": 16,
    "batch_size": 256,
    "learning_rate": 3e-3,
    "net_arch": {"pi": [], "vf": [64]},
}
ENCODER = f"{pointer_ppo.__name__}:TaskEncoder"


def known_dynamics(shaping: bool = True) -> SoftwareTaskDynamics:
    return SoftwareTaskDynamics(packed.packed([known_table()]), SURE, shaping=shaping)


def learned(total_timesteps: int) -> Agent:
    env = {"id": "tests.sage.sim.environment.learn_by_pointer:known_dynamics", "backend": "native", "n_envs": 64}
    training = {"total_timesteps": total_timesteps, "seed": 0}
    values = {"algorithm": ALGORITHM | {"encoder": ENCODER}, "env": env, "training": training}
    agent = Agent(RunConfig.from_mapping(values))
    agent.learn(progress=False)
    return agent


def main() -> None:
    agent = learned(4_096)

    def choose(obs: dict[str, torch.Tensor]) -> torch.Tensor:
        action = agent.algorithm.policy.act(obs, explore=False).action
        assert obs["action_mask"].gather(-1, action.unsqueeze(-1)).all()
        return action

    dynamics = known_dynamics(shaping=False)
    total, _ = baselines.returns_of(choose, dynamics, baselines.draws(dynamics.tasks, 20, 0))
    print(total.mean().item())


if __name__ == "__main__":
    main()
