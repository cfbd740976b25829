"""Everything people get wrong: one clear sentence each, and nothing is written."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sage.cli import main
from sage.evidence.routing_data import RoutingData
from sage.log.decision_log import DecisionLog
from sage.log.records import Decision, Request
from sage.orchestrator.models_file import ModelsFile
from sage.policies.bandits.ucb_bandit import UCB1
from tests.sage.examples import TABLE, decision, outcome


def table(old: str, new: str) -> Callable[[], object]:
    assert old in TABLE
    return lambda: ModelsFile.parse(TABLE.replace(old, new))


def with_more(extra: str) -> Callable[[], object]:
    return lambda: ModelsFile.parse(TABLE + extra)


# what is done, and the sentence: place, value, fix
TABLES = {
    "not YAML": (table("models:", "models: ["), "not YAML: "),
    "a list": (lambda: ModelsFile.parse("- a\n- b"), "the file is ['a', 'b']: it must be a mapping with models, roles"),
    "empty": (lambda: ModelsFile.parse(""), "the file is None: it must be a mapping"),
    "a key twice": (with_more("roles: {}\n"), "the key 'roles' is given twice"),
    "unknown section": (with_more("gaurd: {}\n"), "the file: 'gaurd' is not a setting: did you mean 'guard'?"),
    "no models": (
        lambda: ModelsFile.parse("models: {}\nroles: {}"),
        "models is {}: it must be a mapping with at least one",
    ),
    "price missing": (
        table("{input_usd_per_mtok: 3, output_usd_per_mtok: 15", "{input_usd_per_mtok: 3"),
        "models.medium has no output_usd_per_mtok: give it a value",
    ),
    "price negative": (
        table("input_usd_per_mtok: 3", "input_usd_per_mtok: -3"),
        "models.medium.input_usd_per_mtok=-3 must be",
    ),
    "price as text": (
        table("input_usd_per_mtok: 3", "input_usd_per_mtok: $3"),
        "models.medium.input_usd_per_mtok='$3' must be",
    ),
    "price not a number": (
        table("input_usd_per_mtok: 3", "input_usd_per_mtok: .nan"),
        "input_usd_per_mtok=nan must be a finite",
    ),
    "unknown setting": (
        table("max_context", "max_contxt"),
        "models.small: 'max_contxt' is not a setting: did you mean 'max_context'?",
    ),
    "context of half": (
        table("max_context: 1000", "max_context: 0.5"),
        "models.small.max_context=0.5 must be a whole number above 0",
    ),
    "name with a blank": (
        table("  small: {", "  sm all: {"),
        "models: 'sm all' must be 1 to 200 characters without blanks",
    ),
    "unknown model": (
        table("fallback: medium", "fallback: medum"),
        "roles.coder.fallback='medum' is not known: did you mean 'medium'?",
    ),
    "unknown role": (table("  coder:", "  codr:"), "roles='codr' is not known: did you mean 'coder'?"),
    "roles missing": (
        table("  default: {primary: medium, fallback: small}\n", ""),
        "roles has no entry for planner, architect",
    ),
    "no primary": (table("{primary: medium, ", "{"), "roles.default has no primary: give it a value"),
    "model not for the role": (
        table("{primary: medium, fallback: small}", "{primary: large}"),
        "roles.architect names 'large', which may not serve it: add architect to models.large.roles",
    ),
    "unknown variable": (
        table("when: past_failures >= 2", "when: past_failure >= 2"),
        "roles.coder.triggers[0].when: 'past_failure' in 'past_failure >= 2' is not a variable: did you mean 'past_failures'?",
    ),
    "unknown operator": (
        table("past_failures >= 2", "past_failures ~ 2"),
        "roles.coder.triggers[0].when: 'past_failures ~ 2' is not a",
    ),
    "trigger without a model": (table(", use: large", ""), "roles.coder.triggers[0] has no use: give it a value"),
    "triggers as text": (
        lambda: ModelsFile.parse(TABLE.split("    triggers")[0] + "    triggers: soon\n"),
        "roles.coder.triggers='soon' must be a list",
    ),
    "floor above one": (
        with_more("guard: {confidence_floor: 2}\n"),
        "guard.confidence_floor=2 must be a finite number that is not negative and at most 1",
    ),
    "exploration above one": (with_more("exploration: 1.5\n"), "exploration=1.5 must be"),
    "a share of exploration above one": (with_more("exploration: {share: 2}\n"), "exploration.share=2 must be"),
    "exploration among an unknown model": (
        with_more("exploration: {share: 0.1, among: [smal]}\n"),
        "exploration.among='smal' is not known: did you mean 'small'?",
    ),
    "exploration among nothing": (
        with_more("exploration: {share: 0.1, among: []}\n"),
        "exploration.among=[] must be a list of models, or the file",
    ),
    "exploration among a file that is not there": (
        with_more("exploration: {share: 0.1, among: nowhere.json}\n"),
        "exploration.among: nowhere.json cannot be read (No such file or directory): make it with `sage lab plausible",
    ),
    "unknown bandit": (with_more("bandit: thompson\n"), "bandit='thompson' is not known: choose from ucb1, contextual"),
    "unknown kind of bandit": (
        with_more("bandit: {kind: ucb2}\n"),
        "bandit.kind='ucb2' is not known: did you mean 'ucb1'?",
    ),
    "a bandit without a kind": (with_more("bandit: {noise: 0.5}\n"), "bandit has no kind: give it a value"),
    "a bandit that keeps nothing": (
        with_more("bandit: {kind: ucb1, keep: 0}\n"),
        "bandit.keep=0 must be above 0",
    ),
    "a bandit that keeps more than all": (
        with_more("bandit: {kind: ucb1, keep: 1.5}\n"),
        "bandit.keep=1.5 must be a finite number that is not negative and at most 1",
    ),
    "noise of ucb1": (with_more("bandit: {kind: ucb1, noise: 0.5}\n"), "bandit.noise is a setting of `contextual`"),
    "an objective without a wish": (with_more("objective: {}\n"), "objective has nothing: give exactly one of weights"),
    "an objective with two wishes": (
        with_more("objective: {max_points_worse: 1, max_usd_per_task: 2}\n"),
        "objective has max_points_worse, max_usd_per_task: give exactly one of",
    ),
    "an objective that does not exist": (
        with_more("objective: {max_points_wors: 1}\n"),
        "objective: 'max_points_wors' is not a setting: did you mean 'max_points_worse'?",
    ),
    "a loss of more than all": (
        with_more("objective: {max_points_worse: 101}\n"),
        "objective.max_points_worse=101 must be a finite number that is not negative and at most 100",
    ),
    "a budget of nothing": (
        with_more("objective: {max_usd_per_task: 0}\n"),
        "objective.max_usd_per_task=0 must be above 0: nothing is free",
    ),
    "a negative weight": (
        with_more("objective: {weights: {cost: -1}}\n"),
        "objective.weights.cost=-1 must be a finite number that is not negative",
    ),
    "a scale of nothing": (
        with_more("objective: {weights: {cost_scale_usd: 0}}\n"),
        "objective.weights: cost_scale_usd must be above 0",
    ),
    "a name for weights": (
        with_more("objective: {weights: {version: mine}}\n"),
        "objective.weights.version is not a setting",
    ),
    "a bandit under a limit": (
        with_more("bandit: ucb1\nobjective: {max_points_worse: 1}\n"),
        "a bandit learns for objective.weights alone: leave `bandit` out, or give weights instead of a limit",
    ),
    "prompts perhaps": (with_more("log: {store_prompts: maybe}\n"), "log.store_prompts='maybe' must be true or false"),
    "python in YAML": (
        with_more("log: !!python/object/apply:os.getpid []\n"),
        "not YAML: could not determine a constructor",
    ),
}

RECORDS = {
    "unknown role": (lambda: Request(role="cook"), "role='cook' is not one of planner, architect"),
    "negative failures": (lambda: Request(role="coder", past_failures=-1), "past_failures=-1 must be a whole number"),
    "probabilities add up to 2": (lambda: decision(probabilities=(1.0, 1.0)), "add up to 2, not 1"),
    "the chosen one had no chance": (
        lambda: decision(probabilities=(0.0, 1.0)),
        "gives the chosen model 'small' probability 0.0",
    ),
    "probability not a number": (lambda: decision(probabilities=(math.nan, 1.0)), "must lie between 0 and 1"),
    "too few probabilities": (lambda: decision(probabilities=(1.0,)), "probabilities has 1 entries for 2 candidates"),
    "no candidate": (
        lambda: decision(candidates=(), probabilities=()),
        "candidates=[] must be one or more different models",
    ),
    "chose another": (lambda: decision(model="huge"), "model='huge' is not among the candidates small, large"),
    "unknown source": (
        lambda: decision(data_source="fake"),
        "data_source='fake' must be one of real, synthetic, replay",
    ),
    "features not numbers": (lambda: decision(features=(math.inf,)), "must be finite numbers"),
    "an older schema": (
        lambda: Decision.from_json(decision().to_json() | {"schema": 0}),
        "schema=0 is not the version this sage reads",
    ),
    "unknown field": (
        lambda: Decision.from_json(decision().to_json() | {"colour": 1}),
        "'colour' is not a field of a decision",
    ),
    "a decision instead of its id": (
        lambda: outcome(decision()),
        "decision_id=decision, not decision.id, must be the id",
    ),
    "a log without a path": (lambda: DecisionLog(None), "db=None is not the path of a file: give one, such as sage.db"),
    "a log that is this folder": (lambda: DecisionLog("."), "db='.' is not the path of a file"),
    "an id that is no text": (lambda: outcome("\ud800"), "decision_id='\\ud800' holds bytes that are no text"),
    "a provenance that is no text": (lambda: outcome(provenance="\ud800"), "provenance='\\ud800' holds bytes"),
    "quality above one": (lambda: outcome(quality=7.0), "quality=7.0 must be between 0 and 1"),
    "quality not a number": (lambda: outcome(quality=math.nan), "quality=nan must be a finite number"),
    "cost below zero": (lambda: outcome(cost_usd=-1.0), "cost_usd=-1.0 must be a finite number that is not negative"),
    "retries of half": (lambda: outcome(retries=0.5), "retries=0.5 must be a whole number"),
    "answered by a number": (lambda: outcome(model=3), "model=3 must be the name of the model that answered"),
    "reward not a number": (
        lambda: UCB1().update(None, ["a"], np.array([math.nan])),
        "reward=nan for 'a' must be a finite number",
    ),  # pyrefly: ignore
}


@pytest.mark.parametrize(("action", "sentence"), TABLES.values(), ids=TABLES)
def test_a_table_that_is_wrong(action: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the sentence is compared below)
        action()
    assert sentence in str(caught.value)


@pytest.mark.parametrize(("action", "sentence"), RECORDS.values(), ids=RECORDS)
def test_a_record_that_cannot_be_true(action: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the sentence is compared below)
        action()
    assert sentence in str(caught.value)


def lines(*changes: dict) -> str:
    rows = [decision(f"d{i}").to_json() | {"outcome": outcome(f"d{i}").to_json()} for i in range(len(changes))]
    return "".join(json.dumps(row | change) + "\n" for row, change in zip(rows, changes, strict=True))


EXPORTS = {
    "cut in half": (lines({}, {})[:-200], "line 2: not a whole JSON object (the file ends in the middle of it)"),
    "mixed schema versions": (lines({}, {"schema": 2}), "line 2: schema=2 is not the version this sage reads"),
    "mixed sources": (lines({}, {"data_source": "real"}), "line 2: data_source is 'real' after 'synthetic'"),
    "no outcome": (lines({"outcome": None}), "holds no decision with an outcome"),
    "NaN quality": (lines({}).replace('"quality": 1.0', '"quality": NaN'), "line 1: NaN is not a number"),
    "one decision twice": (lines({}) * 2, "line 2: decision 'd0' is there twice"),
    "empty": ("", "holds no decision with an outcome"),
}


@pytest.mark.parametrize(("text", "sentence"), EXPORTS.values(), ids=EXPORTS)
def test_an_export_that_cannot_be_learned_from(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "routing.jsonl").write_text(text)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the sentence is compared below)
        RoutingData.read(tmp_path / "routing.jsonl")
    assert sentence in str(caught.value)


def another_program(folder: Path) -> None:
    with sqlite3.connect(folder / "sage.db") as other:
        other.execute("CREATE TABLE mine (x)")


def newer_format(folder: Path) -> None:
    DecisionLog.open(folder / "sage.db").close()
    with sqlite3.connect(folder / "sage.db") as other:
        other.execute("PRAGMA user_version = 99")


# what the folder holds, the command, and the sentence
COMMANDS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no table": (
        lambda folder: (folder / "models.yaml").unlink(),
        "route --role coder",
        "models.yaml: there is no such file: `sage init`",
    ),
    "a table that is wrong": (
        lambda folder: (folder / "models.yaml").write_text("models: 1"),
        "route --role coder",
        "models.yaml: the file has no roles",
    ),
    "a table in another encoding": (
        lambda folder: (folder / "models.yaml").write_bytes(b"\xff\xfe"),
        "route --role coder",
        "models.yaml: ",
    ),
    "unknown role": (lambda folder: None, "route --role cook", "role='cook' is not one of planner"),
    "unknown source": (
        lambda folder: None,
        "route --role coder --data-source made-up",
        "data_source='made-up' must be one of",
    ),
    "negative failures": (lambda folder: None, "route --role coder --past-failures -2", "past_failures=-2 must be"),
    "NaN cost of a probe": (lambda folder: None, "route --role coder --probe-cost nan", "probe_cost_usd=nan must be"),
    "no folder for the log": (
        lambda folder: None,
        "route --role coder --db nowhere/sage.db",
        "there is no folder nowhere",
    ),
    "a log that is text": (
        lambda folder: (folder / "sage.db").write_text("hello " * 200),
        "route --role coder",
        "file is not a database",
    ),
    "a log of another program": (another_program, "route --role coder", "sage.db is a database of another program"),
    "a log of a newer sage": (newer_format, "route --role coder", "sage.db has format 99, this sage writes 7"),
    "a log that is a folder": (
        lambda folder: (folder / "sage.db").mkdir(),
        "route --role coder",
        "sage.db cannot be used as a log",
    ),
    "an outcome without a log": (lambda folder: None, "outcome d1 --quality 1", "sage.db: there is no such log"),
    "quality of a percentage": (
        lambda folder: DecisionLog.open(folder / "sage.db"),
        "outcome d1 --quality 95",
        "quality=95.0 must be between 0 and 1",
    ),
    "NaN quality": (
        lambda folder: DecisionLog.open(folder / "sage.db"),
        "outcome d1 --quality nan",
        "quality=nan must be a finite",
    ),
    "a table that is there": (
        lambda folder: None,
        "init",
        "models.yaml is there already: edit it, or replace it with --force",
    ),
}


@pytest.mark.parametrize(("prepare", "command", "sentence"), COMMANDS.values(), ids=COMMANDS)
def test_a_command_refuses_in_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    prepare: Callable[[Path], object],
    command: str,
    sentence: str,
) -> None:
    (tmp_path / "models.yaml").write_text(TABLE)
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = listing(tmp_path)
    assert main(command.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert sentence in said.err
    assert {name: text for name, text in listing(tmp_path).items() if name in before} == before
    assert records(tmp_path / "sage.db") == 0


def listing(folder: Path) -> dict[str, bytes]:
    """What the files hold, less the log: SQLite tidies up in it."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith("sage.db")}


def records(path: Path) -> int:
    """How many are in the log, where there is one of ours."""
    try:
        counts = DecisionLog.open(path).counts() if path.is_file() else {}
    except ValueError:
        return 0
    return sum(counts.values())


def test_errors_are_objects_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["route", "--role", "coder", "--models", str(tmp_path / "x.yaml"), "--json"]) == 2
    assert "there is no such file" in json.loads(capsys.readouterr().err)["error"]
