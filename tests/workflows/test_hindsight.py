"""Hindsight as users ask for it: with every method that has a replay, in any environment with goals, and resumed exactly."""

from __future__ import annotations

import re

import gymnasium as gym
import numpy as np
import pytest
import torch

from rl_training import BC, DQN, PPO, SAC, Agent, make_data
from rl_training.config import RunConfig, load_config_values
from rl_training.config.overrides import apply_override
from rl_training.core.goals import ACHIEVED, DESIRED, OBSERVATION
from rl_training.core.registry import ALGORITHMS
from rl_training.envs import EnvConfig, check, make_env
from rl_training.experience import Mixture
from rl_training.experiment.checkpoint import difference
from tests import needs
from tests.conformance.cases import CASES, REPLAY, Case
from tests.experience.test_replay import draw
from tests.goals import Corridor, SidewaysCorridor

FUTURE = {"strategy": "future", "k": 4}
NATIVE = {"backend": "native", "hindsight": FUTURE}
SMALL = {name: value for name, value in REPLAY.items() if name != "target_update_interval"} | {
    "n_envs": 2,
    "seed": 0,
    "threads": 1,
    "compile": False,
    "hindsight": FUTURE,
}
LEARNS_FROM = {entry.title: entry.config.needs.experience for entry in ALGORITHMS.values()}
NEEDS_RETURNS = ("CalQL",)  # of the rest of an episode, which another goal would change
WITH_REPLAY = [case for case in CASES if LEARNS_FROM[case.name] == "replay" and case.name not in NEEDS_RETURNS]


def native(case: Case) -> Agent:
    env, kwargs = ("PointReach-v0", {}) if case.acts_in == "box" else ("BitFlip-v0", {"num_bits": 4})
    return case.agent(env, kwargs=kwargs, learning_starts=32, **NATIVE)


@pytest.mark.parametrize("case", WITH_REPLAY, ids=lambda case: case.name)
def test_every_method_with_a_replay_takes_it_and_never_sees_what_was_achieved(case: Case) -> None:
    agent = native(case)
    agent.learn(64, progress=False)
    assert agent.progress.gradient_steps > 0
    batch = draw(agent.trainer.experience, 64)
    assert not torch.equal(batch.obs[DESIRED], agent.trainer.experience.columns.obs[DESIRED][:64])
    size = batch.obs[OBSERVATION].shape[-1]
    seen = {OBSERVATION: np.zeros(size), DESIRED: np.ones(size)}
    assert agent.spec.groups.policy == agent.spec.groups.critic == (OBSERVATION, DESIRED)
    obs = {key: torch.zeros(1, size) for key in (OBSERVATION, DESIRED)}
    # One row at a time: the rows of one product may be rounded differently.
    values = [agent.algorithm.values(obs | {ACHIEVED: torch.full((1, size), float(n))}) for n in range(2)]
    assert torch.equal(*values)
    with_it, without = (agent.predict(given)[0] for given in (seen | {ACHIEVED: np.ones(size)}, seen))
    assert np.array_equal(with_it, without)


@pytest.mark.parametrize("case", [case for case in CASES if case.name in NEEDS_RETURNS], ids=lambda case: case.name)
def test_a_method_that_needs_returns_is_refused(case: Case, tmp_path) -> None:
    with pytest.raises(ValueError, match=r"what the rest of an episode earned.*another goal: drop hindsight"):
        native(case).learn(64, progress=False)


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: DQN(Corridor, **SMALL | {"prioritized": True, "n_steps": 3}), id="gymnasium"),
        pytest.param(lambda: SAC("PointReach-v0", backend="native", max_episode_steps=9, **SMALL), id="native"),
        pytest.param(lambda: DQN(Corridor, frame_stack=2, **SMALL), id="stacked frames"),
    ],
)
def test_a_run_resumed_in_the_middle_of_episodes_is_the_same_run(build, tmp_path) -> None:
    whole, begun = build(), build()
    whole.learn(300, progress=False)
    begun.learn(300, stop_at=190, progress=False)
    assert begun.trainer.collector.open_episodes()[1].any()
    begun.save(tmp_path / "agent")
    resumed = type(begun).load(tmp_path / "agent")
    resumed.learn(progress=False)
    states = [agent.snapshot().state for agent in (whole, resumed)]
    for state in states:
        del state["progress"]["wall_time"]
    assert difference(*states) is None


def test_rows_of_a_gymnasium_environment_are_rewarded_as_it_computes() -> None:
    agent = DQN(Corridor, **SMALL)
    agent.learn(250, progress=False)
    batch = draw(agent.trainer.experience, 2_000)
    counts = batch.weight > 0
    reached, goal = (batch.next_obs[key][counts].numpy() for key in (ACHIEVED, DESIRED))
    env = Corridor()
    assert np.array_equal(batch.reward[counts].numpy(), env.compute_reward(reached, goal, {}).astype(np.float32))
    over = [env.compute_terminated(*pair, {}) for pair in zip(reached, goal, strict=True)]
    assert np.array_equal(batch.discount[counts].numpy() == 0, over)
    assert any(over)


class Cheating(Corridor):
    """Its reward of many pairs is another than that of each."""

    def compute_reward(self, achieved: np.ndarray, desired: np.ndarray, info: dict) -> np.ndarray:
        self.asked += 1
        return np.full(len(achieved), -1.0) if achieved.ndim > 1 else -np.abs(achieved - desired)[0]


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_many_goals_are_judged_in_one_call_where_that_gives_the_same(vectorization: str) -> None:
    env = make_env(EnvConfig(id="tests.goals:Corridor", n_envs=2, vectorization=vectorization))
    achieved, desired = torch.arange(6.0).unsqueeze(1), torch.tensor([[0.0], [1], [3], [3], [5], [0]])
    for _ in range(2):  # the first call tries it out
        reward, terminated = env.judge(achieved, desired)
        assert reward.tolist() == [0, 0, -1, 0, -1, -1]
        assert terminated.tolist() == [True, True, False, True, False, False]
    env.close()


@pytest.mark.parametrize(("kind", "calls"), [(Corridor, 1), (Cheating, 6)])
def test_what_judges_one_goal_at_a_time_is_asked_so(kind: type[Corridor], calls: int) -> None:
    env = make_env(EnvConfig(id=f"{kind.__module__}:{kind.__name__}"))
    goals = torch.arange(6.0).unsqueeze(1), torch.zeros(6, 1)
    first = env.judge(*goals)
    inner = env.envs[0].unwrapped
    before = inner.asked
    assert all(map(torch.equal, first, env.judge(*goals)))
    assert inner.asked - before == calls


def test_with_a_dataset_the_logged_rows_keep_their_goals() -> None:
    data = make_data(Corridor, ["random"], 200)
    agent = DQN(Corridor, dataset=data, offline_batch_ratio=0.5, **SMALL)
    agent.learn(total_timesteps=120, progress=False)
    mixture = agent.trainer.experience
    assert isinstance(mixture, Mixture)
    storage, _ = mixture.prepare(agent.algorithm)
    batch = mixture.gather(storage, mixture.draw(64))
    assert batch.columns["logged"].sum() == 32
    assert batch.obs[DESIRED].shape == (64, 1)


def test_a_config_and_the_command_line_say_the_same() -> None:
    values = load_config_values("dqn/bitflip")
    assert RunConfig.from_mapping(values).experience.hindsight.k == 4
    for change in ("experience.hindsight.k=2", "experience.hindsight.strategy=final"):
        values = apply_override(values, change)
    config = RunConfig.from_mapping(values)
    assert (config.experience.hindsight.k, config.experience.hindsight.strategy) == (2, "final")
    assert RunConfig.from_mapping(config.to_mapping()) == config
    plain = apply_override(load_config_values("dqn/cartpole"), "experience.hindsight.k=2")
    assert RunConfig.from_mapping(plain).experience.hindsight.strategy == "future"
    assert RunConfig.from_mapping(apply_override(values, "experience.hindsight=null")).experience.hindsight is None


def test_fetch_learns_in_hindsight() -> None:
    needs.import_package("gymnasium_robotics")
    agent = SAC("FetchReach-v4", **SMALL)
    agent.learn(220, progress=False)
    batch = draw(agent.trainer.experience, 500)
    reached = (batch.next_obs[ACHIEVED] - batch.next_obs[DESIRED]).norm(dim=-1) <= 0.05
    counts = batch.weight > 0
    assert torch.equal(batch.reward[counts], reached[counts].float() - 1)
    assert 0 < reached[counts].float().mean() < 1
    assert (batch.discount > 0).all()  # these tasks never terminate
    agent.close()


class WithoutReward(Corridor):
    compute_reward = property()  # as if it was not there


class AsksInfo(Corridor):
    def compute_reward(self, achieved: np.ndarray, desired: np.ndarray, info: dict) -> np.ndarray:
        return super().compute_reward(achieved, desired, info) * info.get("factor")  # pyrefly: ignore


class OtherGoal(Corridor):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Dict(self.observation_space.spaces | {DESIRED: gym.spaces.Box(0, 1, (2,))})


class PaysTwice(Corridor):
    """Rewards a step at its goal otherwise than `compute_reward` does."""

    def step(self, action: int) -> tuple[dict, float, bool, bool, dict]:
        obs, reward, *rest = super().step(action)
        return obs, 5.0 if reward == 0 else reward, *rest


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_rewards_that_contradict_the_steps_end_the_run(vectorization: str) -> None:
    agent = DQN(PaysTwice, vectorization=vectorization, **SMALL)
    with pytest.raises(
        ValueError, match=r"`compute_reward` gives -0 for goals that `step` rewarded with 5 \(achieved \[.*let `step`"
    ):
        agent.learn(2_000, progress=False)
    agent.close()
    with pytest.raises(ValueError, match=r"`compute_reward` gave another reward .* \(-0 and 5\): let `step` return"):
        check(PaysTwice)
    check(Corridor)


TWO_PLACES = [{"env_steps": 100}, {"env_steps": 100, "env": {"max_episode_steps": 5}}]
BAD = {
    "no goals": (
        lambda: DQN("CartPole-v1", hindsight=FUTURE),
        "needs a Dict observation with 'achieved_goal'",
        "or drop",
    ),
    "no goals as tensor code": (lambda: DQN("CartPole-v1", **NATIVE), "this environment observes a Box without keys"),
    "negative k": (lambda: DQN(Corridor, hindsight={"k": -1}), "experience.hindsight.k=-1 must be at least 0"),
    "half a k": (lambda: DQN(Corridor, hindsight={"k": 0.5}), "experience.hindsight.k=0.5 must be a whole number"),
    "strategy": (
        lambda: DQN(Corridor, hindsight={"strategy": "futur"}),
        "experience.hindsight.strategy='futur' is not one of 'future', 'final', 'episode': did you mean 'future'?",
    ),
    "unknown setting": (
        lambda: DQN(Corridor, hindsight={"n_goals": 4}),
        "experience.hindsight.n_goals is not a setting: choose",
    ),
    "not a mapping": (lambda: DQN(Corridor, hindsight=True), "experience.hindsight=True must be a mapping of settings"),
    "rollouts": (lambda: PPO("BitFlip-v0", **NATIVE), "is not a setting of ppo: it is one of"),
    "data alone": (lambda: BC("BitFlip-v0", **NATIVE), "is not a setting of bc"),
    "no environment": (
        lambda: DQN(dataset=make_data(Corridor, ["random"], 50), hindsight=FUTURE),
        "this run has no environment to take any in: name one, or drop hindsight",
    ),
    "shown to the policy": (
        lambda: SAC(SidewaysCorridor, hindsight=FUTURE, obs_groups={"policy": [OBSERVATION, ACHIEVED]}),
        "env.obs_groups.policy names 'achieved_goal', which no network sees with experience.hindsight: leave it out",
    ),
    "goals of two kinds": (lambda: DQN(OtherGoal, hindsight=FUTURE), "give both the same space"),
    "no compute_reward": (
        lambda: DQN(WithoutReward, hindsight=FUTURE),
        "has no `compute_reward(achieved_goal",
        "write one",
    ),
    "needs info": (lambda: DQN(AsksInfo, hindsight=FUTURE), "with an empty info (TypeError", "use the goals alone"),
    "a vector environment": (
        lambda: DQN(gym.vector.SyncVectorEnv([Corridor] * 2), hindsight=FUTURE, train_freq=2),
        "judges no steps by other goals: pass an id or a function, or drop hindsight",
    ),
    "other environments": (
        lambda: DQN(Corridor, hindsight=FUTURE, phases=TWO_PLACES),
        "use one environment in all phases",
    ),
    "as in another library": (
        lambda: DQN(Corridor, replay_buffer_class=object),
        "hindsight={'strategy': 'future', 'k': 4}",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_makes_no_sense_is_refused_in_a_sentence(kind: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    act, *parts = BAD[kind]
    with pytest.raises(ValueError, match=re.escape(parts[0])) as caught:
        act()
    assert all(part in str(caught.value) for part in parts)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
