"""A critic that sees more than its policy: it predicts what the policy cannot, and the policy acts without it."""

from __future__ import annotations

import pytest
import torch

from rl_training import Agent
from tests.conformance import probes
from tests.conformance.cases import CASES, Case

BY_NAME = {case.name: case for case in CASES}
POSITION, BOTH = ["position"], ["position", "state"]
FIRST = {"PPO": 4_000, "SAC": 1_200}
REST = ["A2C", "APPO", "IMPALA", "TRPO", "RecurrentPPO", "TD3", "DDPG", "TQC", "CrossQ", "REDQ", "DiscreteSAC"]
ROWS = torch.tensor([[p, s] for p in (-1.0, 1.0) for s in (-1.0, 1.0)])


def trained(case: Case, critic: list[str], steps: int) -> Agent:
    told = probes.ContinuousPrivileged if case.acts_in == "box" else probes.Privileged
    agent = case.agent(told, obs_groups={"policy": POSITION, "critic": critic}, **case.plain_values)
    agent.learn(steps, progress=False)
    return agent


@torch.no_grad()
def values(agent: Agent) -> torch.Tensor:
    obs = {"position": ROWS[:, :1], "state": ROWS[:, 1:]}
    algorithm = agent.algorithm
    if agent.config.name == "recurrent_ppo":
        memory = algorithm.value_core.initial(len(ROWS))
        return algorithm.value_head(algorithm.value_core.advance(algorithm.critic_features(obs), memory)[0]).squeeze(-1)
    return algorithm.value(obs) if hasattr(algorithm, "value") else algorithm.values(obs)


def check(case: Case, steps: int) -> None:
    """Most of the reward's variance is the state's, and only a critic that sees it can know."""
    agent = trained(case, BOTH, steps)
    truth = 1.0 + 2.0 * ROWS[:, 1]
    torch.testing.assert_close(values(agent), truth, rtol=0, atol=0.35)
    elsewhere = probes.ContinuousUntold if case.acts_in == "box" else probes.Untold
    assert agent.evaluate(100, env=elsewhere).mean > 0.9  # where nothing but the position is observed
    blind = values(trained(case, POSITION, steps // 4))
    assert torch.equal(blind[::2], blind[1::2])  # one value for both states
    assert (blind - truth).abs().mean() > 1.5


@pytest.mark.parametrize(("name", "steps"), FIRST.items())
def test_only_a_critic_that_sees_the_state_knows_the_value(name: str, steps: int) -> None:
    check(BY_NAME[name], steps)


@pytest.mark.slow
@pytest.mark.parametrize("name", REST)
def test_and_so_of_every_method_with_actor_and_critic(name: str) -> None:
    check(BY_NAME[name], 2 * BY_NAME[name].probe_steps)
