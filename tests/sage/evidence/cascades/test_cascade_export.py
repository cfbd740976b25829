"""Cascades leave the log as episodes, and verifiers are measured from them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from sage import Decision, DecisionLog, Outcome
from sage.cli import main
from sage.evidence.cascades.cascade_data import CascadeData
from sage.evidence.cascades.cascade_export import Rows, episode_of, export_cascades
from sage.evidence.export_dataset import ExportError
from sage.log.cascade_steps import STOP, Step, Verdict
from sage.log.joining import attempt_of
from sage.proof.verifier_rates import Rates, measure, rate, wilson
from tests.sage.examples import decision, outcome


def logged(
    cascade_id: str, *models: str, quality: float | None = 1.0, passes: str = "large", **changes: object
) -> Rows:
    """A finished cascade over small and large; an attempt with `passes` passes."""
    rows: Rows = []
    for number, model in enumerate((*models, STOP)):
        step = Step(cascade_id=cascade_id, number=number, attempts=tuple(attempt_of(*row) for row in rows))
        left = tuple(name for name in ("small", "large") if name not in models[:number])
        candidates = (*left, STOP) if number else left
        probabilities = (1.0,) if len(candidates) == 1 else (0.75, 0.25)
        made_id = cascade_id if model == STOP else f"{cascade_id}-{number}"
        given = {"candidates": candidates, "probabilities": probabilities, "model": model, "cascade": step} | changes
        made = decision(made_id, task_id=cascade_id, **given)
        said = Verdict(verifier="tests", verdict="passed" if model == passes else "failed")
        known = outcome(made_id, quality=None, cost_usd=0.5, latency_s=2.0, verdicts=(said,))
        rows.append(
            (made, known if model != STOP else quality if quality is None else outcome(made_id, quality=quality))
        )
    return rows


def write(log: DecisionLog, rows: Rows) -> None:
    log.append_many([made for made, _ in rows])
    log.add_outcomes([known for _, known in rows if known is not None])


@pytest.fixture
def log(tmp_path: Path) -> DecisionLog:
    return DecisionLog.open(tmp_path / "sage.db")


def test_episodes_are_what_was_logged(log: DecisionLog, tmp_path: Path) -> None:
    write(log, logged("a", "small", "large", quality=0.75))
    write(log, logged("b", "large", quality=0.25))
    write(log, logged("c", "small", quality=None))  # nobody has judged it yet
    write(log, logged("d", "small", "large")[:2])  # killed before it could stop
    write(log, [row for row in logged("e", "small", "large") if row[0].id != "e-1"])  # a step that was not logged
    write(log, [(decision("single"), outcome("single"))])
    done = export_cascades(log, tmp_path / "episodes.jsonl")
    assert (done.data_source, done.episodes) == ("synthetic", 2)
    assert done.missing == {"no quality yet": 1, "no stop yet": 1}
    assert done.left_out == {"a step that is not in the log": 1}
    data = CascadeData.read(tmp_path / "episodes.jsonl")
    assert data.models == ("large", "small")
    assert data.id.tolist() == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(data.quality, [0.75, 0.25, np.nan, np.nan])
    assert data.ended.tolist() == [True, True, True, False]
    first = data.episode == 0
    assert data.action[first].tolist() == [1, 0, 2]  # small, large, stop
    np.testing.assert_array_equal(data.propensity[first], [[0.25, 0.75, 0], [0.75, 0, 0.25], [0, 0, 1]])
    np.testing.assert_array_equal(data.verdict[first], [[0, 0], [0, -1], [1, -1]])
    np.testing.assert_array_equal(data.spent_usd[first], [0, 0.5, 1.0])
    assert data.verifier[0] == "tests"


def test_a_quality_of_the_taken_attempt_is_that_of_the_cascade() -> None:
    rows = logged("a", "small", "large", quality=None, passes="small")
    rows[0] = rows[0][0], outcome("a-0", quality=0.5, verdicts=rows[0][1].verdicts)  # pyrefly: ignore
    assert episode_of(rows).quality == 0.5  # small passed, so its answer is taken
    assert episode_of(rows).steps[0].verdict is True
    rows[2] = rows[2][0], Outcome(decision_id="a", time=0.0, timed_out=True)
    assert episode_of(rows).quality == 0.0


def test_nothing_to_export_is_said_in_a_sentence(log: DecisionLog, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="has no cascade that you asked for"):
        export_cascades(log, tmp_path / "e.jsonl")
    write(log, logged("c", "small", quality=None))
    with pytest.raises(ExportError, match=r"no cascade with a usable outcome \(1 with no quality yet\)"):
        export_cascades(log, tmp_path / "e.jsonl")
    assert not (tmp_path / "e.jsonl").exists()


def found(rates: list[Rates], *key: str) -> Rates:
    return next(one for one in rates if (one.verifier, one.model, one.role) == key)


def test_rates_weight_answers_by_the_chance_that_they_were_taken() -> None:
    """small: of 8 right answers 4 pass and are seen at a chance of 1; one that fails is seen at a chance of .25 and counts 4."""
    certain = {"probabilities": (1.0,)}
    passed = [logged(f"p{k}", "small", passes="small", quality=1.0) for k in range(4)]
    for rows in passed:
        stop = rows[1][0]
        rows[1] = Decision(**vars(stop) | {"candidates": (STOP,), **certain}), rows[1][1]
    failed = [logged("f", "small", quality=1.0)]  # stopped by exploration, and it was right
    rates = measure(passed + failed)
    small = found(rates, "tests", "small", "coder")
    assert small.true_positive is not None
    assert small.true_positive.share == pytest.approx(0.5)
    assert (small.verdicts, small.known, small.false_positive) == (5, 5, None)


def test_where_the_cascade_never_stops_nothing_is_said() -> None:
    rows = logged("a", "small", "large")
    after = rows[1][0]
    rows[1] = Decision(**vars(after) | {"probabilities": (1.0, 0.0)}), rows[1][1]
    small = found(measure([rows]), "tests", "small", "all")
    assert (small.true_positive, small.false_positive) == (None, None)
    assert "never stops: set an exploration" in small.note
    assert found(measure([rows]), "tests", "large", "all").true_positive is not None  # the ladder ends there


def play(number: int, generator: random.Random) -> Rows:
    """A cascade over one verifier of .9 / .2 whose small model is right in half the tasks; stops at a chance of .3 or .7."""
    right = {"small": generator.random() < 0.5, "large": generator.random() < 0.8}
    rows: Rows = []
    for model in ("small", "large"):
        step = Step(cascade_id=str(number), number=len(rows), attempts=tuple(attempt_of(*row) for row in rows))
        stops = 0.0 if not rows else 0.7 if step.attempts[0].verdict == "passed" else 0.3
        candidates, probabilities = ((model, STOP), (1 - stops, stops)) if rows else ((model,), (1.0,))
        chosen = STOP if generator.random() < stops else model
        made_id = str(number) if chosen == STOP else f"{number}-{model}"
        made = decision(made_id, candidates=candidates, probabilities=probabilities, model=chosen, cascade=step)
        passes = generator.random() < (0.9 if right[model] else 0.2)
        said = Verdict(verifier="tests", verdict="passed" if passes else "failed")
        rows.append((made, outcome(made_id, quality=None, verdicts=(said,))))
        if chosen == STOP:
            rows[-1] = made, outcome(made_id, quality=float(right["small"]))
            return rows
    step = Step(cascade_id=str(number), number=2, attempts=tuple(attempt_of(*row) for row in rows))
    made = decision(str(number), candidates=(STOP,), probabilities=(1.0,), model=STOP, cascade=step)
    accepted = [attempt.verdict == "passed" for attempt in step.attempts]
    answer = "small" if accepted == [True, False] else "large"
    return [*rows, (made, outcome(str(number), quality=float(right[answer])))]


def test_rates_are_those_of_the_verifier_though_its_verdicts_decide_what_is_seen() -> None:
    generator = random.Random(0)
    rates = measure(play(number, generator) for number in range(2500))
    for model in ("small", "large"):
        one = found(rates, "tests", model, "all")
        for measured, truth in ((one.true_positive, 0.9), (one.false_positive, 0.2)):
            assert measured is not None
            assert abs(measured.share - truth) < measured.high - measured.low < 0.12  # four deviations


def test_intervals_cover() -> None:
    """Verdicts that pass are seen at a chance of .7, others at .3: as many of 95 % intervals hold as they should."""
    generator = np.random.default_rng(0)
    held = []
    for _ in range(600):
        passed = generator.random(120) < 0.8
        chance = np.where(passed, 0.7, 0.3)
        seen = generator.random(120) < chance
        measured = rate(passed[seen], 1 / chance[seen])
        assert measured is not None
        held.append(measured.low <= 0.8 <= measured.high)
    assert 0.92 <= np.mean(held) <= 0.98


def test_wilson() -> None:
    np.testing.assert_allclose(wilson(0.9, 100), (0.8256343, 0.9447711), rtol=1e-6)  # statsmodels' proportion_confint
    np.testing.assert_allclose(wilson(0.0, 10), (0.0, 0.2775328), rtol=1e-6)


TABLE = """
models:
  small: {input_usd_per_mtok: 0.5, output_usd_per_mtok: 1.0}
  large: {input_usd_per_mtok: 15, output_usd_per_mtok: 75}
roles:
  default: {primary: small}
cascade:
  default: {ladder: [small, large], verifiers: [tests, json_schema: {schema: {type: object}}, self_consistency]}
"""


def test_a_cascade_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: str, code: int = 0) -> dict:
        assert main([*words, "--json"]) == code
        shown = capsys.readouterr()
        return json.loads(shown.out or shown.err)

    monkeypatch.chdir(tmp_path)
    Path("models.yaml").write_text(TABLE)
    Path("answer").write_text("no JSON")
    Path("other").write_text("[]")
    first = said("route", "--cascade", "--role", "coder", "--task-id", "t")
    cascade = first["cascade"]["cascade_id"]
    assert (first["model"], first["cascade"]["number"]) == ("small", 0)
    report = ("outcome", first["id"], "--cost", "0.5", "--answer", "answer", "--sample", "other")
    assert said(*report, "--verdict", "tests=passed")["status"] == "joined"
    second = said("route", "--cascade", cascade)
    [before] = second["cascade"]["attempts"]
    assert [(one["verifier"], one["verdict"]) for one in before["verdicts"]] == [
        ("tests", "passed"),
        ("json_schema", "failed"),
        ("self_consistency", "failed"),
    ]
    assert (second["model"], second["candidates"]) == ("large", ["large", "stop"])
    assert said("outcome", second["id"], "--cost", "1", "--verdict", "tests=passed")["status"] == "joined"
    stop = said("route", "--cascade", cascade)
    assert (stop["model"], stop["id"]) == ("stop", cascade)
    assert said("route", "--cascade", cascade) == stop  # it has stopped
    assert said("outcome", cascade, "--quality", "1", "--provenance", "a person")["status"] == "joined"
    done = said("rl", "export", "--cascades", "--output", "episodes.jsonl")
    assert (done["episodes"], done["missing"]) == (1, {})
    assert CascadeData.read("episodes.jsonl").total_cost.tolist() == [1.5]
    assert "3 steps of cascades are exported with --cascades" in said("rl", "export", "--output", "x", code=2)["error"]
    rows = said("rl", "verifiers", "--out", "rates.json")
    assert rows == json.loads(Path("rates.json").read_text())
    assert {row["verifier"] for row in rows} == {"tests", "json_schema", "self_consistency"}
    assert main(["rl", "verifiers"]) == 0
    assert "passes right answers" in capsys.readouterr().out
    assert "--role is needed" in said("route", code=2)["error"]
    assert "cascade 'nobody' is not in" in said("route", "--cascade", "nobody", code=2)["error"]
    assert "must be NAME=passed" in said("outcome", "x", "--verdict", "tests", code=2)["error"]
    assert "has no verdict of a replay cascade" in said("rl", "verifiers", "--data-source", "replay", code=2)["error"]
