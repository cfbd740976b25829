"""What data say of an agent: the same as estimators on its probabilities, or a refusal."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
import torch

import rl_training
from rl_training import BC, PPO, Agent, ConfigError, Dataset, make_data
from rl_training.core import Box, Discrete, MultiBinary, Spec
from rl_training.data import Dataset as Data
from rl_training.envs import EnvConfig
from rl_training.evaluation import BanditLog, EpisodeLog, evaluate_bandit, evaluate_episodes, fitted_q, off_policy
from tests.offline import QUICK, cloned, cql, rlpd, steps_of

NUM, ACTIONS = 2_000, 3
OBS = Box((2,), (-1.0,) * 2, (1.0,) * 2)


@cache
def contexts(start: int = 0) -> tuple[Data, np.ndarray]:
    """One decision per episode, and the logging policy's whole probabilities."""
    rng = np.random.default_rng(0)
    obs = rng.uniform(-1, 1, (NUM, 2)).astype(np.float32)
    probs = rng.dirichlet(np.full(ACTIONS, 50.0), NUM)
    action = (rng.random((NUM, 1)) > probs.cumsum(1)).sum(1).clip(max=ACTIONS - 1)
    reward = obs[:, 0] * (action == 1) + 0.5 * (action == 2) + 0.1 * rng.normal(size=NUM)
    yes = np.ones(NUM, bool)
    data = Dataset.from_arrays(
        obs=obs,
        action=action + start,
        reward=reward,
        terminated=yes,
        truncated=~yes,
        next_obs=obs,
        log_prob=np.log(probs[np.arange(NUM), action]),
        spec=Spec(OBS, Discrete(ACTIONS, start=start)),
    )
    return data, probs


def by_hand(data: Data, target: np.ndarray, **settings: object):
    taken = data.action - data.spec.action.start
    propensities = np.full((NUM, ACTIONS), np.nan)
    propensities[np.arange(NUM), taken] = np.exp(data.log_prob.astype(np.float64))
    log = BanditLog(actions=taken, rewards=data.reward, propensities=propensities, features=data.obs)
    return evaluate_bandit(log, target, **settings)


@pytest.mark.parametrize("start", [0, 4])
def test_one_step_data_are_decisions_of_a_greedy_policy(start: int) -> None:
    data, _ = contexts(start)
    agent = cql(None, dataset=data)
    agent.learn(total_updates=40, progress=False)
    greedy = np.eye(ACTIONS)[agent.predict(data.obs)[0] - start]
    report = off_policy(agent, data, level=0.9, seed=3)
    expected = by_hand(data, greedy, level=0.9, seed=3)
    assert report.rows == expected.rows
    assert report.interval == expected.interval
    assert report.estimand == "expected reward per decision"
    assert report.value is not None


def target_of(agent: Agent, data: Data) -> np.ndarray:
    with torch.no_grad():
        probs = agent.algorithm.policy.distribution(torch.from_numpy(data.obs)).log_probs.exp().double().numpy()
    return probs / probs.sum(1, keepdims=True)


def test_one_step_data_are_decisions_of_a_stochastic_policy() -> None:
    data, _ = contexts()
    agent = cloned(None, dataset=data)
    agent.learn(total_updates=30, progress=False)
    assert off_policy(agent, data).rows == by_hand(data, target_of(agent, data)).rows


def test_one_step_data_are_decisions_of_a_stochastic_policys_mode() -> None:
    data, _ = contexts()
    agent = cloned(None, dataset=data)
    agent.learn(total_updates=30, progress=False)
    likely = np.eye(ACTIONS)[target_of(agent, data).argmax(1)]
    assert off_policy(agent, data, deterministic=True).rows == by_hand(data, likely).rows


@cache
def on_policy(folder: Path) -> tuple[Agent, Data]:
    """CartPole episodes of a policy that is barely trained, by itself."""
    agent = PPO("CartPole-v1", seed=0, threads=1, compile=False, n_envs=4, n_steps=32, batch_size=64, net_arch=[8])
    agent.learn(128, progress=False)
    agent.save(folder / "ppo")
    return agent, make_data(EnvConfig(id="CartPole-v1"), [str(folder / "ppo")], 4_000, seed=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("agents")


def test_a_policy_on_its_own_data_is_worth_their_mean_return(folder: Path) -> None:
    agent, data = on_policy(folder)
    report = off_policy(agent, data, gamma=1.0, updates=0)
    assert report.refusal is None
    assert [row.estimator for row in report.rows] == [
        "trajectory IS",
        "weighted IS",
        "per-decision IS",
        "weighted per-decision IS",
    ]
    for row in report.rows:  # all weights are 1
        assert row.value == pytest.approx(data.returns.mean(), rel=1e-3), row.estimator
        assert row.low < data.returns.mean() < row.high
    (found,) = report.diagnostics.values()
    assert found.effective_sample_size == pytest.approx(len(data.returns), rel=1e-3)
    truth = agent.evaluate(200, deterministic=False, seed=7).mean
    assert report.interval.low < truth < report.interval.high


def test_values_answer_where_there_are_some(folder: Path) -> None:
    agent, data = on_policy(folder)
    report = off_policy(agent, data, gamma=0.9, updates=150)
    assert report.estimator == "sequential DR"
    assert len(report.rows) == 6
    discounted = data.return_to_go(0.9)[data.episodes().start].mean()
    assert report.value == pytest.approx(discounted, rel=0.05)
    assert report.interval.low < discounted < report.interval.high
    assert (report.gamma, report.logged_return) == (0.9, pytest.approx(discounted))


def test_the_discount_is_the_agents_unless_given(folder: Path) -> None:
    agent, data = on_policy(folder)
    assert off_policy(agent, data, updates=0) == off_policy(agent, data, gamma=0.99, updates=0)
    assert off_policy(agent, data, updates=0).value < off_policy(agent, data, gamma=1.0, updates=0).value


def test_continuous_densities_are_in_the_environments_units(tmp_path: Path) -> None:
    """SAC acts in [-1, 1], Pendulum in [-2, 2]: on its own data every weight is still 1."""
    agent = rlpd()
    agent.learn(total_updates=10, progress=False)
    agent.save(tmp_path / "rlpd")
    env = EnvConfig(id="Pendulum-v1", max_episode_steps=5)
    data = make_data(env, [str(tmp_path / "rlpd")], 1_200, seed=1)
    report = off_policy(agent, data, updates=0, gamma=1.0)
    assert report.refusal is None
    assert report.rows[0].value == pytest.approx(data.returns.mean(), rel=1e-3)
    random = make_data(env, ["random"], 1_200, seed=1)
    assert np.exp(random.log_prob) == pytest.approx(0.25)  # a density over a range of 4


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_clipped_action_has_the_probability_of_its_bound(recurrent: bool) -> None:
    make = rl_training.RecurrentPPO if recurrent else PPO
    settings = {"n_steps": 32, "n_envs": 4, "batch_size": 64, "net_arch": [8], "log_std_init": 1.0, "compile": False}
    agent = make("Pendulum-v1", seed=0, threads=1, **settings)
    data = make_data(EnvConfig(id="Pendulum-v1", max_episode_steps=5), [agent], 1_200, seed=1)
    side = np.sign(data.action[:, 0]) * (np.abs(data.action[:, 0]) == 2.0)
    assert np.isfinite(data.log_prob).all()
    for bound in (-1, 1):  # an untrained policy is about the same everywhere
        share = (side == bound).mean()
        assert np.exp(data.log_prob[side == bound]) == pytest.approx(share, abs=0.04)
    if not recurrent:
        report = off_policy(agent, data, updates=0, gamma=1.0)
        assert report.rows[0].value == pytest.approx(data.returns.mean(), rel=1e-3)  # every weight is 1
        assert report.warnings == ()


def gaussian_decisions(mean: float, std: float, num: int, clip: bool = True) -> Data:
    """One step each; the actions of a Gaussian, clipped to -1 and 1, and a reward of (a + 1) squared, plus 1 at a = 1."""
    normal, yes = NormalDist(), np.ones(num, bool)
    drawn = np.random.default_rng(0).normal(mean, std, (num, 1))
    taken = drawn.clip(-1, 1)[:, 0]
    density = np.array([normal.pdf((a - mean) / std) / std for a in drawn[:, 0]])
    masses = normal.cdf((-1 - mean) / std), 1 - normal.cdf((1 - mean) / std)
    measured = np.select([taken == -1, taken == 1], masses, density)
    obs = np.zeros((num, 2), np.float32)
    return Dataset.from_arrays(
        obs=obs,
        action=drawn.clip(-1, 1) if clip else drawn,
        reward=(taken + 1) ** 2 + (taken == 1),
        terminated=yes,
        truncated=~yes,
        next_obs=obs,
        log_prob=np.log(measured if clip else density),
        spec=Spec(OBS, Box((1,), (-1.0,), (1.0,))),
    )


def gaussian_agent(data: Data, mean: float, std: float) -> Agent:
    agent = BC(dataset=data, **QUICK | {"net_arch": [], "log_std_init": float(np.log(std))})
    with torch.no_grad():
        agent.algorithm.policy.head.net.bias0.fill_(mean)
    return agent


@pytest.mark.parametrize("clip", [True, False])
def test_weights_at_the_bounds_give_what_the_policy_earns(clip: bool) -> None:
    """A clipped Gaussian's data of another one: the value is a sum of masses at the bounds and an integral between."""
    data = gaussian_decisions(0.3, 0.8, 4_000, clip)
    agent = gaussian_agent(data, 0.7, 0.6)
    grid = np.linspace(-1, 1, 4_001)
    normal = NormalDist(0.7, 0.6)
    between = np.trapezoid([(a + 1) ** 2 * normal.pdf(a) for a in grid], grid)
    truth = between + 5 * (1 - normal.cdf(1))
    report = off_policy(agent, data, updates=0, gamma=1.0)
    assert report.refusal is None
    assert report.warnings == ()
    for row in report.rows:
        assert row.value == pytest.approx(truth, abs=4 * row.standard_error), row.estimator
        assert row.standard_error < 0.1 * truth


def test_actions_at_the_bounds_are_refused_where_the_log_cannot_say_their_probability() -> None:
    data = gaussian_decisions(0.3, 0.8, 200)
    agent, at = gaussian_agent(data, 0.7, 0.6), np.flatnonzero(np.abs(data.action[:, 0]) == 1)
    unknown = data.log_prob.copy()
    unknown[at] = np.nan
    refusal = off_policy(agent, without(data, unknown)).refusal
    assert refusal.startswith(
        f"log_prob is unknown (NaN) in {len(at)} of 200 rows, first in row {at[0]}, all with actions that"
    )
    unknown[at[0]] = 0.5
    assert "at most 0, and not that of a density" in off_policy(agent, without(data, unknown)).refusal
    wider = Data(data.columns, Spec(OBS, Box((1,), (-1.0,), (2.0,))))
    assert "is at a bound of the data's actions and not of the agent's" in off_policy(agent, wider).refusal
    squashed = rl_training.AWAC(dataset=data, **QUICK)
    assert off_policy(squashed, data, updates=0).refusal.startswith("target: ")  # it is hardly ever at a bound
    beyond = gaussian_decisions(0.3, 0.8, 200, clip=False)
    assert "is outside its bounds, where this policy never acts" in off_policy(squashed, beyond).refusal


def without(data: Data, log_prob: np.ndarray | None) -> Data:
    return Data(data.columns._replace(log_prob=log_prob), data.spec)


def test_what_cannot_be_answered_is_refused_in_a_report() -> None:
    data, _ = contexts()
    agent = cql(None, dataset=data)
    holes = data.log_prob.copy()
    holes[7] = np.nan
    sentences = (
        "the dataset does not say with what probability",
        "log_prob is unknown (NaN) in 1 of 2,000 rows, first in row 7; ",
    )
    for broken, sentence in zip((without(data, None), without(data, holes)), sentences, strict=True):
        report = off_policy(agent, broken)
        assert report.refusal.startswith(sentence)
        assert (report.rows, report.interval, report.value) == ((), None, None)
    pendulum = steps_of("Pendulum-v1")
    report = off_policy(rlpd(), pendulum, deterministic=True)
    assert report.refusal.startswith("a deterministic policy gives continuous actions no density")
    td3 = rl_training.TD3(dataset=pendulum, **QUICK)
    assert off_policy(td3, pendulum).refusal.startswith("a deterministic policy gives continuous actions no density")


def test_actions_of_other_kinds_are_refused() -> None:
    bits = np.random.default_rng(0).integers(0, 2, (40, 2))
    yes = np.ones(40, bool)
    obs = np.zeros((40, 2), np.float32)
    data = Dataset.from_arrays(
        obs=obs,
        action=bits,
        reward=np.zeros(40),
        terminated=yes,
        truncated=~yes,
        next_obs=obs,
        log_prob=np.zeros(40),
        spec=Spec(OBS, MultiBinary(2)),
    )
    agent = BC(dataset=data, **QUICK)
    assert off_policy(agent, data).refusal == "MultiBinary actions are not supported: use Discrete or Box"


def test_other_data_and_policies_with_memory_are_errors() -> None:
    with pytest.raises(ConfigError, match="the dataset's observations are"):
        off_policy(cloned(), steps_of("Pendulum-v1"))
    recurrent = rl_training.RecurrentPPO("CartPole-v1", n_steps=8, n_envs=4, batch_size=32, compile=False)
    with pytest.raises(ConfigError, match="recurrent_ppo acts by memory"):
        off_policy(recurrent, steps_of("CartPole-v1"))


def test_too_few_rows_that_count_are_refused() -> None:
    """CartPole's random data, ten actions in a row: a greedy policy agrees with hardly any whole episode."""
    agent = cql(None)
    report = off_policy(agent, steps_of("CartPole-v1"), updates=0)
    assert "effective sample size" in report.refusal
    assert report.value is None


def test_an_episode_report_is_that_of_its_log(folder: Path) -> None:
    agent, _ = on_policy(folder)
    data = steps_of("CartPole-v1", 2_000, seed=3)
    taken = target_of(agent, data)[np.arange(len(data)), data.action]
    log = EpisodeLog(
        episodes=data.episodes().index_of(np.arange(len(data))),
        rewards=data.reward,
        propensities=np.full(len(data), 0.5),
        gamma=0.9,
    )
    expected = evaluate_episodes(log, taken)
    report = off_policy(agent, data, gamma=0.9, updates=0)
    assert report.refusal is None
    for ours, theirs in zip(report.rows, expected.rows, strict=True):
        assert ours.value == pytest.approx(theirs.value, rel=1e-5)


def test_fitted_q_needs_no_probabilities_and_leaves_the_agent_as_it_is(folder: Path) -> None:
    agent, data = on_policy(folder)
    before = {name: value.clone() for name, value in agent.algorithm.state_dict().items()}
    found = fitted_q(agent, without(data, None), gamma=0.2, updates=200)
    assert found.action_values.shape == found.state_values.shape == (len(data),)
    assert found.value == pytest.approx(found.state_values[data.episodes().start].mean())
    assert found.value == pytest.approx(1.25, abs=0.1)  # a reward of 1 for ever
    assert found.value == fitted_q(agent, data, gamma=0.2, updates=200).value
    assert all(torch.equal(before[name], value) for name, value in agent.algorithm.state_dict().items())


def test_fitted_q_evaluates_actions_as_the_environment_takes_them() -> None:
    """A Gaussian around 5 in an environment with bounds of -1 and 1, where the reward is the action."""
    rng, yes = np.random.default_rng(0), np.ones(1_000, bool)
    obs, action = np.zeros((1_000, 2), np.float32), rng.uniform(-1, 1, (1_000, 1))
    columns = {
        "obs": obs,
        "action": action,
        "reward": action[:, 0],
        "terminated": yes,
        "truncated": ~yes,
        "next_obs": obs,
    }
    data = Dataset.from_arrays(**columns, spec=Spec(OBS, Box((1,), (-1.0,), (1.0,))))
    agent = BC(dataset=data, **QUICK | {"net_arch": [], "log_std_init": -3.0})
    with torch.no_grad():
        agent.algorithm.policy.head.net.bias0.fill_(5.0)
    assert fitted_q(agent, data, updates=300).value == pytest.approx(1.0, abs=0.2)
