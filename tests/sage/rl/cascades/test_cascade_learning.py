"""Cascades learned from logged episodes, judged by the gate, and kept in a file."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cascade_replay import replay_cascade

from sage.evidence.cascades.cascade_data import CascadeData
from sage.evidence.objective import Objective
from sage.evidence.task_evidence import EvaluationError
from sage.policies.cascades.cascade_ladder import ExploringCascade, LadderByRole, LadderCascade
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.policies.checkpoint import PolicyLoadError, load_cascade, load_policy, save_policy
from sage.policies.learned_policy import Training
from sage.proof.cascade_evaluation import evaluate_cascade
from sage.proof.gate import decide
from sage.rl.cascades.cascade_estimates import incumbent_target, target_of
from sage.rl.cascades.cascade_learning import learn_fitted_q
from sage.rl.cascades.cascade_selection import (
    LEARNERS,
    PricedCascades,
    choose_cascade,
    copy_incumbent,
    learn_within,
)
from sage.rl.cascades.cascade_stopping import as_cascade, solve, types_of
from sage.rl.cascades.simulated_verifier import SimulatedVerifier
from tests.sage.evidence.cascades.test_cascade_data import small_table

VERIFIER, PRICE = SimulatedVerifier(0.95, 0.1), 0.6
LOGGER = ExploringCascade(LadderCascade(("c",)), 0.4)  # the dear model alone, with exploration


def episodes(num: int = 6_000, *, num_tasks: int = 400, seed: int = 0) -> CascadeData:
    return replay_cascade(small_table(num_tasks), LOGGER, num, verifier=VERIFIER, seed=seed)


@pytest.fixture(scope="module")
def parts() -> tuple[CascadeData, CascadeData]:
    return episodes().split_by_task(0.5, seed=0)


def true_reward(policy, seed: int = 5) -> float:
    data = replay_cascade(small_table(400), policy, 20_000, verifier=VERIFIER, seed=seed)
    return data.quality.mean() - PRICE * data.total_cost.mean()


def test_fitted_q_comes_near_the_best_cascade(parts):
    table = small_table(400)
    best = solve(types_of(table.score, table.cost_usd, VERIFIER), PRICE).value
    learned = true_reward(learn_fitted_q(parts[0], PRICE))
    assert learned > best - 0.03
    assert learned > true_reward(LadderCascade(("c",))) + 0.1


@pytest.mark.slow
def test_dqn_learns_a_cascade_from_the_same_episodes(parts):
    assert true_reward(LEARNERS["dqn"](parts[0], PRICE)) > true_reward(LadderCascade(("c",))) + 0.1


def test_actions_that_were_hardly_tried_are_not_taken():
    data = episodes(200, seed=1)
    never = data.select(~np.isin(np.arange(len(data)), data.episode[data.action == 0]))  # without model a
    policy = learn_fitted_q(never, PRICE)
    probabilities = policy.step_probabilities(data.states, data.models, data.eligible)
    assert probabilities[:, 0].max() == 0
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_other_learners_must_be_better_by_more_than_a_standard_error(parts):
    worse = {"fitted-q": learn_fitted_q, "always dear": lambda data, price: learn_fitted_q(data, 0.0)}
    chosen = choose_cascade(parts[0], PRICE, worse)
    assert chosen.name == "fitted_q"
    assert chosen.price == PRICE
    assert chosen.training.calibration["learners"]["always dear"]["gain"] < 0


def test_a_checkpoint_gives_back_the_cascade(tmp_path, parts):
    policy = learn_fitted_q(parts[0], PRICE)
    save_policy(tmp_path / "c.safetensors", policy)
    again = load_cascade(tmp_path / "c.safetensors")
    assert again.version == policy.version
    data = parts[1]
    np.testing.assert_array_equal(
        again.step_probabilities(data.states, data.models, data.eligible),
        policy.step_probabilities(data.states, data.models, data.eligible),
    )
    with pytest.raises(PolicyLoadError, match="is a cascade"):
        load_policy(tmp_path / "c.safetensors")


def test_a_limit_between_two_prices_is_met_by_a_share_of_tasks_for_each(tmp_path, parts):
    table = small_table(400)
    alone = {
        price: replay_cascade(table, learn_fitted_q(parts[0], price), 4_000, verifier=VERIFIER, seed=3)
        for price in (0.0, 0.8)
    }
    dear, cheap = (float(data.total_cost.mean()) for data in alone.values())
    budget = (dear + cheap) / 2
    policy = learn_within(parts[0], Objective(max_usd_per_task=budget))
    assert policy.other is not None
    mine = policy.decides(table.task_id)
    assert mine.mean() == pytest.approx(policy.share, abs=0.07)
    served = replay_cascade(table, policy, 4_000, verifier=VERIFIER, seed=3)
    assert cheap < served.total_cost.mean() < budget
    assert alone[0.8].quality.mean() < served.quality.mean() < alone[0.0].quality.mean()
    save_policy(tmp_path / "c.safetensors", policy)
    again, data = load_cascade(tmp_path / "c.safetensors"), parts[1]
    assert again.version == policy.version
    np.testing.assert_array_equal(
        again.step_probabilities(data.states, data.models, data.eligible),
        policy.step_probabilities(data.states, data.models, data.eligible),
    )


def test_a_cascade_that_costs_more_when_learned_from_all_tasks_counts_with_that(parts):
    cheap, dear = (learn_fitted_q(parts[0], price) for price in (0.8, 0.0))
    found = {0: (cheap, 1.0), 1: (dear, 4.0)}
    gain, cost, sure = np.array([-0.2, 0.1, 0.0]), np.array([1.0, 2.0, 9.0]), np.zeros(3)
    priced = PricedCascades(parts[0], [copy_incumbent] * 3, gain, sure, cost, sure, 0, found)
    policy = priced.within(Objective(max_usd_per_task=2.5))  # by the estimates alone, the dear one would fit
    assert policy.other is not None
    assert (policy.price, policy.other.price, policy.share) == (0.8, 0.0, 0.5)


def in_other_units(data: CascadeData, scale: float) -> CascadeData:
    return dataclasses.replace(data, cost_usd=scale * data.cost_usd, spent_usd=scale * data.spent_usd)


@pytest.fixture(scope="module")
def within_budgets() -> tuple[CascadeData, dict[float, LearnedCascade]]:
    """Cascades for .35 of what the dear model costs, from the same episodes with calls of 1e-4 to 1e3 dollars."""
    data = episodes(600, num_tasks=200)
    return data, {
        scale: learn_within(in_other_units(data, scale), Objective(max_usd_per_task=0.35 * scale))
        for scale in (1.0, 1e-4, 1e3)
    }


@pytest.mark.parametrize("scale", [1e-4, 1e3])
def test_the_choice_under_a_budget_does_not_depend_on_what_calls_cost(within_budgets, scale):
    data, found = within_budgets
    usual, policy = found[1.0], found[scale]
    assert (policy.price * scale, policy.share) == (pytest.approx(usual.price), pytest.approx(usual.share))
    states = data.states._replace(spent_usd=scale * data.spent_usd)
    np.testing.assert_array_equal(
        policy.step_probabilities(states, data.models, data.eligible),
        usual.step_probabilities(data.states, data.models, data.eligible),
    )
    table = small_table(4_000, seed=9)  # as many, because the share that a task belongs to is drawn by its hash
    table = dataclasses.replace(table, cost_usd=scale * table.cost_usd)
    served = replay_cascade(table, policy, 4_000, verifier=VERIFIER, seed=3, rows=np.arange(4_000))
    assert 0.09 * scale < served.total_cost.mean() < 0.37 * scale


def test_a_budget_that_nothing_keeps_to_leaves_the_incumbent_in_charge(parts):
    objective = Objective(max_usd_per_task=0.01)  # a tenth of the cheapest call
    policy = learn_within(parts[0], objective)
    assert policy.name == "incumbent"
    assert not policy.training.calibration["within_limit"]
    verdict = decide(evaluate_cascade(parts[1], policy, objective=objective))
    assert not verdict.promote
    assert "nothing to promote" in verdict.reason


def test_where_every_saving_may_cost_quality_the_incumbent_decides():
    policy = learn_within(episodes(300, num_tasks=60), Objective(max_points_worse=0.0), LadderCascade(("c", "a")))
    assert policy.name == "incumbent"
    assert policy.training.calibration["within_limit"]


def test_a_copy_of_the_incumbent_knows_roles_apart():
    data = episodes(300, num_tasks=60)
    roles = np.where(np.arange(len(data)) % 3 == 0, "planner", "coder")
    data = dataclasses.replace(data, contexts=data.contexts._replace(role=roles))
    incumbent = LadderByRole({"coder": ("a", "b", "c"), "planner": ("a", "c")})
    np.testing.assert_array_equal(target_of(data, copy_incumbent(data, incumbent)), incumbent_target(data, incumbent))
    logged = incumbent_target(data, None)
    np.testing.assert_array_equal(target_of(data, copy_incumbent(data, None)), logged)


def test_free_calls_keep_to_every_budget():
    free = in_other_units(episodes(300, num_tasks=60), 0.0)
    assert learn_within(free, Objective(max_usd_per_task=0.01)).training.calibration["within_limit"]


def test_the_gate_promotes_a_better_cascade_and_refuses_a_worse_one(parts):
    found = evaluate_cascade(parts[1], learn_fitted_q(parts[0], PRICE), static=LadderCascade(("c",)))
    assert decide(found).promote, decide(found).reason
    assert found.parts is not None
    assert found.parts.cost_usd is not None
    assert found.parts.cost_usd.value < found.parts.cost_usd.high < 0  # a call may cost more, though none has yet
    assert found.parts.cost_ratio is not None
    assert found.parts.cost_ratio.value == pytest.approx(
        1 + found.parts.cost_usd.value
    )  # the dear model costs a dollar
    assert found.report.value == pytest.approx(found.parts.quality.value - PRICE * found.parts.cost_usd.value)
    assert min(found.step_sample_sizes["candidate"]) >= 50
    assert found.report.diagnostics["candidate"].expected_effective_sample_size is not None
    worse = learn_fitted_q(parts[0], 0.0)  # for which money plays no part
    worse = dataclasses.replace(worse, price=PRICE)
    refused = decide(evaluate_cascade(parts[1], worse, static=LadderCascade(("a",))))
    assert not refused.promote
    assert "not above zero" in refused.reason


def test_cascades_whose_answers_were_all_right_may_still_be_wrong(parts):
    perfect = dataclasses.replace(parts[1], quality=np.ones(len(parts[1])))
    found = evaluate_cascade(perfect, learn_fitted_q(parts[0], PRICE), static=LadderCascade(("c",)), method="t")
    assert found.parts is not None
    assert found.parts.quality.low < -0.01
    assert found.parts.quality.value == pytest.approx(0, abs=1e-9)
    assert found.report.value - found.report.interval.low > 0.01


def test_the_estimate_is_near_the_truth(parts):
    policy, dear = learn_fitted_q(parts[0], PRICE), LadderCascade(("c",))
    found = evaluate_cascade(parts[1], policy, static=dear, method="t")
    held_out = small_table(400)
    held_out = held_out.select(np.isin(held_out.task_id, parts[1].contexts.task_id))
    values = []
    for cascade in (policy, dear):
        data = replay_cascade(held_out, cascade, 20_000, verifier=VERIFIER, seed=9)
        values.append(data.quality.mean() - PRICE * data.total_cost.mean())
    assert found.report.interval is not None
    assert found.report.interval.low < values[0] - values[1] < found.report.interval.high
    assert found.report.interval.high - found.report.interval.low < 0.25


def test_missing_outcomes_that_could_turn_the_verdict_are_refused(parts):
    held_out = parts[1]
    policy = learn_fitted_q(parts[0], PRICE)
    wanted = policy.step_probabilities(held_out.states, held_out.models, held_out.eligible).argmax(axis=1)
    begins_alike = (held_out.action == wanted)[held_out.step == 0]
    hidden = begins_alike & (held_out.quality == 0)  # all failures of episodes that begin as the cascade does
    gone = dataclasses.replace(held_out, quality=np.where(hidden, np.nan, held_out.quality))
    found = evaluate_cascade(gone, policy, static=LadderCascade(("c",)), method="t")
    whole = evaluate_cascade(held_out, policy, static=LadderCascade(("c",)), method="t")
    assert found.missing.rows == sum(gaps.missing for gaps in found.missing.models.values()) == hidden.sum()
    assert found.missing.worst_case.low <= whole.report.interval.low + 0.01  # pyrefly: ignore (neither refuses)
    assert found.report.value > whole.report.value + 0.05  # pyrefly: ignore (what the gaps would have made of it)
    assert "missing outcomes" in decide(found).reason


def test_tasks_that_were_learned_from_prove_nothing(parts):
    with pytest.raises(EvaluationError, match="every task"):
        evaluate_cascade(parts[0], learn_fitted_q(parts[0], PRICE))


def test_a_cascade_of_known_rates_serves_like_a_learned_one():
    table = small_table(100)
    solution = solve(types_of(table.score, table.cost_usd, VERIFIER), PRICE)
    training = Training("optimal_stopping", "", "replay", "quality", 0, 0)
    policy = as_cascade(solution, table.models, price=PRICE, training=training)
    assert true_reward(policy) == pytest.approx(solution.value, abs=0.08)
