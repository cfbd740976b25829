import sqlite3
from contextlib import closing

import numpy as np
import pytest

from sage.evidence.export_dataset import ExportError, export
from sage.evidence.routing_data import RoutingData
from sage.log.decision_log import DecisionLog
from sage.log.records import Decision, Outcome
from sage.outcomes.synthetic import synthetic_table
from sage.report.report import write_report
from sage.rl.analyze_rewards import analyze_rewards, best_per_category, model_values
from sage.rl.collect_synth import collect_synthetic
from sage.rl.logging_policies import Exploring, PolicySpecError, PreferenceOrder, parse_policy
from sage.rl.replay import ReplayError, append_to_log, best_first, draw, replay


@pytest.fixture(scope="module")
def table():
    return synthetic_table(300, seed=1)


def test_every_row_is_the_tables_own_outcome(table):
    data = replay(table, Exploring(best_first(table), 0.5), 1000, seed=2)
    row = {task: i for i, task in enumerate(table.task_id)}
    rows = np.array([row[task] for task in data.contexts.task_id])
    assert data.models == ("large", "medium", "small")
    ordered = table.with_models(data.models)
    np.testing.assert_array_equal(data.quality, ordered.score[rows, data.action])
    np.testing.assert_array_equal(data.cost_usd, ordered.cost_usd[rows, data.action])
    np.testing.assert_array_equal(data.latency_s, ordered.latency_s[rows, data.action])
    np.testing.assert_array_equal(data.contexts.category, table.category[rows])
    assert data.source == "synthetic"
    assert replay(table, Exploring(best_first(table), 0.5), 1000, seed=2).sha256 == data.sha256
    assert replay(table, Exploring(best_first(table), 0.5), 1000, seed=3).sha256 != data.sha256


def test_models_are_chosen_as_often_as_the_propensities_say(table):
    data = replay(table, Exploring(PreferenceOrder(("medium",)), 0.3), 20_000, seed=0)
    share = np.bincount(data.action, minlength=3) / len(data)
    np.testing.assert_allclose(data.propensity[0], [0.1, 0.8, 0.1])
    np.testing.assert_allclose(share, data.propensity.mean(axis=0), atol=0.012)


def test_a_model_that_did_not_run_is_never_chosen(table):
    score = table.score.copy()
    score[:150, 2] = np.nan
    score[0] = np.nan
    from dataclasses import replace

    data = replay(replace(table, score=score), Exploring(PreferenceOrder(("large", "small")), 0.2), 3000, seed=0)
    assert not np.isnan(data.quality).any()
    assert table.task_id[0] not in data.contexts.task_id
    missing = ~data.eligible[:, 0]
    assert missing.any()
    assert (data.propensity[missing] == [0.0, 0.1, 0.9]).all()


def test_drawing_never_takes_probability_zero():
    class Edge:
        def random(self, n):
            return np.array([0.0, 1 - 1e-16])

    probabilities = np.array([[0.0, 1.0, 0.0], [0.3, 0.7, 0.0]])
    assert draw(probabilities, Edge()).tolist() == [1, 1]


def test_best_first_and_unknown_models():
    order = PreferenceOrder(("b",))
    eligible = np.array([[True, True, True], [True, False, True]])
    assert order.probabilities(None, ("c", "b", "a"), eligible).tolist() == [[0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("text", ["epsilon", "epsilon:x", "epsilon:2", "greedy", "uniform:1"])
def test_a_policy_that_is_not_known_is_refused(text):
    with pytest.raises(PolicySpecError, match="policy="):
        parse_policy(text, PreferenceOrder(()))


def test_synthetic_models_fail_together():
    table = synthetic_table(4000, seed=0)
    assert table.data_source == "synthetic"
    small, large = table.score[:, 0], table.score[:, 2]
    both = ((small == 0) & (large == 0)).mean()
    assert both > 1.15 * (1 - small.mean()) * (1 - large.mean())
    assert table.score.mean(axis=0)[0] < table.score.mean(axis=0)[2]
    failed = table.cost_usd[:, 0][small == 0].mean() / table.cost_usd[:, 0][small == 1].mean()
    assert failed == pytest.approx(1.9, rel=0.05)


def test_collected_rows_cover_the_roles_and_survive_the_log(tmp_path):
    data = collect_synthetic(650, seed=4)
    assert (len(data), data.source, len(set(data.contexts.role))) == (650, "synthetic", 8)
    log = DecisionLog.open(tmp_path / "sage.db")
    append_to_log(log, data, "s1")
    done = export(log, tmp_path / "rows.jsonl")
    assert (done.rows, done.data_source, done.missing) == (650, "synthetic", {})
    assert RoutingData.read(tmp_path / "rows.jsonl").sha256 == data.sha256
    with pytest.raises(ReplayError, match="this very replay already"):
        append_to_log(log, data, "s1")
    with pytest.raises(ExportError, match="has no decision of data_source real"):
        export(log, tmp_path / "none.jsonl", data_source="real")
    assert not (tmp_path / "none.jsonl").exists()


def decision(i, source="real", time=100.0):
    return Decision(
        id=f"{source}{i}",
        time=time,
        data_source=source,
        role="coder",
        candidates=("m",),
        probabilities=(1.0,),
        model="m",
        policy="static",
        policy_version="1",
        features=(),
        features_version=1,
        session=f"s{i}",
    )


def test_export_takes_one_source_and_counts_what_is_missing(tmp_path):
    log = DecisionLog.open(tmp_path / "sage.db")
    log.append_many([decision(i) for i in range(5)] + [decision(0, "synthetic")])
    outcomes = [
        {"quality": 1.0, "cost_usd": 0.1, "latency_s": 1.0},
        {"quality": 1.0},
        {"cost_usd": 0.1},
        {"timed_out": True},
    ]
    log.add_outcomes([Outcome(decision_id=f"real{i}", time=101.0, **o) for i, o in enumerate(outcomes)])
    done = export(log, tmp_path / "rows.jsonl")
    assert (done.data_source, done.rows, done.other_sources) == ("real", 3, {"synthetic": 1})
    assert done.missing == {"no outcome yet": 1, "neither a quality nor a time-out": 1}
    assert set(RoutingData.read(tmp_path / "rows.jsonl").decision_id) == {"real0", "real1", "real3"}
    assert RoutingData.read(tmp_path / "rows.jsonl", gaps=True).observed.tolist() == [True, True, False, True, False]
    assert export(log, tmp_path / "rows.jsonl", complete=True).missing["no cost or no latency"] == 1  # not the time-out
    assert export(log, tmp_path / "rows.jsonl", until=100.1).missing == done.missing
    with pytest.raises(ExportError, match="has no decision"):
        export(log, tmp_path / "rows.jsonl", until=100.0)
    assert export(log, tmp_path / "rows.jsonl", session="s1").rows == 1
    with pytest.raises(ExportError, match="has no decision"):
        export(log, tmp_path / "rows.jsonl", since=1000.0)
    with pytest.raises(ExportError, match="no decision with a usable outcome"):
        export(log, tmp_path / "rows.jsonl", session="s4")


BROKEN = ["{", "[]", "null", '{"id": 1}', "[" * 100_000, '{"schema": 1, "candidates": [[]]}', "\\ud800"]


@pytest.mark.parametrize("table", ["decisions", "outcomes"])
def test_a_record_that_cannot_be_read_is_named_and_does_not_stop_the_export(tmp_path, table):
    log = DecisionLog.open(tmp_path / "sage.db")
    log.append_many([decision(i) for i in range(30)])
    log.add_outcomes([Outcome(decision_id=f"real{i}", time=101.0, quality=1.0) for i in range(30)])
    log.close()
    with closing(sqlite3.connect(tmp_path / "sage.db")) as other:
        other.execute(f"DROP TRIGGER {table}_no_update")
        for seq, text in enumerate(BROKEN, start=1):
            other.execute(f"UPDATE {table} SET record = ? WHERE seq = ?", (text, seq))
        other.execute(f"UPDATE {table} SET record = CAST(x'ff41' AS TEXT) WHERE seq = {len(BROKEN) + 1}")  # no UTF-8
        other.commit()
    log = DecisionLog.open(tmp_path / "sage.db")
    done = export(log, tmp_path / "rows.jsonl")
    num_broken = len(BROKEN) + 1
    assert (done.rows, len(done.unreadable)) == (30 - num_broken, num_broken)
    assert f"the log's {table[:-1]} real0 cannot be read" in done.unreadable[0]
    missing = {} if table == "decisions" else {"no outcome yet": num_broken}
    assert done.missing == missing
    assert len(RoutingData.read(tmp_path / "rows.jsonl")) == 30 - num_broken
    page = tmp_path / "report.html"
    write_report(page, str(tmp_path / "sage.db"))
    assert f"{num_broken} records cannot be read and are left out" in page.read_text()


def test_an_answer_of_a_model_that_was_no_candidate_is_missing(tmp_path):
    log = DecisionLog.open(tmp_path / "sage.db")
    log.append_many([decision(i) for i in range(3)])
    models = (None, "m", "elsewhere")
    log.add_outcomes([Outcome(decision_id=f"real{i}", time=101.0, quality=1.0, model=m) for i, m in enumerate(models)])
    done = export(log, tmp_path / "rows.jsonl")
    assert (done.rows, done.missing) == (2, {"an answer of a model that was no candidate": 1})
    assert len(RoutingData.read(tmp_path / "rows.jsonl", gaps=True)) == 3


def test_values_of_models_are_those_of_the_table(table):
    data = replay(table, Exploring(PreferenceOrder(("medium",)), 0.5), 30_000, seed=0)
    quality = data.quality
    np.testing.assert_allclose(model_values(data, quality), table.score.mean(axis=0)[[2, 1, 0]], atol=0.03)
    best = best_per_category(data, quality)
    by_table = {c: table.with_models(data.models).score[table.category == c].mean(axis=0) for c in set(table.category)}
    regret = [by_table[c].max() - by_table[c][k] for c, k in zip(data.contexts.category, best, strict=True)]
    assert np.mean(regret) < 0.02


class ByCategory:
    """Mostly the small model for some categories and the large one for the others."""

    name, version = "by_category", "1"

    def probabilities(self, contexts, models, eligible):
        early = (contexts.category < "documentation")[:, None]
        return np.where(early, [[0.1, 0.1, 0.8]], [[0.8, 0.1, 0.1]])

    def confidence(self, contexts, models, eligible):
        return np.ones(len(eligible))


def test_weights_undo_what_the_logging_policy_prefers(table):
    data = replay(table, ByCategory(), 30_000, seed=0)
    np.testing.assert_allclose(model_values(data, data.quality), table.score.mean(axis=0)[[2, 1, 0]], atol=0.025)
    logged = np.array([data.quality[data.action == k].mean() for k in range(3)])
    assert np.abs(logged - table.score.mean(axis=0)[[2, 1, 0]]).max() > 0.04


def test_the_reward_report_names_what_drives_it(table):
    report = analyze_rewards(replay(table, Exploring(best_first(table), 0.5), 2000, seed=0))
    assert report["evidence"] is False
    assert report["correlation"]["quality"] > 0.9
    assert report["correlation"]["retries"] is None
    assert sum(report["distribution"]["histogram"]["counts"]) == 2000
    unchanged = [row["share_of_decisions_changed"] for row in report["sensitivity"] if row["factor"] == 1.0]
    assert unchanged == [0.0] * 4
    dear = next(row for row in report["sensitivity"] if row["part"] == "cost" and row["factor"] == 5.0)
    assert dear["share_of_decisions_changed"] > 0


def test_export_takes_the_strongest_source_that_has_enough_rows(tmp_path):
    log = DecisionLog.open(tmp_path / "sage.db")
    append_to_log(log, collect_synthetic(60), "s")
    log.append(decision(0))
    log.add_outcome(Outcome(decision_id="real0", time=101.0, quality=1.0))
    done = export(log, tmp_path / "rows.jsonl")
    assert (done.data_source, done.rows, done.other_sources) == ("synthetic", 60, {"real": 1})
    assert done.note.startswith("these rows are synthetic; passed over: 1 real with an outcome, fewer than 50")
    asked = export(log, tmp_path / "rows.jsonl", data_source="real")
    assert (asked.rows, asked.note) == (1, "")
    log.append_many([decision(i) for i in range(1, 50)])
    log.add_outcomes([Outcome(decision_id=f"real{i}", time=101.0, quality=1.0) for i in range(1, 50)])
    assert export(log, tmp_path / "rows.jsonl").data_source == "real"
