"""Choosing among agents by data alone: criteria by hand, and sentences where the data cannot tell."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from rl_training import Agent, ConfigError, Dataset
from rl_training.api.off_policy_evaluation import values_by_critics
from rl_training.evaluation import rank
from rl_training.evaluation.model_selection import possible_values, successes
from tests.offline import cloned, cql, rlpd, steps_of


class Fitted:
    """Values as fitted Q evaluation gives them, the same for every row."""

    def __init__(self, value: float, rows: int) -> None:
        self.state_values = np.full(rows, value)


def fake_values(monkeypatch: pytest.MonkeyPatch, values: list[float], truths: list[float]) -> None:
    estimates, returns = iter(values), iter(truths)
    module = "rl_training.api.off_policy_evaluation"
    monkeypatch.setattr(f"{module}.fitted_q", lambda agent, data, **_: Fitted(next(estimates), len(data)))
    monkeypatch.setattr(Agent, "evaluate", lambda *a, **k: type("Result", (), {"mean": next(returns)}))


def test_candidates_are_ranked_and_the_regret_is_what_was_missed(tmp_path: Path, monkeypatch) -> None:
    names = [str(tmp_path / name) for name in "abc"]
    for name in names:
        cloned().save(name)
    fake_values(monkeypatch, [1.0, 5.0, 3.0], [10.0, 40.0, 100.0])
    found = rank(names, steps_of("CartPole-v1"), truth_episodes=5)
    assert found.paths == (names[1], names[2], names[0])
    assert found.estimates == (5.0, 3.0, 1.0)
    assert found.returns == (40.0, 100.0, 10.0)
    assert found.regret == 60.0
    assert found.rank_correlation == pytest.approx(0.5)
    assert (found.decided, found.as_good, found.first_is_best) == (True, (), 1.0)
    assert str(found).splitlines()[-1] == "rank correlation 0.50, regret of the first 60.00"


def test_ranking_needs_no_environment_and_says_that_its_worth_is_unknown(tmp_path: Path) -> None:
    for number, updates in enumerate((1, 60)):
        agent = cloned(None)
        agent.learn(total_updates=updates, progress=False)
        agent.save(tmp_path / str(number))
    found = rank([tmp_path / "0", tmp_path / "1"], steps_of("CartPole-v1"), updates=30)
    assert sorted(found.paths) == [str(tmp_path / "0"), str(tmp_path / "1")]
    assert found.estimates[0] >= found.estimates[1]
    assert found.intervals[0][0] < found.estimates[0] < found.intervals[0][1]
    assert (found.returns, found.rank_correlation, found.regret) == (None, None, None)
    assert "how well this criterion ranks these candidates is not known" in str(found)


def test_values_beyond_all_rewards_are_not_believed(monkeypatch) -> None:
    """CartPole's reward is 1, so that with a discount of 0.99 nothing is worth more than 100."""
    fake_values(monkeypatch, [212.0, 80.0], [])
    found = rank([cloned(), cloned()], steps_of("CartPole-v1"))
    assert (found.impossible, found.as_good, found.decided) == (("0: bc",), (), False)
    assert "cannot tell: the values of 0: bc are beyond any discounted sum of the data's rewards" in str(found)
    fake_values(monkeypatch, [212.0, 80.0], [])
    assert rank([cloned(), cloned()], steps_of("CartPole-v1"), gamma=0.999).impossible == ()
    assert possible_values(np.array([-3.0, 1.0]), 0.5) == (-6.0, 2.0)
    assert possible_values(np.array([-3.0, -1.0]), 1.0) == (-np.inf, 0.0)


def test_agents_that_act_the_same_cannot_be_told_apart() -> None:
    agent = cql()
    found = rank([agent, cql()], steps_of("CartPole-v1"), criterion="initial_value")
    assert found.paths == ("0: discrete_cql", "1: discrete_cql")
    assert (found.decided, found.as_good) == (False, ("1: discrete_cql",))
    assert "cannot tell 0: discrete_cql from 1: discrete_cql" in str(found)
    assert found.to_json()["decided"] is False


def by_hand(agent: Agent, data: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q of all actions by the network itself, here and after."""
    with torch.no_grad():
        here, after = (
            agent.algorithm.policy.q_values(torch.from_numpy(x)).double().numpy() for x in (data.obs, data.next_obs)
        )
    q = here[np.arange(len(data)), data.action]
    return q, here.max(1), data.reward + 0.99 * np.where(data.terminated, 0.0, after.max(1)) - q


def test_own_values_are_those_of_the_network() -> None:
    agent, data = cql(), steps_of("CartPole-v1")
    agent.learn(total_updates=20, progress=False)
    for ours, theirs in zip(values_by_critics(agent, data), by_hand(agent, data), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_own_values_of_continuous_actions_are_the_smallest_critics() -> None:
    agent, data = rlpd(), steps_of("Pendulum-v1")
    agent.learn(total_updates=5, progress=False)
    algorithm, found = agent.algorithm, values_by_critics(agent, data)
    obs, action = torch.from_numpy(data.obs), torch.from_numpy(data.action) / 2  # Pendulum's bounds are 2
    with torch.no_grad():
        q = algorithm.critics(algorithm.critic_view(obs), action, train=False).squeeze(-1).amin(0)
    np.testing.assert_allclose(found.action_values, q.numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.state_values, algorithm.values(obs).detach().numpy(), rtol=1e-4, atol=1e-4)


def test_rewards_that_were_scaled_are_scaled_back() -> None:
    data = steps_of("CartPole-v1")
    plain, scaled = cql(), cql(reward_scale=10.0)
    np.testing.assert_allclose(
        values_by_critics(scaled, data).action_values, values_by_critics(plain, data).action_values / 10
    )
    with pytest.raises(ConfigError, match="learned from rewards that were shifted by 1, so that its own values are no"):
        values_by_critics(cql(reward_shift=1.0), data)


@cache
def pair() -> tuple[Agent, Agent]:
    """One that has learned nothing, and one that has."""
    agents = cql(seed=1), cql(seed=2)
    agents[1].learn(total_updates=200, progress=False)
    return agents


@pytest.mark.parametrize("criterion", ["initial_value", "soft_opc", "td_error"])
def test_criteria_by_hand(criterion: str) -> None:
    data, agents = steps_of("CartPole-v1"), pair()
    found = rank(agents, data, criterion=criterion, success=0.5)
    expected = []
    for agent in agents:
        q, v, error = by_hand(agent, data)
        good = np.repeat(data.returns >= np.quantile(data.returns, 0.5, method="higher"), data.episodes().length)
        score = {"initial_value": v[data.episodes().start].mean(), "td_error": (error**2).mean()}
        expected.append({**score, "soft_opc": q[good].mean() - q.mean()}[criterion])
    best = int(np.argmin(expected) if criterion == "td_error" else np.argmax(expected))
    assert found.paths[0] == f"{best}: discrete_cql"
    assert found.estimates == pytest.approx([expected[best], expected[1 - best]], rel=1e-4, abs=1e-4)
    for estimate, (low, high) in zip(found.estimates, found.intervals, strict=True):
        assert low < estimate < high


def test_less_is_better_for_temporal_differences(monkeypatch) -> None:
    monkeypatch.setattr(
        Agent, "evaluate", lambda agent, *a, **k: type("Result", (), {"mean": float(agent.config.training.seed)})
    )
    found = rank(pair(), steps_of("CartPole-v1"), criterion="td_error", truth_episodes=1)
    assert found.estimates[0] < found.estimates[1]
    assert found.rank_correlation == pytest.approx(1.0 if found.returns == (2.0, 1.0) else -1.0)


def test_ties_count_as_successes_together() -> None:
    assert successes(np.array([1.0, 2.0, 3.0, 4.0]), 0.25).tolist() == [False, False, False, True]
    assert successes(np.array([1.0, 4.0, 4.0, 4.0]), 0.25).tolist() == [False, True, True, True]
    with pytest.raises(ConfigError, match="all 3 episodes have a return of 5 or tie with the best 25%: soft_opc needs"):
        successes(np.full(3, 5.0), 0.25)


WRONG = {
    "one candidate": ({}, 1, "ranking needs at least two agents, or paths of saved ones: candidates names 1"),
    "unknown": (
        {"criterion": "fqe"},
        2,
        "criterion='fqe' is not known: use fitted_q, initial_value, soft_opc, td_error",
    ),
    "discount": ({"criterion": "td_error", "gamma": 0.9}, 2, "gamma=0.9 with criterion='td_error': agents' own values"),
    "share": ({"criterion": "soft_opc", "success": 1.0}, 2, "success=1 must lie between 0 and 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_ranked_is_refused(name: str) -> None:
    settings, num, sentence = WRONG[name]
    with pytest.raises(ConfigError, match=sentence):
        rank(["nowhere"] * num, steps_of("CartPole-v1"), **settings)


def test_candidates_that_do_not_compare_are_refused() -> None:
    data = steps_of("CartPole-v1")
    with pytest.raises(
        ConfigError, match="BC has no critics of its own whose values could be compared: use criterion="
    ):
        rank([cloned(), cloned()], data, criterion="td_error")
    with pytest.raises(
        ConfigError, match=r"learned with different discounts, 0\.9, 0\.99, so that their values do not"
    ):
        rank([cql(), cql(gamma=0.9)], data, criterion="initial_value")
    with pytest.raises(ConfigError, match="the dataset has one episode: intervals over episodes need at least two"):
        rank([cql(), cql()], data.select(np.array([0])), criterion="initial_value")
