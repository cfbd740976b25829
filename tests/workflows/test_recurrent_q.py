"""A recurrent policy learns from replayed sequences and from sequences of data, through the public classes.

benchmarks/replayed_sequences.py has the longer corridor.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from rl_training import make_data
from rl_training.config import register_algorithm
from rl_training.config.registry import ALGORITHMS
from rl_training.envs import EnvConfig, NativeEnv
from rl_training.envs.memory_tasks import TMaze
from rl_training.experience.sequences import Sequences
from rl_training.experiment.checkpoint import difference
from rl_training.models import forget
from rl_training.runtime import make_collector
from tests.algorithms.recurrent_q import RecurrentQ, RecurrentQAlgorithm, RecurrentQConfig
from tests.replays import build_replay

MAZE = {"env": f"{__name__}:short_maze", "backend": "native", "n_envs": 16, "threads": 1, "compile": False}
MAZE_ENV = {"id": f"{__name__}:short_maze", "backend": "native", "n_envs": 16}
SETTINGS = {"learning_rate": 4e-3, "gamma": 0.9, "batch_size": 384, "length": 12, "hidden": 12}
SETTINGS |= {"gradient_steps": 8, "target_update_interval": 50}
REPLAY = {"train_freq": 128, "learning_starts": 1_000, "buffer_size": 5_000}


def short_maze() -> TMaze:
    return TMaze(3)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register_algorithm("recurrent_q", RecurrentQAlgorithm, RecurrentQConfig)
    yield
    del ALGORITHMS["recurrent_q"]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_maze_that_needs_memory_is_solved_from_replay(seed: int) -> None:
    """Without memory, half of the turns are wrong."""
    agent = RecurrentQ(**MAZE, **SETTINGS, **REPLAY, seed=seed)
    agent.learn(6_000, progress=False)
    assert agent.evaluate(100).mean >= 0.95


def test_it_is_solved_from_data_too() -> None:
    """Random steps, in pieces that begin where episodes do."""
    data = make_data(EnvConfig(**MAZE_ENV), ["random"], 4_000)
    agent = RecurrentQ(dataset=data, **MAZE, **SETTINGS, **REPLAY, stored_memory=False, seed=0)
    agent.learn(total_updates=400, progress=False)
    assert agent.evaluate(100).mean >= 0.95


def test_a_run_on_pieces_that_begin_anywhere_resumes_exactly(tmp_path: Path) -> None:
    pieces = SETTINGS | {"length": 4, "burn_in": 2, "batch_size": 64}
    settings = (
        MAZE | pieces | REPLAY | {"learning_starts": 256, "buffer_size": 600, "total_timesteps": 1_280, "seed": 0}
    )
    straight, paused = RecurrentQ(**settings), RecurrentQ(**settings)
    straight.learn(progress=False)
    paused.learn(stop_at=688, progress=False)
    paused.save(tmp_path / "model")
    resumed = RecurrentQ.load(tmp_path / "model")
    resumed.learn(progress=False)
    states = [agent.snapshot().state for agent in (straight, resumed)]
    for part in ("algorithm", "experience", "rng"):
        assert difference(states[0][part], states[1][part]) is None, part


def test_data_without_the_memory_are_refused() -> None:
    data = make_data(EnvConfig(**MAZE_ENV), ["random"], 100)
    agent = RecurrentQ(dataset=data, **MAZE, **SETTINGS, **REPLAY, seed=0)
    with pytest.raises(
        ValueError, match="'memory0' of every step, which this dataset cannot give: its extras are: policy"
    ):
        agent.learn(total_updates=10, progress=False)


@torch.no_grad()
def test_the_memory_in_a_replay_is_what_the_policy_acted_with() -> None:
    """In every piece, a step from the memory of one row gives that of the next, and pieces may begin anywhere."""
    env = NativeEnv(short_maze(), 4)
    algorithm = RecurrentQAlgorithm(RecurrentQConfig(hidden=6), env.spec)
    collector = make_collector(env, algorithm.policy, seed=0, columns=algorithm.columns)
    books = {"buffer_size": 200, "learning_starts": 4, "train_freq": 4, "gamma": 0.9, "seed": 0}
    replay = build_replay(env.spec, 4, columns=algorithm.columns, sequences=Sequences(3), **books)
    for _ in range(30):
        replay.add(collector.collect(algorithm.policy, 3))
    batch = replay.gather(replay.columns, replay.draw(300))
    memory, first, going = batch.columns["memory0"], batch.columns["first"], 0
    for t in range(2):
        following = algorithm.policy.network.core.advance(batch.obs[t], forget((memory[t],), first[t]))[1][0]
        both = batch.weight[t] * batch.weight[t + 1] > 0
        torch.testing.assert_close(following[both], memory[t + 1][both])
        going += int((both & ~first[0]).sum())
    assert going > 20
