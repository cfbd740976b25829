"""Small games whose right values are known: what QMIX and VDN can represent, they learn.

Of the two-step game, the first of five seeds runs in `make test`, the others in `make test-all`.
"""

import itertools

import pytest
import torch
from torch import Tensor

from rl_training import QMIX, VDN, Agent, IndependentQ
from rl_training.core import StepBatch
from rl_training.envs import NATIVE

SEEDS = [pytest.param(seed, marks=[pytest.mark.slow] if seed else []) for seed in range(5)]
RANDOM = {"exploration_initial_eps": 1.0, "exploration_final_eps": 1.0}
TWO_STEP = RANDOM | {
    "n_envs": 64, "train_freq": 64, "learning_starts": 16_384, "buffer_size": 24_000, "batch_size": 256, "gradient_steps": 8,
    "gamma": 1.0, "target_update_interval": 640, "learning_rate": "lin_5e-3", "total_timesteps": 22_784, "compile": False,
    "threads": 1,
}  # fmt: skip


def learned(kind: type[Agent], seed: int) -> Agent:
    agent = kind("matrix/two_step", seed=seed, **TWO_STEP)
    agent.learn(progress=False)
    return agent


def table(agent: Agent, state: Tensor, choices: int) -> Tensor:
    """The team's value of every pair of actions in a state."""
    pairs = torch.tensor(list(itertools.product(range(choices), repeat=2)))
    states = state.expand(len(pairs), -1)
    obs = {"player": states.unsqueeze(1).expand(-1, 2, -1), "state": states}
    return agent.algorithm.team_value(obs, {"player": pairs}).view(choices, choices)


@pytest.mark.parametrize("seed", SEEDS)
def test_qmix_finds_the_best_pair_of_the_two_step_game(seed: int) -> None:
    agent = learned(QMIX, seed)
    assert agent.evaluate(2).mean == 8.0
    second = table(agent, torch.tensor([[0.0, 0.0, 1.0]]), 2)
    torch.testing.assert_close(second, torch.tensor([[0.0, 1.0], [1.0, 8.0]]), atol=0.1, rtol=0.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_vdn_prefers_the_safe_game_because_a_sum_cannot_tell_the_other(seed: int) -> None:
    agent = learned(VDN, seed)
    assert agent.evaluate(2).mean == 7.0
    second = table(agent, torch.tensor([[0.0, 0.0, 1.0]]), 2)
    torch.testing.assert_close(second, torch.tensor([[-1.5, 2.5], [2.5, 6.5]]), atol=0.1, rtol=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_independent_agents_prefer_the_safe_game_too(seed: int) -> None:
    assert learned(IndependentQ, seed).evaluate(2).mean == 7.0


def every_pair(payoff: Tensor) -> StepBatch:
    """All joint actions of a matrix game, each once."""
    num = len(payoff)
    pairs = torch.tensor(list(itertools.product(range(num), repeat=2)))
    ones = torch.ones(len(pairs), 1)
    obs = {"player": ones.unsqueeze(1).expand(-1, 2, -1), "state": ones}
    zeros = torch.zeros(len(pairs))
    return StepBatch(obs, {"player": pairs}, payoff.flatten(), zeros, obs, zeros + 1, {})  # pyrefly: ignore (a team's)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("name", "settled_for"), [("climbing", 5.0), ("penalty", 2.0)])
def test_vdn_learns_the_mean_of_row_and_column_and_settles_for_less(name: str, settled_for: float, seed: int) -> None:
    """Relative over-generalisation: the best pair, 11 or 10, lies where the mean of row or column is bad."""
    agent = VDN(f"matrix/{name}", seed=seed, learning_rate=1e-2, max_grad_norm=None, compile=False, threads=1)
    payoff = NATIVE[f"matrix/{name}"]().payoff
    batch = every_pair(payoff)
    for step in range(500):
        agent.algorithm.optimizer("q").learning_rates[0].value.fill_(1e-2 * (1 - step / 500))
        agent.algorithm.update(batch)
    closed_form = payoff.mean(1, keepdim=True) + payoff.mean(0, keepdim=True) - payoff.mean()
    torch.testing.assert_close(table(agent, torch.ones(1, 1), 3), closed_form, atol=0.05, rtol=0.0)
    assert agent.evaluate(1).mean == settled_for
