"""A run whose environments are stepped elsewhere is the run of one process, to the last bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rl_training import Agent
from rl_training.core import tree_map
from rl_training.distributed.sliced_collector import SlicedCollector
from rl_training.envs import EnvConfig
from rl_training.envs.gymnasium_backend import make_part
from rl_training.envs.vector import same_trees
from rl_training.experiment.checkpoint import difference
from rl_training.runtime import EnvCollector
from tests.distributed.agents import CASES, ended, make, trained


@pytest.mark.parametrize("case", CASES)
def test_two_workers_then_four_learn_what_one_process_learns(case: str, tmp_path: Path) -> None:
    """Paused and resumed in the middle of an iteration, with as many environments in a worker as make a row alone."""
    alone = ended(make(case, tmp_path / "alone"))
    agent = make(case, tmp_path / "run", sampling={"workers": 2})
    agent.learn(stop_at=52, progress=False)
    agent.close()
    env = {} if isinstance(CASES[case][1], str) else {"env": CASES[case][1]}
    resumed = Agent.resume(tmp_path / "run", sampling={"workers": 4}, **env)
    assert difference(alone, ended(resumed)) is None
    assert resumed.progress.gradient_steps > 0


def test_episodes_tell_what_info_said_whoever_stepped_them() -> None:
    episodes = trained("columns of episodes", sampling={"workers": 2})["progress"]["recent"]
    assert episodes
    assert all({"is_success", "far"} == set(columns) for *_, columns in episodes)


def test_samplers_use_as_many_threads_as_the_run() -> None:
    runs = [trained("PPO", threads=2, total_timesteps=64, sampling={"workers": workers}) for workers in (1, 2)]
    assert difference(*runs) is None


@pytest.mark.compiled
def test_compiled_acting_is_compiled_alike(compiled_indeed: None) -> None:
    """A part of the environments acts by the graph of all of them."""
    config, policy = EnvConfig(id="CartPole-v1"), make("PPO").algorithm.policy
    whole = EnvCollector(make_part(config, None, range(4), 4), policy, seed=0)
    part = SlicedCollector(make_part(config, None, range(2, 4), 4), policy, columns=())
    blocks = []
    for collector in (whole, part):
        collector.execute(True)
        torch.manual_seed(0)
        blocks.append(collector.collect(policy, 8))
    assert same_trees(tree_map(lambda x: x[:, 2:], blocks[0]), blocks[1])
