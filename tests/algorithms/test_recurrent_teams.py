"""Recurrent methods for teams: every agent remembers for itself, and learns from what it remembered."""

import itertools

import pytest
import torch
from torch import Tensor

from rl_training import IPPO, Agent, RecurrentIPPO, RecurrentMAPPO
from rl_training.core import AgentGroup, Box, Discrete, TeamSpec
from rl_training.envs import NativeTeamEnv, TeamDynamics, TeamStep
from rl_training.runtime import make_collector
from tests.relay import LENGTH, Relay

STEPS = 3


class Recall(TeamDynamics):
    """Two agents each see a sign of their own in the first step, and are to repeat it in the last."""

    max_episode_steps, num_random = STEPS, 2
    spec = TeamSpec.of(
        [AgentGroup("agent", ("agent_0", "agent_1"), Box((1,), (-1.0,), (1.0,)), Discrete(2))],
        state=Box((3,), (-1.0,) * 3, (1.0,) * 3),
        reward="sum",
    )

    def initial(self, uniform: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(uniform[:, :1]), (uniform > 0.5) * 2.0 - 1], -1)

    def step(self, state: Tensor, action: dict[str, Tensor], uniform: Tensor) -> TeamStep:
        time, signs = state[:, :1], state[:, 1:]
        said = action["agent"] * 2.0 - 1
        reward = torch.where(time == STEPS - 1, said * signs, 0.0)
        return TeamStep(torch.cat([time + 1, signs], -1), reward, time[:, 0] == STEPS - 1)

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        seen = torch.where(state[:, :1] == 0, state[:, 1:], 0.0)
        return {"agent": seen.unsqueeze(-1), "state": torch.cat([state[:, :1] / STEPS, state[:, 1:]], -1)}


SMALL = {"backend": "native", "seed": 0, "compile": False, "threads": 1, "agent_id": False}
SETTINGS = SMALL | {
    "n_envs": 32, "n_steps": 12, "batch_size": 192, "n_epochs": 4, "learning_rate": 1e-2, "gamma": 0.9, "net_arch": [16],
}  # fmt: skip
MEMORY = {"cell": "gru", "lstm_hidden_size": 16}


@pytest.mark.parametrize("kind", [RecurrentIPPO, RecurrentMAPPO])
def test_agents_repeat_what_only_their_memory_holds(kind: type[Agent]) -> None:
    agent = kind(Recall, **SETTINGS, **MEMORY)
    agent.learn(32 * 12 * 15, progress=False)
    assert agent.evaluate(64).mean == 2.0


def test_without_memory_the_best_is_a_guess() -> None:
    agent = IPPO(Recall, **SETTINGS)
    agent.learn(32 * 12 * 15, progress=False)
    assert abs(agent.evaluate(200).mean) < 0.6  # six standard deviations of the mean of as many guesses


@pytest.mark.parametrize(("kind", "dynamics"), [(RecurrentIPPO, Recall), (RecurrentMAPPO, Relay)])
def test_the_first_update_sees_what_the_collector_saw(kind: type[Agent], dynamics: type[TeamDynamics]) -> None:
    """Before any update, the memory of pieces gives every action its log-probability and every state its value again."""
    agent = kind(
        dynamics, **SETTINGS | MEMORY | {"cell": "lstm", "n_envs": 3, "n_steps": 2 * LENGTH + 1, "batch_size": 8}
    )
    algorithm, steps = agent.algorithm, 2 * LENGTH + 1
    collector = make_collector(NativeTeamEnv(dynamics(), 3), algorithm.policy, seed=0, columns=algorithm.columns)
    collector.collect(algorithm.policy, 4)  # memory and pieces begin in the middle of episodes
    batch, _ = algorithm.prepare(collector.collect(algorithm.policy, steps))
    name, member = algorithm.groups()[0]
    view, found = algorithm.view(name), batch.groups[name]
    assert member.policy.initial_memory(1)[0].shape[0] == 1
    first = found.columns["first"][:, :, 0]
    begins = [0, *(first[1:, 0].nonzero().flatten() + 1).tolist(), steps]
    for start, stop in itertools.pairwise(begins):
        piece = found._replace(
            **{
                key: getattr(found, key)[start:stop, 0]
                for key in ("action", "log_prob", "advantage", "value", "target", "weight")
            },
            columns={key: column[start:stop, 0] for key, column in found.columns.items()},
            obs=view({key: x[start:stop, :1] for key, x in batch.obs.items()}, 2),
        )
        distribution = member.batch_distribution(piece)
        counts = piece.weight > 0
        new, old = distribution.log_prob(piece.action), piece.log_prob
        torch.testing.assert_close(new[counts], old[counts])
        torch.testing.assert_close(member.batch_value(piece), piece.value)
    assert len(begins) > 3
