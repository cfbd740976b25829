"""`sage.evaluate` and `sage.gate`: the commands' numbers, looks counted in the log, and a record for routers."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from cascade_replay import replay_cascade

import sage
from sage.cli import main
from sage.evidence.objective import weighted
from sage.files import FileWriteError
from sage.log.decision_log import DecisionLog
from sage.pipeline.choices import INTERVALS
from sage.policies.cascades.cascade_ladder import ExploringCascade, LadderCascade
from sage.proof.gate_record import records_of, why_not_promoted
from sage.proof.look_ledger import enter_look
from sage.rl.cascades.simulated_verifier import SimulatedVerifier
from sage.rl.replay import append_to_log
from tests.sage.evidence.cascades.test_cascade_data import small_table
from tests.sage.rl.made_logs import made_log

CHECKPOINT = Path("p.bin")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A log with its export, and a policy that is better than what wrote it."""
    folder = tmp_path_factory.mktemp("log")
    with closing(DecisionLog.open(folder / "routing.db")) as log:
        append_to_log(log, made_log(3_000), "s")
    assert main(["rl", "export", "--db", str(folder / "routing.db"), "--output", str(folder / "rows.jsonl")]) == 0
    sage.train(folder / "rows.jsonl", out=folder / CHECKPOINT)
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch, made):
    monkeypatch.chdir(tmp_path)
    for path in made.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_calls_and_commands_say_the_same(folder, capsys):
    found = sage.evaluate("rows.jsonl", "p.bin")
    assert main(["rl", "eval-offline", "--data", "rows.jsonl", "--checkpoint", "p.bin", "--out", "e.json"]) == 0
    assert capsys.readouterr().out == f"{found}\n"
    assert json.loads(Path("e.json").read_text()) == json.loads(json.dumps(found.to_json()))
    verdict = sage.gate("rows.jsonl", "p.bin", out="calls.json")
    assert main(["rl", "gate", "--data", "rows.jsonl", "--checkpoint", "p.bin", "--out", "commands.json"]) == 0
    assert capsys.readouterr().out == f"{verdict}\n"
    calls, commands = (json.loads(Path(name).read_text()) for name in ("calls.json", "commands.json"))
    assert calls["verdict"].pop("date") <= commands["verdict"].pop("date")
    assert calls == commands
    assert verdict.report.to_json() == found.to_json()


def test_a_promoted_checkpoint_has_its_record(folder):
    assert "has no gate record" in why_not_promoted(CHECKPOINT, 0.9)
    verdict = sage.gate("rows.jsonl", CHECKPOINT)
    assert (verdict.promote, verdict.exit_code, verdict.record) == (True, 0, Path("p.bin.gate.json"))
    assert verdict.reason.startswith("expected reward +0.")
    assert why_not_promoted(CHECKPOINT, 0.9) == ""
    (record,) = records_of(CHECKPOINT).values()
    assert (record.reason, record.floor, record.data_sha256) == (verdict.reason, 0.9, verdict.report.data_sha256)


def test_looks_are_counted_in_the_log_that_the_rows_come_from(folder):
    assert sage.gate("rows.jsonl", CHECKPOINT).looks is None  # no log is known
    found = sage.evaluate("routing.db", CHECKPOINT, interval="fixed-n")
    first = sage.gate("routing.db", CHECKPOINT, interval="fixed-n")
    assert (first.looks, first.promote) == (1, True)  # the same question about the same rows
    assert first.report.data_sha256 == found.data_sha256
    assert sage.gate("rows.jsonl", CHECKPOINT, db="routing.db").looks == 1
    second = sage.gate("rows.jsonl", CHECKPOINT, db="routing.db", interval="fixed-n", seed=1)
    assert (second.looks, second.promote, second.record) == (2, False, None)
    assert str(second).endswith("no gate record was written: this is look 2, and the fixed-n interval holds for one")
    assert why_not_promoted(CHECKPOINT, 0.9) == ""  # of the first look
    Path("routing.db").rename("sage.db")
    assert sage.gate("rows.jsonl", CHECKPOINT, seed=2).looks == 3  # in this folder
    assert enter_look(Path("sage.db"), found) == 3


def test_planned_looks_are_fixed_in_the_log_at_the_first(folder, capsys):
    asked = {"db": "routing.db", "final_rows": 2_000}
    first = sage.gate("rows.jsonl", CHECKPOINT, **asked)
    assert (first.promote, first.verdict.method, first.looks) == (True, "planned", 1)
    assert f"at planned look 1, {first.report.num_rows:,} of 2,000 rows" in first.reason
    command = ["rl", "gate", "--data", "rows.jsonl", "--checkpoint", "p.bin", "--db", "routing.db", "--final-rows"]
    assert main([*command, "2000"]) == 0  # the same look
    assert sage.gate("rows.jsonl", CHECKPOINT, db="routing.db").reason == first.reason
    capsys.readouterr()
    assert main([*command, "6000"]) == 2
    assert "final_rows=6000 is not the plan of" in capsys.readouterr().err
    with pytest.raises(ValueError, match="are planned, final_rows=2,000: leave --interval out"):
        sage.gate("rows.jsonl", CHECKPOINT, db="routing.db", interval="fixed-n")
    with pytest.raises(ValueError, match="and there is none: give it with --db"):
        sage.gate("rows.jsonl", CHECKPOINT, final_rows=2_000)


def test_synthetic_rows_have_a_verdict_without_a_record(folder):
    rows = made_log(3_000, source="synthetic")
    sage.train(rows, out="s.bin")
    assert sage.gate(rows, "s.bin").exit_code == 3
    verdict = sage.gate(rows, "s.bin", allow_synthetic=True)
    assert (verdict.promote, verdict.record, verdict.no_record) == (True, None, "the rows are synthetic")
    assert not Path("s.bin.gate.json").exists()


def test_a_report_that_cannot_be_written_leaves_no_record(folder):
    with pytest.raises(FileWriteError, match="could not be written"):
        sage.gate("rows.jsonl", CHECKPOINT, out=".")
    assert not Path("p.bin.gate.json").exists()


@pytest.mark.parametrize("call", [sage.evaluate, sage.gate])
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"floor": 2}, "floor=2 must lie between 0 and 1: it is a confidence"),
        ({"interval": "t"}, f"interval='t' must be one of {', '.join(INTERVALS)}"),
        ({"seed": 0.5}, "seed=0.5 must be a whole number"),
        ({"final_rows": 0}, "final_rows=0 must be a whole number above 0"),
        (
            {"final_rows": 9, "interval": "fixed-n"},
            "final_rows=9 plans several looks, and --interval fixed-n is for one",
        ),
        ({"db": "no.db"}, "db='no.db': there is no such log, and looks are counted there"),
    ],
)
def test_a_wrong_argument_is_named_before_anything_is_read(call, given, sentence):
    with pytest.raises(ValueError) as error:  # noqa: PT011 (its text is asked for)
        call("no.jsonl", "no.bin", **given)
    assert str(error.value).startswith(sentence)


def test_a_cascade_is_trained_and_judged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logger = ExploringCascade(LadderCascade(("c",)), 0.4)
    rows = replay_cascade(small_table(400), logger, 6_000, verifier=SimulatedVerifier(), seed=0)
    trained = sage.train(rows, learner="cascade-fitted-q", price=0.6, holdout=0.5, out="c.bin")
    assert trained.to_json()["price"] == 0.6
    assert "; first b" in str(trained)
    rows.write("rows.jsonl")
    verdict = sage.gate("rows.jsonl", "c.bin")
    assert verdict.promote
    assert verdict.report.to_json() == sage.evaluate(rows, "c.bin").to_json()
    assert why_not_promoted(Path("c.bin"), 0.0, weighted(cost=0.6)) == ""
    with pytest.raises(ValueError, match=r"floor=0\.5: a cascade has no confidence"):
        sage.evaluate(rows, "c.bin", floor=0.5)
