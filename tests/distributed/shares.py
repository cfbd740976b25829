"""Updates on fixed batches, of which a rank takes its share: what several learn together, one learns alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from rl_training.algorithms import (
    A2CAlgorithm,
    A2CConfig,
    DQNAlgorithm,
    DQNConfig,
    PPOAlgorithm,
    PPOConfig,
    SACAlgorithm,
    SACConfig,
    TD3BCAlgorithm,
    TD3BCConfig,
    TRPOAlgorithm,
    TRPOConfig,
)
from rl_training.algorithms.on_policy import NetArch
from rl_training.core import (
    Algorithm,
    Box,
    Discrete,
    Ranks,
    RolloutBatch,
    Schedule,
    Spec,
    StepBatch,
    Transition,
    tree_map,
)
from rl_training.experience import RewardScaling
from tests.rollouts import random_steps

ROWS, UPDATES = 64, 10
OBS = Box((3,), (-10.0,) * 3, (10.0,) * 3)
DISCRETE, CONTINUOUS = Spec(OBS, Discrete(4)), Spec(OBS, Box((2,), (-1.0,) * 2, (1.0,) * 2))
ON_POLICY = {"net_arch": NetArch((16,), (16,)), "normalize_observation": True, "normalize_advantage": True}


class SharedNoise(TorchFunctionMode):
    """Draws the noise of the whole batch and hands out that of a rank's rows."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is not torch.randn_like:
            return func(*args, **(kwargs or {}))
        like = args[0]
        whole = torch.randn(like.shape[0] * self.ranks.number, *like.shape[1:], dtype=like.dtype)
        return whole.chunk(self.ranks.number)[self.ranks.rank]


def share(rows: tuple, ranks: Ranks) -> tuple:
    return tree_map(lambda x: x.chunk(ranks.number)[ranks.rank], rows)


def weights(gen: torch.Generator) -> Tensor:
    """Most of the rows that do not count are in the first half."""
    return (torch.rand(ROWS, generator=gen) > torch.linspace(0.6, 0.0, ROWS)).float()


def rollout_batches(spec: Spec) -> Iterator[RolloutBatch]:
    for seed in range(UPDATES):
        gen = torch.Generator().manual_seed(seed)
        obs = 3 * torch.randn(ROWS, 3, generator=gen) + 1
        action = torch.randint(4, (ROWS,), generator=gen) if spec is DISCRETE else torch.randn(ROWS, 2, generator=gen)
        log_prob, advantage, value, target = torch.randn(4, ROWS, generator=gen)
        log_prob = -1.4 + 0.1 * log_prob if spec is DISCRETE else -3.0 + 0.1 * log_prob
        advantage = advantage + torch.linspace(0, 5, ROWS)
        yield RolloutBatch(obs, action, log_prob, advantage, value, target, weights(gen), {})


def step_batches(spec: Spec) -> Iterator[StepBatch]:
    for seed in range(UPDATES):
        gen = torch.Generator().manual_seed(seed)
        obs, next_obs = torch.randn(2, ROWS, 3, generator=gen)
        action = torch.randint(4, (ROWS,), generator=gen)
        if spec is CONTINUOUS:
            action = 2 * torch.rand(ROWS, 2, generator=gen) - 1
        discount = 0.99 * (torch.rand(ROWS, generator=gen) > 0.1)
        probability = torch.rand(ROWS, generator=gen, dtype=torch.float64) * torch.linspace(0.1, 1, ROWS)
        columns = {"probability": probability} if spec is DISCRETE else {}
        yield StepBatch(obs, action, torch.randn(ROWS, generator=gen), discount, next_obs, weights(gen), columns)


def learn(algorithm: Algorithm, ranks: Ranks, batches: Iterator, *methods: str) -> dict[str, Tensor]:
    """What an algorithm holds, and what it said of its updates, after all of them."""
    algorithm.ranks = ranks
    said: dict[str, list[Tensor]] = {}
    torch.manual_seed(1)
    with SharedNoise(ranks):
        for whole in batches:
            batch = share(whole, ranks)
            for method in methods:
                for name, value in getattr(algorithm, method)(batch).metrics.items():
                    if name != "q_mean":  # of all rows, whether they count or not
                        said.setdefault(f"said/{name}", []).append(value)
            if algorithm.observes:
                algorithm.observe(batch.obs, batch.weight > 0)
    return dict(algorithm.state_dict()) | {name: torch.stack(values) for name, values in said.items()}


def ppo(ranks: Ranks, **settings: object) -> dict[str, Tensor]:
    algorithm = PPOAlgorithm(PPOConfig(**ON_POLICY, learning_rate=Schedule(1e-2, 1e-2), **settings), CONTINUOUS)
    return learn(algorithm, ranks, rollout_batches(CONTINUOUS), "update")


def ppo_that_stops(ranks: Ranks) -> dict[str, Tensor]:
    return ppo(ranks, target_kl=0.27)


def a2c(ranks: Ranks) -> dict[str, Tensor]:
    return learn(A2CAlgorithm(A2CConfig(**ON_POLICY), DISCRETE), ranks, rollout_batches(DISCRETE), "update")


def trpo(ranks: Ranks) -> dict[str, Tensor]:
    algorithm = TRPOAlgorithm(TRPOConfig(**ON_POLICY), DISCRETE)
    return learn(algorithm, ranks, rollout_batches(DISCRETE), "update_policy", "update")


def sac(ranks: Ranks) -> dict[str, Tensor]:
    algorithm = SACAlgorithm(SACConfig(net_arch=(16, 16), normalize_observation=True), CONTINUOUS)
    return learn(algorithm, ranks, step_batches(CONTINUOUS), "update", "update_actor", "update_target")


def td3_bc(ranks: Ranks) -> dict[str, Tensor]:
    algorithm = TD3BCAlgorithm(TD3BCConfig(net_arch=(16, 16)), CONTINUOUS)
    return learn(algorithm, ranks, step_batches(CONTINUOUS), "update", "update_actor", "update_target")


def dqn(ranks: Ranks) -> dict[str, Tensor]:
    algorithm = DQNAlgorithm(DQNConfig(net_arch=(16,), learning_rate=Schedule(1e-3, 1e-3)), DISCRETE)
    return learn(algorithm, ranks, step_batches(DISCRETE), "update", "update_target")


def reward_scale(ranks: Ranks) -> dict[str, Tensor]:
    scaling, scaled = RewardScaling(0.99, 10.0), []
    for seed in range(3):
        steps = random_steps(16, 4, seed=seed)
        steps = steps._replace(reward=steps.reward * torch.tensor([1.0, 2.0, 30.0, 40.0]))
        mine: Transition = tree_map(lambda x: x.chunk(ranks.number, 1)[ranks.rank], steps)
        reward = torch.zeros(16, 4)
        reward.chunk(ranks.number, 1)[ranks.rank].copy_(scaling.scale(mine, ranks).reward)
        scaled.append(ranks.sum(reward))
    return {"reward": torch.stack(scaled), **scaling.moments._asdict()}


def not_finite(ranks: Ranks) -> dict[str, Tensor]:
    """The last row is: all ranks notice, and none moves."""
    algorithm = PPOAlgorithm(PPOConfig(net_arch=NetArch((16,), (16,))), CONTINUOUS)
    broken = next(rollout_batches(CONTINUOUS))
    broken.target[-1] = torch.nan
    return {
        name: value
        for name, value in learn(algorithm, ranks, iter([broken]), "update").items()
        if not name.startswith("said/")
    }


CASES: dict[str, Callable[[Ranks], dict[str, Tensor]]] = {
    case.__name__: case for case in (ppo, ppo_that_stops, a2c, trpo, sac, td3_bc, dqn, reward_scale, not_finite)
}


def run(case: str, ranks: Ranks) -> dict[str, Tensor]:
    torch.manual_seed(0)
    return CASES[case](ranks)
