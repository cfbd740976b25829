import json

import numpy as np
import pytest

from sage.decision_log import DecisionLog
from sage.files import FileReadError
from sage.outcomes.synthetic import synthetic_table
from sage.records import Decision, Outcome
from sage.report import ReportError, summarize, write_report
from sage.rl.logging_policies import Exploring, PreferenceOrder
from sage.rl.replay import append_to_log, replay


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
    assert found["savings"]["rows"] == 1


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
    assert found["savings"]["too_few"] == ["cheap"]
    assert found["savings"]["best"] is None


def test_savings_are_those_of_the_table(tmp_path, log):
    table = synthetic_table(500, seed=1).with_models(("large", "medium", "small"))
    data = replay(table, Exploring(PreferenceOrder(("small",)), 0.5), 4_000, seed=0)
    append_to_log(log, data, "s")
    found = summarize(str(tmp_path / "sage.db"))["savings"]
    best = int(table.score.mean(axis=0).argmax())
    assert found["best"] == table.models[best]
    estimated = found["models"][found["best"]]
    assert estimated["quality"] == pytest.approx(table.score[:, best].mean(), abs=0.05)
    assert estimated["cost_usd"] == pytest.approx(table.cost_usd[:, best].mean(), rel=0.08)
    assert found["saved_usd"] == pytest.approx((estimated["cost_usd"] - data.cost_usd.mean()) * len(data))
    assert found["quality_against_best"] == pytest.approx(data.quality.mean() - estimated["quality"])


def test_weights_undo_the_logging_policy(tmp_path, log):
    generator = np.random.default_rng(0)
    decisions, outcomes = [], []
    for i in range(2000):
        hard = bool(i % 2)  # hard tasks mostly go to the dear model, which solves half of them and all others
        dear = generator.random() < (0.9 if hard else 0.1)
        probabilities = (0.1, 0.9) if hard else (0.9, 0.1)
        decisions.append(decision(f"d{i}", "dear" if dear else "cheap", probabilities))
        quality = (0.5 if hard else 1.0) if dear else (0.0 if hard else 0.4)
        outcomes.append(outcome(f"d{i}", quality=quality, cost_usd=1.0 if dear else 0.1))
    log.append_many(decisions)
    log.add_outcomes(outcomes)
    models = summarize(str(tmp_path / "sage.db"))["savings"]["models"]
    assert models["dear"]["quality"] == pytest.approx(0.75, abs=0.03)  # as logged: 0.55
    assert models["cheap"]["quality"] == pytest.approx(0.2, abs=0.03)  # as logged: 0.36


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
    write_report(tmp_path / "report.html", str(tmp_path / "sage.db"), evaluation=tmp_path / "evaluation.json")
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
        ({"evaluation": "none.json"}, "no such evaluation"),
        ({"evaluation": "cut.json"}, "not whole JSON"),
        ({"evaluation": "other.json"}, "not an evaluation, as it has no 'incumbent'"),
        ({"evaluation": "picture.json"}, "not text in UTF-8"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused(tmp_path, log, options, message):
    log.append(decision("d0", "cheap"))
    (tmp_path / "cut.json").write_text('{"a": ')
    (tmp_path / "other.json").write_text('{"policy": "cql"}')
    (tmp_path / "picture.json").write_bytes(b"\x89PNG")
    if "evaluation" in options:
        options = {"evaluation": tmp_path / options["evaluation"]}
    with pytest.raises((ReportError, FileReadError), match=message):
        write_report(tmp_path / "report.html", str(tmp_path / "sage.db"), **options)
    assert not (tmp_path / "report.html").exists()


def test_no_log_is_refused_and_none_is_made(tmp_path):
    with pytest.raises(ReportError, match="no such log"):
        summarize(str(tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == []
