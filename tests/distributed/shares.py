"""Updates on fixed batches, of which a worker takes its share: what several learn together, one learns alone."""

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
    RolloutBatch,
    Schedule,
    Spec,
    StepBatch,
    Transition,
    Workers,
    tree_map,
)
from rl_training.experience import RewardScaling
from tests.rollouts import random_steps

ROWS, UPDATES = 64, 10
OBS = Box((3,), (-10.0,) * 3, (10.0,) * 3)
DISCRETE, CONTINUOUS = Spec(OBS, Discrete(4)), Spec(OBS, Box((2,), (-1.0,) * 2, (1.0,) * 2))
ON_POLICY = {"net_arch": NetArch((16,), (16,)), "normalize_observation": True, "normalize_advantage": True}


class SharedNoise(TorchFunctionMode):
    """Draws the noise of the whole batch and hands out that of a worker's rows."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is not torch.randn_like:
            return func(*args, **(kwargs or {}))
        like = args[0]
        whole = torch.randn(like.shape[0] * self.workers.number, *like.shape[1:], dtype=like.dtype)
        return whole.chunk(self.workers.number)[self.workers.rank]


def share(rows: tuple, workers: Workers) -> tuple:
    return tree_map(lambda x: x.chunk(workers.number)[workers.rank], rows)


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


def learn(algorithm: Algorithm, workers: Workers, batches: Iterator, *methods: str) -> dict[str, Tensor]:
    """What an algorithm holds, and what it said of its updates, after all of them."""
    algorithm.workers = workers
    said: dict[str, list[Tensor]] = {}
    torch.manual_seed(1)
    with SharedNoise(workers):
        for whole in batches:
            batch = share(whole, workers)
            for method in methods:
                for name, value in getattr(algorithm, method)(batch).metrics.items():
                    if name != "q_mean":  # of all rows, whether they count or not
                        said.setdefault(f"said/{name}", []).append(value)
            if algorithm.observes:
                algorithm.observe(batch.obs, batch.weight > 0)
    return dict(algorithm.state_dict()) | {name: torch.stack(values) for name, values in said.items()}


def ppo(workers: Workers, **settings: object) -> dict[str, Tensor]:
    algorithm = PPOAlgorithm(PPOConfig(**ON_POLICY, learning_rate=Schedule(1e-2, 1e-2), **settings), CONTINUOUS)
    return learn(algorithm, workers, rollout_batches(CONTINUOUS), "update")


def ppo_that_stops(workers: Workers) -> dict[str, Tensor]:
    return ppo(workers, target_kl=0.27)


def a2c(workers: Workers) -> dict[str, Tensor]:
    return learn(A2CAlgorithm(A2CConfig(**ON_POLICY), DISCRETE), workers, rollout_batches(DISCRETE), "update")


def trpo(workers: Workers) -> dict[str, Tensor]:
    algorithm = TRPOAlgorithm(TRPOConfig(**ON_POLICY), DISCRETE)
    return learn(algorithm, workers, rollout_batches(DISCRETE), "update_policy", "update")


def sac(workers: Workers) -> dict[str, Tensor]:
    algorithm = SACAlgorithm(SACConfig(net_arch=(16, 16), normalize_observation=True), CONTINUOUS)
    return learn(algorithm, workers, step_batches(CONTINUOUS), "update", "update_actor", "update_target")


def td3_bc(workers: Workers) -> dict[str, Tensor]:
    algorithm = TD3BCAlgorithm(TD3BCConfig(net_arch=(16, 16)), CONTINUOUS)
    return learn(algorithm, workers, step_batches(CONTINUOUS), "update", "update_actor", "update_target")


def dqn(workers: Workers) -> dict[str, Tensor]:
    algorithm = DQNAlgorithm(DQNConfig(net_arch=(16,), learning_rate=Schedule(1e-3, 1e-3)), DISCRETE)
    return learn(algorithm, workers, step_batches(DISCRETE), "update", "update_target")


def reward_scale(workers: Workers) -> dict[str, Tensor]:
    scaling, scaled = RewardScaling(0.99, 10.0), []
    for seed in range(3):
        steps = random_steps(16, 4, seed=seed)
        steps = steps._replace(reward=steps.reward * torch.tensor([1.0, 2.0, 30.0, 40.0]))
        mine: Transition = tree_map(lambda x: x.chunk(workers.number, 1)[workers.rank], steps)
        reward = torch.zeros(16, 4)
        reward.chunk(workers.number, 1)[workers.rank].copy_(scaling.scale(mine, workers).reward)
        scaled.append(workers.sum(reward))
    return {"reward": torch.stack(scaled), **scaling.moments._asdict()}


def not_finite(workers: Workers) -> dict[str, Tensor]:
    """The last row is: all workers notice, and none moves."""
    algorithm = PPOAlgorithm(PPOConfig(net_arch=NetArch((16,), (16,))), CONTINUOUS)
    broken = next(rollout_batches(CONTINUOUS))
    broken.target[-1] = torch.nan
    return {
        name: value
        for name, value in learn(algorithm, workers, iter([broken]), "update").items()
        if not name.startswith("said/")
    }


CASES: dict[str, Callable[[Workers], dict[str, Tensor]]] = {
    case.__name__: case for case in (ppo, ppo_that_stops, a2c, trpo, sac, td3_bc, dqn, reward_scale, not_finite)
}


def run(case: str, workers: Workers) -> dict[str, Tensor]:
    torch.manual_seed(0)
    return CASES[case](workers)
