"""Rewards in other units: the same change for the data and for the agent's own steps."""

import numpy as np
import pytest
import torch

from rl_training import TD3, Dataset, make_data
from rl_training.config import ConfigError
from rl_training.data import DatasetError
from rl_training.experience.reward_units import RewardUnits, scale_by_returns
from tests.data.making import count_up

SMALL = {"net_arch": [8], "batch_size": 8, "learning_starts": 4, "buffer_size": 64, "threads": 1, "compile": False}


def pendulum() -> Dataset:
    return make_data("Pendulum-v1", ["random"], 400, seed=0)


def test_the_return_range_spreads_returns_over_a_thousand() -> None:
    dataset = count_up()  # rewards 1, 2, 3 and 4, 5
    assert scale_by_returns(dataset) == pytest.approx(1000 / 3)
    scaled = RewardUnits(scale_by_returns(dataset), -1.0).of(dataset)
    np.testing.assert_allclose(scaled.returns, [6 * 1000 / 3 - 3, 9 * 1000 / 3 - 2], rtol=1e-6)
    np.testing.assert_allclose(scaled.return_to_go(0.5)[-1], 5 * 1000 / 3 - 1, rtol=1e-6)
    assert RewardUnits().of(dataset) is dataset


def test_equal_returns_have_no_range() -> None:
    flat = count_up().select(np.array([0]))
    with pytest.raises(DatasetError, match="all 1 episodes have the return 6: give reward_scale as a number"):
        scale_by_returns(flat)


def test_data_and_own_steps_are_changed_alike() -> None:
    data = pendulum()
    agent = TD3("Pendulum-v1", dataset=data, reward_scale="return_range", reward_shift=-0.5, **SMALL)
    agent.learn(total_updates=2, progress=False)
    agent.learn(total_timesteps=20, progress=False)
    scale = scale_by_returns(data)
    stores = agent.trainer.plan.stores
    np.testing.assert_allclose(stores["data"].columns.reward, data.reward * scale - 0.5, rtol=1e-5)
    own = stores["experience"].replay
    assert own.rewards == RewardUnits(scale, -0.5)
    raw = (own.columns.reward[:20] + 0.5) / scale
    assert ((raw <= 0) & (raw >= -17)).all()  # Pendulum's rewards, in its own units
    assert torch.isfinite(raw).all()
    agent.close()


def test_a_number_needs_no_data_and_the_range_does() -> None:
    plain, scaled = (TD3("Pendulum-v1", seed=0, reward_scale=scale, **SMALL) for scale in (1.0, 0.25))
    for agent in (plain, scaled):
        agent.learn(total_timesteps=4, progress=False)
    rewards = [agent.trainer.plan.stores["experience"].columns.reward[:4] for agent in (plain, scaled)]
    torch.testing.assert_close(rewards[1], 0.25 * rewards[0])
    with pytest.raises(ConfigError, match="reward_scale='return_range' is taken from the returns of a dataset"):
        TD3("Pendulum-v1", reward_scale="return_range", **SMALL).learn(total_timesteps=8, progress=False)
    with pytest.raises(ConfigError, match="reward_scale"):
        TD3("Pendulum-v1", reward_scale="range", **SMALL)
