"""Models from recorded outcomes, on outcomes that are drawn from known curves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sage.cli.main import main
from sage.outcomes.table import OutcomeTable
from sage.sim.recorded.checks import folds, posterior_checks
from sage.sim.recorded.costs import LEVELS, cost_at, cost_quantiles
from sage.sim.recorded.fitting import FitError, fit_models
from sage.sim.recorded.item_response import fit_curves
from sage.sim.recorded.model_file import Fitted, ModelFile, ModelFileError
from sage.sim.recorded.tiers import TierError, choose_tiers, named_tiers
from tests.sage.sim.recorded_outcomes import ABILITY, MODELS, SLOPE, USD, drawn_outcomes, drawn_table


@pytest.fixture(scope="module")
def table() -> OutcomeTable:
    return drawn_table()


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_curves_are_recovered(missing: float) -> None:
    generator = np.random.default_rng(1)
    score = drawn_outcomes(200_000, generator).astype(float)
    score[generator.random(score.shape) < missing] = np.nan
    found = fit_curves(score)
    np.testing.assert_allclose(found.ability, ABILITY, atol=0.05)
    np.testing.assert_allclose(found.discrimination, SLOPE, rtol=0.05)
    assert found.weight @ found.difficulty == pytest.approx(0, abs=1e-9)
    assert found.weight @ found.difficulty**2 == pytest.approx(1)


def test_a_model_that_solves_all_or_nothing_has_finite_curves() -> None:
    found = fit_curves(np.stack([np.ones(50), np.zeros(50), np.arange(50) % 2], axis=1))
    assert np.isfinite(found.ability).all()
    assert found.ability[1] < found.ability[2] < found.ability[0]


def test_checks_hold_where_the_curves_are_true_and_coins_do_not() -> None:
    drawn = drawn_table(3_000, seed=3)
    found = posterior_checks(drawn, MODELS[:4], folds(len(drawn)))
    assert all(found[name]["holds"] for name in ("unions", "calibration", "costs")), found
    assert found["unions"]["pairs"] == 10
    assert found["unions"]["independent_coins"]["largest_error"] > 0.05


def test_checks_find_models_that_agree_beyond_any_difficulty(table: OutcomeTable) -> None:
    """Two of them are one model under two names, and solve by coins that nobody else shares."""
    coins = np.random.default_rng(0).random((len(table), len(MODELS))) < 0.5
    coins[:, 1] = coins[:, 0]
    coins[:, 2:] = (
        np.random.default_rng(1).random((len(table), 3))
        < 1 / (1 + np.exp(-3 * np.linspace(-2, 2, len(table))))[:, None]
    )
    unions = posterior_checks(replace(table, score=coins.astype(float)), MODELS[:4], folds(len(table)))["unions"]
    assert not unions["holds"]
    assert unions["largest_error_of_tiers"] > 0.15  # 0.75 expected of independent ones, 0.5 recorded


def test_costs_are_those_of_the_outcome(table: OutcomeTable) -> None:
    score, cost = np.repeat([0.0, 1.0], 21), np.concatenate([LEVELS + 2, LEVELS + 1])
    failed, solved = (cost_quantiles(score, cost, solved=outcome) for outcome in (False, True))
    np.testing.assert_allclose(failed, LEVELS + 2)
    np.testing.assert_allclose(solved, LEVELS + 1)
    assert cost_at(np.array([1.0, 4.0]), np.array([0.0, 0.5, 1.0])).tolist() == pytest.approx([1, 2, 4])
    rare = cost_quantiles(np.append(score[21:], 0.0), np.append(cost[21:], 9.0), solved=False)
    assert (rare[0], rare[-1]) == (1.0, 9.0)  # one failure is too few: of all attempts


def test_tiers_are_unbeaten_and_rise(table: OutcomeTable) -> None:
    assert choose_tiers(table) == MODELS[:4]  # nobody wants `waste`
    three = table.with_models(("tiny", "mid", "dear", "waste"))
    assert choose_tiers(three) == ("tiny", "mid", "dear", "waste")
    assert named_tiers("large=best,small=mid,medium=mid,escalated=best", table) == ("mid", "mid", "best", "best")
    for text in ("small=tiny", "small=tiny,medium=mid,large=dear,huge=best", "small=a,small=b,medium=c,large=d"):
        with pytest.raises(TierError, match="must name each once: small=A,medium=B,large=C,escalated=D"):
            named_tiers(text, table)
    with pytest.raises(TierError, match="drawn has no model 'gpt': it has tiny"):
        named_tiers("small=gpt,medium=mid,large=dear,escalated=best", table)
    with pytest.raises(TierError, match="has 2 models with costs that no other beats"):
        choose_tiers(table.with_models(("tiny", "mid")))


def test_the_command_writes_what_it_fitted_and_names_its_data(
    table: OutcomeTable, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    table.save(tmp_path / "table.npz")
    assert (
        main(["sim", "fit-models", "--outcomes", str(tmp_path / "table.npz"), "--out", str(tmp_path / "m.json")]) == 0
    )
    told = capsys.readouterr().out
    again = ["--outcomes", str(tmp_path / "table.npz"), "--out", str(tmp_path / "table.npz")]
    assert main(["sim", "fit-models", *again]) != 0
    assert "is the outcome table, which would be overwritten: choose another name" in capsys.readouterr().err
    assert OutcomeTable.open(tmp_path / "table.npz").sha256 == table.sha256
    assert "level irt, from 400 tasks of drawn (synthetic)" in told
    assert "licence CC0: Parameters and rows are derived from this data" in told
    found = ModelFile.open(tmp_path / "m.json")
    assert (found.source["sha256"], found.source["licence"]) == (table.sha256, "CC0")
    assert found.tiers == {"small": "tiny", "medium": "mid", "large": "dear", "escalated": "best"}
    assert isinstance(found.answers, Fitted)
    median = len(LEVELS) // 2
    for failed, solved, usd in zip(found.answers.failed_usd, found.answers.solved_usd, USD, strict=False):
        assert (failed[median], solved[median]) == pytest.approx((2 * usd, usd), rel=0.15)
    again = replace(fit_models(table), sha256=found.sha256)
    assert again == found


def test_costs_are_in_the_currency_that_is_asked_for(table: OutcomeTable) -> None:
    found = fit_models(table, "replay")
    assert not isinstance(found.answers, Fitted)
    large = [row.cost_usd[2] for row in found.answers if not row.held_out]
    assert found.units_per_usd * np.mean(large) == pytest.approx(16)
    assert fit_models(table, units_per_usd=100).units_per_usd == 100


def test_held_out_rows_are_in_no_curve(table: OutcomeTable) -> None:
    found = fit_models(table, "replay", held_out_by="category")
    assert not isinstance(found.answers, Fitted)
    assert sum(row.held_out for row in found.answers) == 160  # two of five categories
    hidden = {row.cost_usd for row in found.answers if row.held_out}  # costs are drawn, and so name a row
    rows = np.array([tuple(cost[:3]) in hidden for cost in table.cost_usd])
    assert len(set(table.category[rows])) == 2
    changed = np.where(rows[:, None], 1 - table.score, table.score)
    other = fit_models(
        replace(table, score=changed), held_out_by="category", tiers="small=tiny,medium=mid,large=dear,escalated=best"
    )
    assert other.answers == fit_models(table, held_out_by="category").answers


@pytest.mark.parametrize(
    ("changes", "settings", "sentence"),
    [
        ({}, {"level": "L0"}, "level='L0' must be one of irt, replay"),
        ({}, {"held_out_by": "repo"}, "held_out_by='repo' must be one of task, category"),
        ({}, {"units_per_usd": 0.0}, "units_per_usd=0.0 must be a number above 0"),
        ({"cost_usd": np.full((400, 5), np.nan)}, {}, "has 0 models with costs .*: import a table with costs"),
        ({"cost_usd": np.tile([0.0, 1, 4, 16, 64], (400, 1))}, {}, "drawn: tiny cost nothing: choose models"),
        ({}, {"tiers": "small=mid,medium=mid,large=mid,escalated=mid"}, "names one model only: name two or more"),
        (
            {"cost_usd": np.zeros((400, 5))},
            {"tiers": "small=tiny,medium=mid,large=dear,escalated=best"},
            "cost nothing",
        ),
    ],
)
def test_what_cannot_be_fitted_is_said(table: OutcomeTable, changes: dict, settings: dict, sentence: str) -> None:
    with pytest.raises((FitError, TierError), match=sentence):
        fit_models(replace(table, **changes), **settings)
    with pytest.raises(FitError, match="has 10 tasks with scores and costs of tiny, mid, dear, best: 20 are needed"):
        fit_models(drawn_table(10, seed=5), tiers="small=tiny,medium=mid,large=dear,escalated=best")


def put(*path: str | int, value: object) -> Callable[[dict], object]:
    """Changes one place of a file."""

    def change(values: dict) -> None:
        for key in path[:-1]:
            values = values[key]
        values[path[-1]] = value  # pyrefly: ignore (a list or a mapping)

    return change


@pytest.mark.parametrize(
    ("level", "change", "sentence"),
    [
        ("irt", put("format", value=9), "format=9 is not 1"),
        ("irt", put("level", value="L0"), "level='L0' must be one of irt, replay"),
        ("irt", lambda values: values.pop("tiers"), "the file has no field 'tiers'"),
        ("irt", put("more", value=1), "the file has a field 'more', which is not known"),
        ("irt", put("tiers", "small", value=3), "tiers.small=3 must be text"),
        ("irt", put("source", value=[]), r"source is '\[\]': it must be a mapping with cost_kind"),
        ("irt", put("units_per_usd", value=-1), "units_per_usd has -1: it must be a finite number above 0"),
        ("irt", put("checks", value=None), "checks=None must be a mapping"),
        ("irt", put("answers", "ability", value=[0.0]), "answers.ability must be a list of 4 numbers"),
        ("irt", put("answers", "ability", 0, value="high"), "answers.ability has 'high': it must be a finite number"),
        (
            "irt",
            put("answers", "discrimination", 1, value=0),
            "answers.discrimination has 0: it must be a finite number above 0",
        ),
        (
            "irt",
            put("answers", "difficulty", 0, value=9),
            "answers.difficulty must have two or more numbers, each larger",
        ),
        ("irt", put("answers", "weight", 0, value=0.5), r"answers.weight has the sum 1\.[45]\d*: it must be 1"),
        ("irt", put("answers", "failed_usd", value=[[1.0]]), "answers.failed_usd must have a list for each of small"),
        (
            "irt",
            put("answers", "solved_usd", 2, value=[2, 1]),
            r"answers.solved_usd\[2\] must have two or more numbers, none",
        ),
        ("replay", put("answers", value=7), "answers='7' must be a list of rows"),
        ("replay", put("answers", value=[]), "answers must have rows that are held out and rows that are not"),
        (
            "replay",
            put("answers", 5, "score", 0, value=1.5),
            r"answers\[5\].score has 1.5: it must be a finite number from 0 to 1",
        ),
        ("replay", put("answers", 5, "held_out", value=0), r"answers\[5\].held_out=0 must be true or false"),
        ("replay", put("answers", 5, "cost_usd", value=[1]), r"answers\[5\].cost_usd must be a list of 3 numbers"),
    ],
)
def test_a_bad_field_is_named(
    files: dict[str, dict], level: str, change: Callable[[dict], object], sentence: str, tmp_path: Path
) -> None:
    values = json.loads(json.dumps(files[level]))
    change(values)
    (tmp_path / "m.json").write_text(json.dumps(values))
    with pytest.raises(ModelFileError, match=f"m.json: {sentence}.*: make it again with `sage sim fit-models`"):
        ModelFile.open(tmp_path / "m.json")


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="there is no such file: make it with `sage sim fit-models`"):
        ModelFile.open(tmp_path / "m.json")
    (tmp_path / "m.json").write_text('{"format": 1')
    with pytest.raises(ModelFileError, match="not whole JSON"):
        ModelFile.open(tmp_path / "m.json")


@pytest.fixture(scope="module")
def files(table: OutcomeTable, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """A file of each level, as JSON."""
    folder, found = tmp_path_factory.mktemp("models"), {}
    for level in ("irt", "replay"):
        fit_models(table, level).save(folder / "m.json")
        found[level] = json.loads((folder / "m.json").read_text())
    return found
