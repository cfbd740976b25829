"""What is imported acts as Stable-Baselines3's model did, and takes the same next training step."""

import numpy as np
import pytest
import torch

from rl_training import Agent
from rl_training.api.sb3.archive import Archive
from rl_training.api.sb3.families import family_of
from rl_training.core import Box, RolloutBatch, StepBatch
from tests.api.sb3.goldens import FOLDER, KINDS, NUMBERS, actions, golden

TOLERANCE = {"ppo": 1e-5, "a2c": 1e-5, "dqn": 1e-5, "qr_dqn": 1e-5} | dict.fromkeys(
    ("ddpg", "td3", "sac", "tqc", "crossq"), 1e-4
)


@pytest.mark.parametrize("name", KINDS)
def test_a_thousand_actions_are_those_of_stable_baselines3(name: str) -> None:
    agent = golden(name)
    assert type(agent).__name__ == KINDS[name]
    found, theirs = actions(agent, name), NUMBERS[f"{name}/actions"]
    assert found.shape == theirs.shape
    assert len(np.unique(theirs.round(4), axis=0)) > 1  # a policy that does one thing only would show nothing
    if isinstance(agent.spec.action, Box):
        assert np.abs(found - theirs).max() < 1e-5
    else:
        assert (found == theirs).all()


def batch_of(agent: Agent, name: str) -> RolloutBatch | StepBatch:
    """The batch of which Stable-Baselines3 took its step."""
    numbers = {
        key.rpartition("/")[2]: torch.tensor(x) for key, x in NUMBERS.items() if key.startswith(f"{name}/batch/")
    }
    action = numbers["actions"] if isinstance(agent.spec.action, Box) else numbers["actions"].flatten().long()
    if "advantages" in numbers:
        rest = (numbers[key] for key in ("old_log_prob", "advantages", "old_values", "returns"))
        return RolloutBatch(numbers["observations"], action, *rest, torch.ones(len(action)), {})
    discount = agent.config.algorithm.gamma * (1 - numbers["dones"].flatten())
    rest = (numbers["rewards"].flatten(), discount, numbers["next_observations"], torch.ones(len(action)), {})
    return StepBatch(numbers["observations"], action, *rest)


def noise_of(agent: Agent, name: str) -> list[torch.Tensor]:
    """The standard normal numbers of that step in our order, which begins with the next observations."""
    drawn = [torch.tensor(NUMBERS[key]) for key in (f"{name}/batch/noise1", f"{name}/batch/noise0") if key in NUMBERS]
    if name == "td3":
        return [drawn[0] / agent.config.algorithm.target_policy_noise]
    if name == "crossq":  # which draws for the next observations first, too
        drawn.reverse()
    return [] if name == "ddpg" else drawn


def step(agent: Agent, name: str) -> None:
    queue, batch = noise_of(agent, name), batch_of(agent, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "randn_like", lambda _: queue.pop(0))
        for method in ("update", *(extra.method for extra in agent.algorithm.passes()[0].periodic)):
            if method != "update_target" or name not in ("dqn", "qr_dqn"):  # theirs moves between env steps
                getattr(agent.algorithm, method)(batch)
    assert not queue


def gaps(agent: Agent, name: str) -> dict[str, float]:
    """By how much each of our tensors differs from Stable-Baselines3's after its step."""
    tensors = {key.partition("/after/")[2]: torch.tensor(x) for key, x in NUMBERS.items() if f"{name}/after/" in key}
    mine, plan = agent.algorithm.state_dict(), family_of(name, tensors, agent.spec).plan
    return {key: (mine[key] - read(tensors)).abs().max().item() for key, read in plan.items()}


@pytest.mark.parametrize("name", TOLERANCE)
def test_the_next_training_step_is_that_of_stable_baselines3(name: str) -> None:
    agent = golden(name)
    before = gaps(agent, name)
    step(agent, name)
    after = gaps(agent, name)
    assert max(before.values()) > 10 * TOLERANCE[name]  # the step is larger than what is tolerated
    assert {key: gap for key, gap in after.items() if gap > TOLERANCE[name]} == {}


@pytest.mark.parametrize("name", ["ppo", "dqn", "sac"])
def test_without_the_optimizers_averages_the_step_would_be_another(name: str) -> None:
    agent = golden(name)
    for optimizer in agent.algorithm.optimizers.values():
        for tensor in (optimizer.mean, optimizer.square, optimizer.count):
            tensor.zero_()
    step(agent, name)
    assert max(gaps(agent, name).values()) > TOLERANCE[name]


def test_all_eleven_algorithms_are_there_and_stable_baselines3_wrote_them() -> None:
    assert len(set(KINDS.values())) == 11
    assert {Archive(path).version for path in FOLDER.glob("*.zip")} == {"2.9.2"}
    assert {path.stem for path in FOLDER.glob("*.zip")} == set(KINDS)
