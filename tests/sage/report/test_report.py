import json
from dataclasses import replace

import numpy as np
import pytest

from sage.files import FileReadError
from sage.log.decision_log import DecisionLog
from sage.log.records import Decision, Outcome
from sage.outcomes.synthetic import synthetic_table
from sage.report.report import ReportError, compare_with_models, summarize, write_report
from sage.rl.logging_policies import Exploring, PreferenceOrder
from sage.rl.replay import append_to_log, replay
from tests.sage.rl.made_logs import made_log


def decision(name, model, probabilities=(0.5, 0.5), source="real", role="coder", **fields):
    return Decision(
        id=name,
        time=1_700_000_000.0,
        data_source=source,
        role=role,
        candidates=("cheap", "dear"),
        probabilities=probabilities,
        model=model,
        policy="static",
        policy_version="v1",
        features=(),
        features_version=1,
        **fields,
    )


def outcome(name, **values):
    return Outcome(decision_id=name, time=1_700_000_001.0, **values)


@pytest.fixture
def log(tmp_path):
    return DecisionLog.open(tmp_path / "sage.db")


def test_quality_and_cost_are_those_of_the_model_that_answered(tmp_path, log):
    log.append_many([decision(f"d{i}", "cheap") for i in range(3)])
    log.add_outcomes([outcome("d0", quality=1.0, cost_usd=0.1), outcome("d1", quality=0.0, cost_usd=0.9, model="dear")])
    found = summarize(str(tmp_path / "sage.db"))
    shown = {name: (row["decisions"], row["quality"], row["cost_usd"]) for name, row in found["by_model"].items()}
    assert shown == {"cheap": (2, 1.0, 0.1), "dear": (1, 0.0, 0.9)}
    assert list(found["by_role_and_model"]) == ["coder / cheap", "coder / dear"]
    assert found["savings"]["rows"] == 3


def test_a_drawn_outcome_counts_for_all_decisions_that_it_stands_for(tmp_path, log):
    """30 decisions are all judged, 1.0 each; then a fifth of 60 is drawn, 0.5 each. What is not drawn is an error, 0."""
    log.append_many([decision(f"all-{i}", "cheap") for i in range(30)])
    drawn = [decision(f"some-{i}", "cheap", outcome_probability=0.2) for i in range(60)]
    log.append_many(drawn)
    wanted = sum(made.outcome_wanted for made in drawn)
    log.add_outcomes([outcome(f"all-{i}", quality=1.0) for i in range(30)])
    log.add_outcomes([outcome(made.id, quality=0.5 if made.outcome_wanted else 0.0) for made in drawn])
    found = summarize(str(tmp_path / "sage.db"))
    mean = (30 * 1.0 + 5 * wanted * 0.5) / (30 + 5 * wanted)
    assert 5 < wanted < 20
    assert found["total"]["outcomes"] == 30 + wanted
    assert found["total"]["quality"] == pytest.approx(mean)
    assert found["savings"]["quality"] == pytest.approx(mean)


def test_sums_by_hand(tmp_path, log):
    log.append_many(
        [decision(f"d{i}", "cheap" if i < 3 else "dear", role="coder" if i else "planner") for i in range(5)]
    )
    log.add_outcomes(
        [
            outcome("d0", quality=1.0, cost_usd=0.1, latency_s=2.0),
            outcome("d1", quality=0.0, cost_usd=0.3, latency_s=4.0),
            outcome("d2", timed_out=True, cost_usd=0.2),
            outcome("d3", quality=0.5),
        ]
    )
    found = summarize(str(tmp_path / "sage.db"))
    assert found["by_model"]["cheap"] == {
        "decisions": 3,
        "outcomes": 3,
        "quality": pytest.approx(1 / 3),
        "cost_usd": pytest.approx(0.2),
        "total_cost_usd": pytest.approx(0.6),
        "latency_s": pytest.approx(3.0),
    }
    assert found["by_model"]["dear"] == {
        "decisions": 2,
        "outcomes": 1,
        "quality": 0.5,
        "cost_usd": None,
        "total_cost_usd": None,
        "latency_s": None,
    }
    assert found["by_role"]["planner"]["decisions"] == 1
    assert found["by_policy"]["static v1"]["decisions"] == 5
    assert found["savings"]["models"] == {}
    assert list(found["savings"]["not_judged"]) == ["cheap", "dear"]


def test_comparisons_hold_the_truth_of_the_table(tmp_path, log):
    table = synthetic_table(500, seed=1).with_models(("large", "medium", "small"))
    data = replay(table, Exploring(PreferenceOrder(("small",)), 0.5), 1_200, seed=0)
    append_to_log(log, data, "s")
    models = summarize(str(tmp_path / "sage.db"))["savings"]["models"]
    assert list(models) == ["large", "medium", "small"]
    routed = 0.5 * np.eye(3)[2] + 0.5 / 3  # in expectation
    for k, found in enumerate(models.values()):
        for truth, name in ((table.score.mean(axis=0), "quality"), (table.cost_usd.mean(axis=0), "cost_usd")):
            assert found[name]["low"] < routed @ truth - truth[k] < found[name]["high"]
        assert found["cost_ratio"]["low"] < routed @ truth / truth[k] < found["cost_ratio"]["high"]
    alone = summarize(str(tmp_path / "sage.db"), against="large")["savings"]
    assert list(alone["models"]) == ["large"]
    one, of_three = alone["models"]["large"]["cost_ratio"], models["large"]["cost_ratio"]
    assert of_three["low"] < one["low"] < one["high"] < of_three["high"]
    write_report(tmp_path / "report.html", str(tmp_path / "sage.db"), against="large")
    page = (tmp_path / "report.html").read_text()
    assert f"{one['value']:.3g} ({one['low']:.3g} to {one['high']:.3g})" in page
    assert "times the cost of always large" in page
    with pytest.raises(
        ReportError, match="against='huge': the log has no answer of it, name one of large, medium, small"
    ):
        summarize(str(tmp_path / "sage.db"), against="huge")


def test_three_equal_models_are_not_told_apart():
    """Costs of the same skewed distribution: the interval of whichever model looks best holds 0 in nearly all logs."""
    covered, best = 0, []
    for seed in range(12):
        data = made_log(300, seed=seed, epsilon=0.6, truth=dict.fromkeys(("code", "prose"), (0.6, 0.6, 0.6)))
        data = replace(data, cost_usd=np.random.default_rng(seed).lognormal(-9.0, 1.5, len(data)))
        models = compare_with_models(data)["models"].values()
        assert len(models) == 3
        most = min(models, key=lambda one: one["cost_usd"]["value"])["cost_usd"]  # saves the most
        covered += most["low"] < 0 < most["high"]
        best.append(most["value"])
    assert np.median(best) < 0  # a point estimate finds savings where there are none
    assert covered >= 11


def test_a_log_that_explored_nothing_compares_nothing(tmp_path, log):
    log.append_many([decision(f"d{i}", "cheap", (1.0, 0.0), task_id=f"t{i}") for i in range(100)])
    log.add_outcomes([outcome(f"d{i}", quality=1.0, cost_usd=0.1) for i in range(100)])
    found = summarize(str(tmp_path / "sage.db"))["savings"]
    assert found["models"] == {}
    assert found["not_judged"] == {"cheap": "the log has no other model beside it to compare with"}


def test_synthetic_rows_are_never_mixed_in_and_always_labelled(tmp_path, log):
    log.append_many([decision("d0", "cheap"), decision("s0", "cheap", source="synthetic")])
    real, synthetic = (summarize(str(tmp_path / "sage.db"), data_source=s) for s in (None, "synthetic"))
    assert (real["data_source"], real["total"]["decisions"], real["other_sources"]) == ("real", 1, {"synthetic": 1})
    assert synthetic["evidence"] is False
    for source, labelled in (("real", False), ("synthetic", True)):
        write_report(tmp_path / "report.html", str(tmp_path / "sage.db"), data_source=source)
        assert ("nothing here is evidence" in (tmp_path / "report.html").read_text()) == labelled


def test_the_page_needs_nothing_else_and_escapes_the_log(tmp_path, log):
    log.append(decision("d0", "cheap", verdict="<script>alert(1)</script>"))
    found = {"policy": "cql", "incumbent": "static", "data_source": "real", "evidence": True, "num_rows": 9}
    (tmp_path / "evaluation.json").write_text(json.dumps(found | {"interval": {"low": 0.01, "high": 0.05}}))
    write_report(tmp_path / "report.html", str(tmp_path / "sage.db"), proof=tmp_path / "evaluation.json")
    page = (tmp_path / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "0.0100 to 0.0500" in page
    assert "http" not in page


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data_source": "replay"}, "has no decision of data_source replay"),
        ({"data_source": "guess"}, "data_source='guess'"),
        ({"proof": "none.json"}, "no such proof"),
        ({"proof": "cut.json"}, "not whole JSON"),
        ({"proof": "other.json"}, "not an evaluation, as it has no 'incumbent'"),
        ({"proof": "picture.json"}, "not text in UTF-8"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused(tmp_path, log, options, message):
    log.append(decision("d0", "cheap"))
    (tmp_path / "cut.json").write_text('{"a": ')
    (tmp_path / "other.json").write_text('{"policy": "cql"}')
    (tmp_path / "picture.json").write_bytes(b"\x89PNG")
    if "proof" in options:
        options = {"proof": tmp_path / options["proof"]}
    with pytest.raises((ReportError, FileReadError), match=message):
        write_report(tmp_path / "report.html", str(tmp_path / "sage.db"), **options)
    assert not (tmp_path / "report.html").exists()


def test_no_log_is_refused_and_none_is_made(tmp_path):
    with pytest.raises(ReportError, match="no such log"):
        summarize(str(tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == []
