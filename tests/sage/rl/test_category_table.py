from dataclasses import replace

import numpy as np
import pytest

from sage.evidence.incumbent import IncumbentError
from sage.proof.evaluation import evaluate_offline
from sage.proof.gate import decide
from sage.rl.category_table import learn_table, table_from_outcomes
from sage.rl.doubly_robust_learner import learn_doubly_robust
from tests.sage.rl.made_logs import MODELS, TRUTH, made_contexts, made_log

CONTEXTS = made_contexts(np.array(["code", "prose"]), np.array(["x", "y"]))
ALL = np.ones((2, 3), bool)


def outcomes(num_tasks: int = 400, seed: int = 0):
    rng = np.random.default_rng(seed)
    category = np.array(["code", "prose"])[np.arange(num_tasks) % 2]
    mean = np.array([TRUTH[name] for name in category])
    contexts = made_contexts(category, np.array([f"t{i}" for i in range(num_tasks)]))
    return contexts, (rng.random(mean.shape) < mean).astype(float)


def test_full_outcomes_give_the_best_model_of_every_category():
    contexts, rewards = outcomes()
    policy = table_from_outcomes(contexts, MODELS, rewards)
    np.testing.assert_array_equal(policy.probabilities(CONTEXTS, MODELS, ALL), [[0, 1, 0], [1, 0, 0]])


def test_a_category_of_two_lucky_tasks_does_not_overrule_all_others():
    contexts, rewards = outcomes()
    truth = np.array([TRUTH["prose"]] * 400)
    rewards = (np.random.default_rng(1).random(rewards.shape) < truth).astype(float)
    category = np.array([f"c{i % 8}" for i in range(400)])
    category[:2], rewards[:2] = "tiny", [0.0, 0.0, 1.0]
    policy = table_from_outcomes(made_contexts(category, contexts.task_id), MODELS, rewards)
    asked = made_contexts(np.array(["tiny"]), np.array(["x"]))
    assert policy.probabilities(asked, MODELS, ALL[:1]).argmax() == 0


def test_outcomes_that_were_not_run_are_left_out_not_counted_as_zero():
    contexts, rewards = outcomes()
    rewards[::3, 1] = np.nan
    policy = table_from_outcomes(contexts, MODELS, rewards)
    np.testing.assert_array_equal(policy.probabilities(CONTEXTS, MODELS, ALL), [[0, 1, 0], [1, 0, 0]])


def test_a_model_that_ran_on_few_tasks_is_not_the_incumbent_and_a_cell_without_the_incumbent_has_another():
    contexts, rewards = outcomes()
    rewards[:, 2] = np.nan
    rewards[:4, 2] = 1.0  # the best mean, of four tasks
    code = contexts.category == "code"
    rewards[code, 0] = np.nan  # "big" never ran on code
    policy = table_from_outcomes(contexts, MODELS, rewards, incumbent="big")
    eligible = np.array([[False, True, False], [True, True, False]])
    np.testing.assert_array_equal(policy.probabilities(CONTEXTS, MODELS, eligible), [[0, 1, 0], [1, 0, 0]])
    assert policy.mean[0, 1] == 0  # the incumbent of code is "mid"


def test_a_log_gives_the_same_answer_as_full_outcomes():
    policy = learn_table(made_log(8_000))
    np.testing.assert_array_equal(policy.probabilities(CONTEXTS, MODELS, ALL), [[0, 1, 0], [1, 0, 0]])
    expected = {("coder", c): np.array(TRUTH[c]) - TRUTH[c][0] for c in TRUTH}
    for row, pair in enumerate(policy.cells.pairs):
        np.testing.assert_allclose(policy.mean[row], expected[pair], atol=0.08)
        assert policy.mean[row, 0] == policy.deviation[row, 0] == 0  # the incumbent


def test_propensities_that_follow_difficulty_do_not_deceive():
    # Within one category: hard tasks went to "mid" nearly always, easy ones to "big"; "mid" is better on both.
    rng, rows = np.random.default_rng(0), 12_000
    log = made_log(rows)
    hard = rng.random(rows) < 0.5
    propensity = np.where(hard[:, None], [0.1, 0.8, 0.1], [0.8, 0.1, 0.1])
    action = (rng.random(rows)[:, None] > propensity.cumsum(axis=1)).sum(axis=1).clip(max=2)
    chance = np.where(hard, 0.2, 0.7) + 0.1 * (action == 1) - 0.1 * (action == 2)
    contexts = made_contexts(np.full(rows, "code"), log.contexts.task_id)
    log = replace(
        log, contexts=contexts, propensity=propensity, action=action, quality=(rng.random(rows) < chance).astype(float)
    )
    assert log.quality[action == 1].mean() < log.quality[action == 0].mean()  # what a naive table would see
    big = FixedPolicy(0)
    policy = learn_table(log, static=big)
    assert policy.mean[0, 1] == pytest.approx(0.1, abs=0.04)


class FixedPolicy:
    version = "1"
    name = "fixed"

    def __init__(self, column: int) -> None:
        self.column = column

    def probabilities(self, contexts, models, eligible):
        return np.eye(len(models))[np.full(len(eligible), self.column)]

    def confidence(self, contexts, models, eligible):
        return np.ones(len(eligible))


def test_the_pessimistic_learner_stays_where_data_are_few_and_leaves_where_they_are_many():
    few, many = learn_doubly_robust(made_log(150, epsilon=0.1)), learn_doubly_robust(made_log(8_000))
    assert few.probabilities(CONTEXTS, MODELS, ALL).argmax(axis=1).tolist() == [0, 0]
    assert many.probabilities(CONTEXTS, MODELS, ALL).argmax(axis=1).tolist() == [1, 0]
    assert many.confidence(CONTEXTS, MODELS, ALL)[0] > 0.95
    assert many.confidence(CONTEXTS, MODELS, ALL)[1] == 1.0  # it keeps the incumbent


def test_the_pessimistic_learner_leaves_only_for_a_gain_that_as_many_new_tasks_should_show(policy):
    shape = policy.mean.shape
    sure = {"mean": np.tile([0.0, 0.1, -0.1], (shape[0], 1)), "deviation": np.tile([0.0, 0.05, 0.05], (shape[0], 1))}
    pessimistic = replace(policy, **sure, pessimism=1.645, spread=1.0, next_tasks=np.zeros(shape))
    assert pessimistic.scores(CONTEXTS)[0, 1] == pytest.approx(0.1 - 1.645 * 0.05)  # above the incumbent's 0
    cautious = replace(pessimistic, next_tasks=np.tile([0.0, 0.05, 0.05], (shape[0], 1)))
    assert cautious.scores(CONTEXTS)[0, 1] == pytest.approx(0.1 - 1.645 * np.sqrt(0.05**2 + 0.05**2))  # below
    assert cautious.probabilities(CONTEXTS, MODELS, ALL).argmax(axis=1).tolist() == [0, 0]
    chances = (p.chances(CONTEXTS, np.array([1, 1])) for p in (pessimistic, cautious))
    np.testing.assert_array_equal(*chances)  # the confidence is in the gain itself


def test_rows_copied_within_their_tasks_make_nothing_surer():
    log = made_log(1_500, epsilon=0.6)
    once, thrice = learn_table(log), learn_table(log.select(np.repeat(np.arange(1_500), 3)))
    np.testing.assert_allclose(thrice.deviation[:2], once.deviation[:2], rtol=0.05)
    assert thrice.spread == pytest.approx(once.spread, rel=0.05)


def test_a_model_that_could_not_be_chosen_has_no_gain():
    log = made_log(2_000)
    propensity = np.where(np.arange(3) == 2, 0.0, log.propensity)
    propensity /= propensity.sum(axis=1, keepdims=True)
    kept = log.action != 2
    policy = learn_table(replace(log, propensity=propensity).select(kept))
    assert np.isnan(policy.mean[:, 2]).all()
    assert (policy.scores(CONTEXTS)[:, 2] == -np.inf).all()


@pytest.fixture(scope="module")
def policy():
    return learn_table(made_log(8_000))


def test_a_new_model_is_never_chosen(policy):
    pool = ("newcomer", *MODELS)
    given = policy.probabilities(CONTEXTS, pool, np.ones((2, 4), bool))
    np.testing.assert_array_equal(given, [[0, 0, 1, 0], [0, 1, 0, 0]])


def test_a_removed_model_leaves_the_choice_to_the_others(policy):
    given = policy.probabilities(CONTEXTS, ("big", "small"), np.ones((2, 2), bool))
    np.testing.assert_array_equal(given, [[1, 0], [1, 0]])
    not_eligible = np.array([[True, False, True], [False, True, True]])
    given = policy.probabilities(CONTEXTS, MODELS, not_eligible)
    np.testing.assert_array_equal(given, [[1, 0, 0], [0, 1, 0]])


def test_a_pool_of_strangers_gets_equal_chances_and_no_confidence(policy):
    pool, eligible = ("a", "b"), np.array([[True, True], [False, True]])
    np.testing.assert_array_equal(policy.probabilities(CONTEXTS, pool, eligible), [[0.5, 0.5], [0, 1]])
    np.testing.assert_array_equal(policy.confidence(CONTEXTS, pool, eligible), [0, 0])


def test_categories_and_roles_never_seen_keep_the_incumbent_or_abstain(policy):
    unseen = made_contexts(np.array(["law"]), np.array(["x"]))
    assert policy.probabilities(unseen, MODELS, ALL[:1]).argmax() == 0  # two categories say nothing about a third
    strangers = made_contexts(np.array(["code"]), np.array(["x"]), role="planner")
    assert policy.confidence(strangers, MODELS, ALL[:1])[0] == 0.0


def test_a_log_of_two_policies_needs_the_static_table():
    log = made_log(400)
    mixed = replace(log, policy=np.where(np.arange(400) < 200, "static", "cql"))
    with pytest.raises(IncumbentError, match=r"2 policies \(cql 1, static 1\).*--models"):
        learn_table(mixed)
    assert learn_table(mixed, static=FixedPolicy(0)).training.against == "fixed"


class SmallForEvenTasks(FixedPolicy):
    """A static table with a trigger: within a category it is not always the same model."""

    name = "triggered"

    def probabilities(self, contexts, models, eligible):
        even = np.array([int(task.rsplit("-", 1)[1]) // 2 % 2 == 0 for task in contexts.task_id])
        return np.where(even[:, None], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0])


def test_where_the_static_table_varies_within_a_cell_gains_are_over_what_it_does_in_each_row():
    static = SmallForEvenTasks(0)
    policy = learn_doubly_robust(made_log(12_000), static=static)
    for row, (_, category) in enumerate(policy.cells.pairs):
        big, _, small = TRUTH[category]
        expected = np.array(TRUTH[category]) - (big + small) / 2
        np.testing.assert_allclose(policy.mean[row], expected, atol=0.08)
        assert (policy.deviation[row] > 0).all()  # no model is the incumbent everywhere


def test_keeping_the_static_table_is_no_reason_to_overrule_its_triggers():
    # The static table is right in every row: nothing is better, so nothing may be sure.
    log, static = made_log(12_000), SmallForEvenTasks(0)
    right = log.action == static.probabilities(log.contexts, MODELS, log.eligible).argmax(axis=1)
    policy = learn_table(replace(log, quality=right.astype(float)), static=static)
    assert (policy.confidence(CONTEXTS, MODELS, ALL) < 0.01).all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [({"incumbent": "nobody"}, "incumbent='nobody' is not one of"), ({"models": MODELS[:2]}, "400 tasks x 2 models")],
)
def test_bad_outcomes_get_a_sentence(change, sentence):
    contexts, rewards = outcomes()
    with pytest.raises(ValueError, match=sentence):
        table_from_outcomes(contexts, change.pop("models", MODELS), rewards, **change)


@pytest.mark.parametrize("successes", [0, 1])
@pytest.mark.parametrize("learn", [learn_table, learn_doubly_robust])
def test_an_incumbent_that_never_or_hardly_ever_succeeds_is_replaced(learn, successes):
    log = made_log(2_000, truth={"code": (0.0, 0.6, 0.2), "prose": (0.0, 0.4, 0.3)})
    log.quality[np.flatnonzero(log.action == 0)[:successes]] = 1.0
    policy = learn(log.split_by_task(0.5, 0)[0])
    np.testing.assert_array_equal(policy.probabilities(CONTEXTS, MODELS, ALL), [[0, 1, 0], [0, 1, 0]])
    assert policy.mean[0, 1] == pytest.approx(0.6, abs=0.15)  # not drawn to nothing
    verdict = decide(evaluate_offline(log, policy, floor=0.5))
    assert verdict.promote, verdict.reason


def test_gains_over_an_incumbent_without_spread_do_not_depend_on_the_scale_of_rewards():
    contexts, rewards = outcomes()
    rewards[:, 0] = 0.0
    one, ten = (table_from_outcomes(contexts, MODELS, k * rewards, incumbent="big") for k in (1.0, 10.0))
    np.testing.assert_allclose(ten.mean, 10 * one.mean)
    np.testing.assert_allclose(one.mean[:2, 1], [0.8, 0.4], atol=0.1)
