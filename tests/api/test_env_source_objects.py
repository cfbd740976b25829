"""What may be handed over as an environment: an id, a function, an object, dynamics, a vector environment."""

from __future__ import annotations

import gymnasium as gym
import pytest

import rl_training
from rl_training import A2C, PPO, ConfigError
from rl_training.envs.memory import TMaze
from rl_training.experiment.checkpoint import difference
from tests.api.small_agents import make
from tests.envs.counting import CountingEnv


def test_environments_by_id_factory_object_and_vector():
    agents = [
        make(PPO, "CartPole-v1"),
        make(PPO, lambda: gym.make("CartPole-v1")),
        make(PPO, gym.make("CartPole-v1")),
        make(PPO, gym.make_vec("CartPole-v1", 2, vectorization_mode="sync")),
    ]
    for agent in agents[:3]:
        agent.learn(64, progress=False)
        assert agent.evaluate(3) == agents[0].evaluate(3)
        assert difference(dict(agent.algorithm.state_dict()), dict(agents[0].algorithm.state_dict())) is None
    assert agents[3].config.env.n_envs == 2
    assert agents[3].learn(64, progress=False).total_timesteps == 64
    assert len(agents[3].evaluate(3).returns) == 3


def test_an_environment_object_keeps_what_it_was_made_with():
    agent = make(PPO, gym.make("CartPole-v1", sutton_barto_reward=True, max_episode_steps=7))
    assert agent.config.env.kwargs == {"sutton_barto_reward": True}
    assert agent.config.env.max_episode_steps == 7
    assert set(agent.evaluate(4).lengths) == {7}
    wrapped = gym.wrappers.FlattenObservation(gym.make("CartPole-v1"))
    with pytest.raises(ConfigError, match="inside FlattenObservation, which cannot be copied: pass a function"):
        make(PPO, wrapped)


def test_two_functions_of_one_name_stay_apart():
    short, long = (make(PPO, lambda n=n: CountingEnv(n, n)) for n in (3, 5))
    assert set(short.evaluate(2).lengths) == {3}
    assert set(long.evaluate(2).lengths) == {5}


def test_a_vector_environment_without_a_spec_trains_but_cannot_be_evaluated(tmp_path):
    vector = gym.vector.SyncVectorEnv([CountingEnv, CountingEnv], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    agent = A2C(vector, n_steps=4, run_dir=tmp_path / "run")
    result = agent.learn(32, progress=False)
    assert (result.total_timesteps, result.eval_mean_return) == (32, None)
    with pytest.raises(ConfigError, match="handed over as an object"):
        agent.evaluate(2)


def short_maze(length=2):
    return TMaze(length)


@pytest.mark.parametrize("source", [short_maze, f"{__name__}:short_maze"])
def test_native_dynamics_of_ones_own_are_trained_evaluated_and_loaded(source, tmp_path):
    agent = make(A2C, source, backend="native", kwargs={"length": 3})
    assert agent.learn(32, progress=False).resume == "exact"
    agent.save(tmp_path / "model")
    loaded = rl_training.load(tmp_path / "model")
    assert loaded.evaluate(4, seed=3).returns == agent.evaluate(4, seed=3).returns
    assert max(agent.evaluate(4).lengths) <= 12  # the dynamics' own limit, four times the length
    loaded.learn(32, progress=False)
    assert loaded.num_timesteps == 64


def test_a_vector_env_of_gymnasium_is_trained_evaluated_and_recorded(tmp_path) -> None:
    agent = PPO(
        gym.make_vec("CartPole-v1", num_envs=2),
        n_steps=16,
        batch_size=32,
        run_dir=tmp_path / "run",
        seed=1,
        compile=False,
    )
    assert agent.learn(64, progress=False).eval_episodes > 0
