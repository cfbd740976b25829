"""What may be handed over as an environment: an id, a function, an object, dynamics, a vector environment."""

from __future__ import annotations

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import rl_training
from rl_training import A2C, PPO, ConfigError
from rl_training.distributed import SampledEnv
from rl_training.envs.memory_tasks import TMaze
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


def test_wrappers_that_record_their_arguments_are_rebuilt_also_elsewhere(tmp_path):
    scaled = gym.wrappers.RescaleObservation(gym.make("MountainCar-v0"), np.float32(-2), np.float32(2))
    agent = make(PPO, gym.wrappers.TimeAwareObservation(scaled), run_dir=tmp_path / "run", total_timesteps=96)
    names = [wrapper.entry_point.rpartition(":")[2] for wrapper in agent.config.env.wrappers]
    assert names == ["RescaleObservation", "TimeAwareObservation"]
    assert agent.spec.obs.size == 3
    agent.learn(stop_at=40, progress=False)
    code = (
        f"from rl_training import PPO; a = PPO.resume({str(tmp_path / 'run')!r}); print(a.learn(progress=False).resume)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "replayed\n", done.stderr
    assert len(agent.evaluate(2, env=gym.wrappers.TimeAwareObservation(scaled)).returns) == 2
    with pytest.raises(
        ConfigError, match=r"observations of 'MountainCar-v0' are"
    ):  # not inside the wrappers of training
        agent.evaluate(2, env=gym.make("MountainCar-v0"))


def test_a_wrapped_object_is_sampled_by_processes_and_gives_the_same():
    def one() -> gym.Env:
        return gym.wrappers.TimeAwareObservation(gym.make("CartPole-v1"))

    states = []
    for settings in ({}, {"sampling": {"workers": 2}}):
        agent = make(PPO, one(), n_envs=2, **settings)
        agent.learn(64, progress=False)
        states.append(dict(agent.algorithm.state_dict()))
    assert difference(*states) is None


class Unrecorded(gym.Wrapper):
    """Records no arguments."""


class Shrunk(gym.Wrapper):
    """Hides from its spec that it observes less."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-1, 1, (2,))

    @property
    def spec(self) -> object:
        return self.env.spec


def made(env_id: str = "CartPole-v1") -> gym.Env:
    return gym.make(env_id)


def forgotten() -> gym.Env:
    gym.register("Forgotten-v0", entry_point=CountingEnv)
    env = made("Forgotten-v0")
    del gym.registry["Forgotten-v0"]
    return env


REFUSED = {
    "no spec": (CountingEnv, "CountingEnv was handed over as an object without a spec, so no copies of it can be made"),
    "no record": (
        lambda: Unrecorded(made()),
        "wrapper Unrecorded does not record its arguments .*RecordConstructorArgs",
    ),
    "a function": (
        lambda: gym.wrappers.TransformReward(made(), abs),
        "TransformReward was made with .*no file can hold",
    ),
    "other spaces": (
        lambda: Shrunk(made()),
        "its observation_space is Box.*and one that is built from its spec has Box",
    ),
    "no limit": (
        lambda: gym.make("CartPole-v1", max_episode_steps=-1),
        "time limit is None, and .* from its spec has 500",
    ),
    "not registered": (forgotten, "'Forgotten-v0' is not a registered environment"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_object_that_cannot_be_rebuilt_is_refused_with_the_reason_and_the_remedy(case):
    source, reason = REFUSED[case]
    with pytest.raises(ConfigError, match=f"{reason}.*function"):
        make(PPO, source())


def test_an_environment_of_another_class_under_the_same_id_is_refused():
    gym.register("Twice-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
    env = made("Twice-v0")
    gym.registry.pop("Twice-v0")
    gym.register("Twice-v0", entry_point="gymnasium.envs.classic_control.cartpole:CartPoleEnv", kwargs={})
    try:
        make(PPO, env)
        gym.registry["Twice-v0"].entry_point = lambda: OtherCartPole()
        with pytest.raises(ConfigError, match="it is a CartPoleEnv, and its id builds a OtherCartPole"):
            make(PPO, env)
    finally:
        gym.registry.pop("Twice-v0")


class OtherCartPole(CartPoleEnv):
    pass


TIMED = {
    "by its function": {"entry_point": lambda: gym.wrappers.DtypeObservation(CartPoleEnv(), np.float64)},
    "by its registration": {
        "entry_point": made,
        "additional_wrappers": (gym.wrappers.TimeAwareObservation.wrapper_spec(),),
    },
}


@pytest.mark.parametrize("how", TIMED)
def test_wrappers_that_belong_to_an_id_are_not_applied_twice(how):
    gym.register("Timed-v0", **TIMED[how])
    try:
        agent = make(PPO, made("Timed-v0"))
        assert agent.config.env.wrappers == ()
    finally:
        gym.registry.pop("Timed-v0")


def test_vector_environments_are_resumed_and_sampled_from_their_spec(tmp_path):
    for mode in ("vector_entry_point", "sync"):
        vector = gym.make_vec("CartPole-v1", 2, vectorization_mode=mode)
        run = tmp_path / mode
        agent = make(PPO, vector, n_envs=2, run_dir=run, total_timesteps=96)
        assert agent.learn(stop_at=40, progress=False).resume == "boundary"
        assert PPO.resume(run).learn(progress=False).total_timesteps == 96
    sampled = make(PPO, vector, n_envs=2, sampling={"workers": 2})
    assert isinstance(sampled.env, SampledEnv)
    sampled.learn(32, progress=False)


def test_a_vector_environment_with_wrappers_that_its_spec_lacks_is_not_rebuilt_without_them(told):
    counted = gym.wrappers.vector.RecordEpisodeStatistics(gym.make_vec("CartPole-v1", 2))
    assert make(PPO, counted, n_envs=2).config.env.id == "CartPole-v1"
    assert told() == ""
    scaled = gym.wrappers.vector.NormalizeObservation(gym.make_vec("CartPole-v1", 2))
    agent = make(PPO, scaled, n_envs=2)
    assert "its spec does not record the wrapper NormalizeObservation: pass an id or a function" in told()
    with pytest.raises(ConfigError, match="because its spec does not record the wrapper NormalizeObservation"):
        agent.evaluate(1)
    listed = gym.make_vec("CartPole-v1", 2, vectorization_mode="sync", wrappers=(gym.wrappers.TimeAwareObservation,))
    with pytest.raises(ConfigError, match=r"because it was made with wrappers=\.\.\."):
        make(PPO, listed, n_envs=2).evaluate(1)


def test_data_are_made_in_what_an_object_was_made_with():
    dataset = rl_training.make_data(gym.make("CartPole-v1", sutton_barto_reward=True), ["random"], 50)
    assert set(dataset.reward.tolist()) <= {0.0, -1.0}


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
