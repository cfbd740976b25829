"""Cascades in the report and in `sage doctor`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sage import DecisionLog, Router
from sage.cli import main
from sage.report.report import summarize, write_report
from tests.sage.examples import decision, outcome, written

CASCADE = "cascade: {default: {ladder: [small, medium], verifiers: [tests, {types: {tool: mypy}}], exploration: 0.5}}\n"


def run_some(folder: Path) -> Router:
    router = Router.open(folder / "sage.db", models=written(folder, CASCADE), environment={}, seed=0)
    for number in range(40):
        task = router.cascade(role="coder")
        for attempt in task:
            right = attempt.model == "medium" or number % 2 == 0
            task.report(verdicts={"tests": right}, cost_usd=0.25 if attempt.model == "small" else 1.0)
        task.outcome(float(task.taken.model == "medium" or number % 2 == 0))  # pyrefly: ignore
    router.cascade(role="coder").next()
    return router


def test_the_report_shows_cascades_apart(tmp_path: Path) -> None:
    router = run_some(tmp_path)
    router.log.append(decision("single", data_source="real"))
    router.log.add_outcome(outcome("single", cost_usd=2.0))
    rows = list(router.log.rows())
    attempts = sum(made.model != "stop" for made, _ in rows)
    router.close()
    found = summarize(str(tmp_path / "sage.db"))
    assert found["total"]["decisions"] == attempts  # a stop calls no model
    assert "stop" not in found["by_model"]
    assert found["savings"]["rows"] == 1  # attempts of one task are no independent decisions
    cascades = found["cascades"]
    assert (cascades["begun"], cascades["missing"]) == (41, {"no stop yet": 1})
    [means] = cascades["by_policy"].values()
    assert means["cascades"] == 40
    assert means["attempts"] == pytest.approx((attempts - 2) / 40)
    assert sum(group["cascades"] for group in cascades["by_answer"].values()) == 40
    tests = next(one for one in cascades["verifiers"] if (one["verifier"], one["model"]) == ("tests", "all"))
    assert (tests["true_positive"]["share"], tests["false_positive"]["share"]) == (1.0, 0.0)
    write_report(tmp_path / "report.html", str(tmp_path / "sage.db"))
    page = (tmp_path / "report.html").read_text()
    assert "<h2>Cascades</h2><p>41 begun: 1 with no stop yet.</p>" in page
    assert "tests / small" in page


def test_a_log_without_cascades_says_nothing_of_them(tmp_path: Path) -> None:
    log = DecisionLog.open(tmp_path / "sage.db")
    log.append(decision())
    log.close()
    assert summarize(str(log.path))["cascades"] is None
    write_report(tmp_path / "report.html", str(log.path))
    assert "Cascades" not in (tmp_path / "report.html").read_text()


def test_the_doctor_looks_at_cascades(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said() -> tuple[str, str]:
        main(["doctor", "--json"])
        found = {one["what"]: one for one in json.loads(capsys.readouterr().out)}["cascades"]
        return found["state"], found["text"]

    monkeypatch.chdir(tmp_path)
    assert said() == ("--", "models.yaml has no cascade")
    run_some(tmp_path).close()
    state, text = said()
    assert text.startswith("8 roles, small -> medium, 41 cascades, 1 unfinished")
    if state == "--":
        assert text.endswith("not installed, so their verdict is unknown: mypy")
    monkeypatch.setenv("SAGE_RL_POLICY", "1")
    monkeypatch.setenv("SAGE_RL_CASCADE", "nowhere.bin")
    state, text = said()
    assert state == "BAD"
    assert "the cascade cannot serve: nowhere.bin: there is no such file" in text
