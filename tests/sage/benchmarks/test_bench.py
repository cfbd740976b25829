import json
from dataclasses import replace

import numpy as np
import pytest

from sage.benchmarks import baselines
from sage.benchmarks.baselines import all_baselines
from sage.benchmarks.run_pack import CHECKPOINT, MANIFEST, RESULTS, SUITE, RunPackError, differences, verify, write_pack
from sage.benchmarks.runner import FLOOR, BenchError, expected, run_suite, split
from sage.benchmarks.suite import Suite, SuiteError, parse_suite, read_suite
from sage.outcomes.synthetic import synthetic_table
from sage.outcomes.table import OutcomeTable
from sage.policies.checkpoint import save_policy
from sage.policies.learned_policy import was_seen
from sage.policies.serving import GuardRules, serving_distribution
from sage.rl.category_table import learn_table
from sage.rl.logging_policies import Exploring, PreferenceOrder
from sage.rl.replay import replay

SMALL = "name: small\ntable: {table}\nstatic: medium\nseeds: [0]\n"


@pytest.fixture(scope="module")
def table():
    return synthetic_table(300, roles=("coder", "debugger"), seed=3)


@pytest.fixture(scope="module")
def task(table):
    return split(table, Suite(name="s", table="", static="medium"), seed=0)


@pytest.fixture
def suite_file(tmp_path, table):
    table.save(tmp_path / "table.npz")
    path = tmp_path / "suite.yaml"
    path.write_text(SMALL.format(table=tmp_path / "table.npz"))
    return path


def test_every_baseline_gives_probabilities_over_models_that_ran(table):
    score = table.score.copy()
    score[::3, 2] = np.nan
    task = split(replace(table, score=score), Suite(name="s", table="", static="medium"), seed=0)
    for name, choose in all_baselines(table.models).items():
        probabilities = choose(task)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, err_msg=name)
        assert (probabilities[~task.held_out.ran] == 0).all(), name


def test_no_baseline_but_the_oracle_sees_held_out_outcomes(task):
    blind = task._replace(held_out=replace(task.held_out, score=np.zeros_like(task.held_out.score)))
    for name, choose in all_baselines(task.train.models).items():
        same = np.array_equal(choose(task), choose(blind))
        assert same == (name != "oracle (optimistic)"), name


def test_single_models_and_the_oracle_by_hand(task):
    score = task.held_out.score
    assert expected(baselines.always("large")(task), score).mean() == score[:, 2].mean()
    assert expected(baselines.oracle(task), score).mean() == score.max(axis=1).mean()
    best = task.train.score.mean(axis=0).argmax()
    assert (baselines.best_single(task)[:, best] == 1).all()
    assert expected(baselines.uniform(task), score).mean() == pytest.approx(score.mean())


class HalfSure:
    """Always the large model; sure of it for debuggers only."""

    name, version = "half_sure", "1"

    def probabilities(self, contexts, models, eligible):
        return np.eye(len(models))[np.full(len(eligible), models.index("large"))]

    def confidence(self, contexts, models, eligible):
        return np.where(contexts.role == "debugger", 0.95, 0.85)


def test_below_the_floor_the_static_table_decides(task):
    guard, held_out = GuardRules(FLOOR, PreferenceOrder((task.static,))), task.held_out
    probabilities, _, decides, _ = serving_distribution(
        HalfSure(), guard, task.held_out_contexts, held_out.models, held_out.ran
    )
    debugger = held_out.role == "debugger"
    np.testing.assert_array_equal(decides, debugger)
    assert (probabilities[debugger, 2] == 1).all()
    assert (probabilities[~debugger, 1] == 1).all()


def test_the_mixture_costs_on_train_what_the_static_table_does(task):
    shares = baselines.mixing_line(task)[0]
    assert shares @ task.train.cost_usd.mean(axis=0) == pytest.approx(task.train.cost_usd[:, 1].mean())


def separable():
    """Category x is solved by a only, y by b only."""
    category = np.array(["x", "y"] * 60)
    score = np.stack([category == "x", category == "y"], axis=1).astype(float)
    return OutcomeTable(
        name="separable",
        models=("a", "b"),
        task_id=np.array([f"t{i}" for i in range(120)]),
        category=category,
        role=np.array(["coder"] * 120),
        score=score,
        cost_usd=np.ones((120, 2)),
        latency_s=np.ones((120, 2)),
        data_source="synthetic",
    )


@pytest.mark.parametrize("name", ["category table", "nearest neighbours", "logistic regression", "contextual bandit"])
def test_learners_find_what_a_category_needs(name):
    task = split(separable(), Suite(name="s", table="", static="a"), seed=0)
    quality = expected(all_baselines(("a", "b"))[name](task), task.held_out.score).mean()
    assert quality > 0.9
    assert expected(all_baselines(("a", "b"))["UCB1"](task), task.held_out.score).mean() < 0.7


def test_logistic_regression_recovers_known_weights():
    generator = np.random.default_rng(0)
    x = np.hstack([np.ones((20_000, 1)), generator.standard_normal((20_000, 2))])
    y = (generator.random(20_000) < 1 / (1 + np.exp(-x @ [0.5, 1.0, -2.0]))).astype(float)
    np.testing.assert_allclose(baselines.fit_logistic(x, y), [0.5, 1.0, -2.0], atol=0.08)


def test_the_bundled_table_is_what_its_provenance_says():
    suite, _ = read_suite(None)
    table = suite.open_table()
    assert table.data_source == "synthetic"
    assert "seed 7" in table.provenance
    made = synthetic_table(1200, seed=7)
    np.testing.assert_array_equal(table.score, made.score)
    np.testing.assert_allclose(table.cost_usd, made.cost_usd)


def test_a_run_pack_is_recomputed_and_every_change_is_found(tmp_path, suite_file):
    results = run_suite(suite_file, kind="compare_policy")
    assert results["evidence"] is False
    folder = tmp_path / "pack"
    write_pack(folder, results, suite_file, None)
    assert verify(folder) == []

    stored = (folder / RESULTS).read_text()
    (folder / RESULTS).write_text(stored.replace('"floor": 0.9', '"floor": 0.8'))
    assert verify(folder) == [f"{RESULTS}: changed since the pack was written"]
    (folder / RESULTS).write_text(stored)

    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["metrics"]["difference"] += 1e-6
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert [line.split(" is ")[0] for line in verify(folder)] == ["manifest metrics: difference"]


def test_a_pack_whose_data_changed_or_went_is_not_confirmed(tmp_path, suite_file, table):
    folder = tmp_path / "pack"
    write_pack(folder, run_suite(suite_file, kind="compare_policy"), suite_file, None)
    replace(table, score=1 - table.score).save(tmp_path / "table.npz")
    assert any("sha256" in line for line in verify(folder))
    (tmp_path / "table.npz").unlink()
    assert "is not there" in verify(folder)[0]


def test_folders_that_are_no_pack_are_refused(tmp_path):
    with pytest.raises(RunPackError, match="not a run pack"):
        verify(tmp_path)
    (tmp_path / MANIFEST).write_text('{"format": 1')
    with pytest.raises(RunPackError, match="not whole JSON"):
        verify(tmp_path)
    (tmp_path / MANIFEST).write_text('{"format": 1}')
    with pytest.raises(RunPackError, match="'code' is missing"):
        verify(tmp_path)


def test_differences_are_named_to_the_number():
    stored = {"a": [1.0, 2.0], "b": None, "c": "x"}
    assert differences(stored, {"a": [1.0, 2.0 + 1e-12], "b": None, "c": "x"}, "r") == []
    assert differences(stored, {"a": [1.0, 2.1], "b": 0.0, "c": "y", "d": 1}, "r") == [
        "r: a[1] is 2.1, the pack says 2.0",
        "r: b is 0.0, the pack says None",
        "r: c is 'y', the pack says 'x'",
        "r: d is 1, the pack says None",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\ntable: t.npz\n", "'static' is missing"),
        ("name: x\ntable: t.npz\nstatic: m\ncolour: red\n", "'colour' is not known"),
        ("name: x\ntable: t.npz\nstatic: m\nseeds: 3\n", "seeds=3 must be a list"),
        ("name: x\ntable: t.npz\nstatic: m\nseeds: [a]\n", "seeds="),
        ("name: x\ntable: t.npz\nstatic: m\ntrain_fraction: 1.5\n", "train_fraction=1.5"),
        ("name: x\ntable: t.npz\nstatic: m\nheld_out_by: day\n", "held_out_by='day'"),
        ("name: x\ntable: 3\nstatic: m\n", "table=3 must be text"),
        ("- a\n", "a suite is a mapping"),
        ("name: [\n", "not YAML"),
        ("name: x\nname: y\n", "the key 'name' is given twice, in lines 1 and 2: give it once"),
    ],
)
def test_a_suite_that_cannot_be_run_is_refused(text, message):
    with pytest.raises(SuiteError, match=message):
        parse_suite(text, SUITE)


def test_tables_and_static_models_that_are_not_there_are_refused(tmp_path, suite_file):
    with pytest.raises(SuiteError, match="no table of this name"):
        Suite(name="x", table="bundled:none", static="m").open_table()
    suite_file.write_text(suite_file.read_text().replace("medium", "huge"))
    with pytest.raises(SuiteError, match="static='huge' is not a model of the table"):
        run_suite(suite_file)


def learned(table, folder, rows=4_000):
    """A checkpoint learned from a log over the table, with .4 of its tasks kept out."""
    data = replay(table, Exploring(PreferenceOrder(("medium",)), 0.5), rows, seed=0)
    policy = learn_table(data.split_by_task(0.6, seed=0)[0])
    save_policy(folder / "policy.bin", policy)
    return policy


def test_a_given_policy_is_compared_on_tasks_that_it_has_not_seen(tmp_path, suite_file, table):
    policy = learned(table, tmp_path)
    suite_file.write_text(suite_file.read_text().replace("[0]", "[0, 1]"))
    found = run_suite(suite_file, kind="compare_policy", checkpoint=tmp_path / "policy.bin")["comparison"]
    held_out = [table.split(seed=seed, fraction=0.6)[1] for seed in (0, 1)]
    unseen = [int((~was_seen(part.task_id, policy.training.task_hashes)).sum()) for part in held_out]
    assert [row["held_out_tasks"] for row in found["splits"]] == unseen
    assert unseen[0] == len(held_out[0])  # the log was split by the same seed
    assert unseen[1] < len(held_out[1])
    everything = learn_table(replay(table, Exploring(PreferenceOrder(("medium",)), 0.5), 20_000, seed=0))
    save_policy(tmp_path / "all.bin", everything)
    with pytest.raises(BenchError, match="was learned from every held-out task of seed 0"):
        run_suite(suite_file, kind="compare_policy", checkpoint=tmp_path / "all.bin")


def test_a_pack_with_a_checkpoint_keeps_it_and_is_recomputed_with_it(tmp_path, suite_file, table):
    learned(table, tmp_path)
    folder, checkpoint = tmp_path / "pack", tmp_path / "policy.bin"
    write_pack(folder, run_suite(suite_file, kind="compare_policy", checkpoint=checkpoint), suite_file, checkpoint)
    checkpoint.unlink()
    assert verify(folder) == []
    content = (folder / CHECKPOINT).read_bytes()
    (folder / CHECKPOINT).write_bytes(content[:-1])
    assert verify(folder) == [f"{CHECKPOINT}: changed since the pack was written"]


def test_cascades_are_rows_where_costs_are_known(suite_file):
    rows = run_suite(suite_file)["baselines"]
    good, poor = rows["cascade, simulated 0.95/0.1 verifier"], rows["cascade, simulated 0.8/0.3 verifier"]
    assert good["reward"] > poor["reward"] > rows["random"]["reward"]
    assert good["over_mixing_line"] > 0
