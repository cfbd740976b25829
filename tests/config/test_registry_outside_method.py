"""A method from outside the package learns from data through the public classes."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import rl_training
from rl_training import Dataset
from rl_training.config import register_algorithm
from rl_training.config.registry import ALGORITHMS
from rl_training.core import Box, Spec
from tests.algorithms import outside_method
from tests.algorithms.outside_method import AnchoredTD3, AnchoredTD3Algorithm, AnchoredTD3Config


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register_algorithm("anchored_td3", AnchoredTD3Algorithm, AnchoredTD3Config)
    yield
    del ALGORITHMS["anchored_td3"]


SPEC = Spec(Box((1,), (-1.0,), (1.0,)), Box((1,), (-2.0,), (2.0,)))
TEST = np.linspace(-0.9, 0.9, 7, dtype=np.float32)[:, None]


def one_step_data(num: int = 2_000) -> Dataset:
    """The best action is 1.5 x; the data do 1.5 x + 0.4 with some noise."""
    rng = np.random.default_rng(0)
    obs = rng.uniform(-1, 1, (num, 1)).astype(np.float32)
    action = np.clip(1.5 * obs + 0.4 + 0.4 * rng.normal(size=(num, 1)), -2, 2).astype(np.float32)
    reward = 1 - (action - 1.5 * obs)[:, 0] ** 2
    yes = np.ones(num, bool)
    columns = {"obs": obs, "action": action, "reward": reward, "next_obs": obs, "spec": SPEC}
    return Dataset.from_arrays(terminated=yes, truncated=~yes, **columns)


def test_it_takes_thirty_lines() -> None:
    code = Path(outside_method.__file__).read_text().splitlines()
    assert len([line for line in code if line.strip()]) + 1 <= 30  # and the line that registers it


@pytest.mark.parametrize(("alpha", "offset"), [(0.0, 0.4), (20.0, 0.0)], ids=["cloning", "improving"])
def test_it_clones_the_data_or_improves_on_them(alpha: float, offset: float, tmp_path: Path) -> None:
    settings = {"net_arch": [32], "batch_size": 128, "learning_rate": 3e-3, "threads": 1, "compile": False}
    agent = AnchoredTD3(dataset=one_step_data(), alpha=alpha, seed=0, **settings)
    agent.learn(total_updates=500, progress=False)
    actions = agent.predict(TEST)[0]
    assert np.mean(actions - 1.5 * TEST) == pytest.approx(offset, abs=0.12)
    agent.save(tmp_path / "model")
    assert np.array_equal(rl_training.load(tmp_path / "model").predict(TEST)[0], actions)
