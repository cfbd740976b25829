import json
from dataclasses import replace

import numpy as np
import pytest

from sage import Router
from sage.cli import main
from tests.sage.rl.made_logs import made_log

TABLE = """
models:
  big: {{input_usd_per_mtok: 3, output_usd_per_mtok: 15}}
  mid: {{input_usd_per_mtok: 1, output_usd_per_mtok: 5}}
roles:
  default: {{primary: {primary}}}
guard: {{confidence_floor: {floor}}}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "routing.jsonl"
    made_log(3_000).write(path)
    return path


@pytest.fixture(scope="module")
def checkpoint(data):
    path = data.parent / "policy_dr.safetensors"
    assert main(["rl", "train-dr", "--data", str(data), "--out", str(path)]) == 0
    return path


@pytest.mark.parametrize("command", ["train-bc", "train-cql", "train-table", "train-text", "train-dr"])
def test_every_learner_writes_a_checkpoint_that_can_be_judged(data, tmp_path, capsys, command):
    out, report = tmp_path / "memory" / "p.safetensors", tmp_path / "r.json"
    few = ["--updates", "30"] if command in ("train-bc", "train-cql") else []
    assert main(["rl", command, "--data", str(data), "--out", str(out), "--json", *few]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == told["tasks"] == 1_800
    assert main(["rl", "eval-offline", "--data", str(data), "--checkpoint", str(out), "--out", str(report)]) == 0
    found = json.loads(report.read_text())
    assert found["num_rows"] == 1_200
    assert found["policy_version"] == told["version"]
    assert "effective sample size" in capsys.readouterr().out


def test_what_was_learned_from_is_told_apart_from_what_the_gate_leaves_out(tmp_path, capsys):
    log = made_log(200)
    quality = np.where(np.arange(200) % 4, np.nan, log.quality)  # of every fourth decision an outcome came back
    replace(log, quality=quality).write(tmp_path / "gaps.jsonl")
    out = tmp_path / "policy.bin"
    assert main(["rl", "train-table", "--data", str(tmp_path / "gaps.jsonl"), "--out", str(out)]) == 0
    told = capsys.readouterr().out
    learned = int(told.split(" from ")[1].split()[0])
    assert 20 <= learned <= 40
    assert f"from {learned} replay rows with an outcome, " in told
    assert "; the gate leaves out the 120 tasks of training; " in told


def test_the_gate_promotes_with_code_0_and_refuses_with_3(data, checkpoint, tmp_path, capsys):
    gate = ["rl", "gate", "--data", str(data), "--checkpoint", str(checkpoint), "--against", "static"]
    assert main([*gate, "--out", str(tmp_path / "v.json")]) == 0
    assert capsys.readouterr().out.startswith("promote: expected reward +0.")
    verdict = json.loads((tmp_path / "v.json").read_text())
    assert verdict["promote"]
    assert verdict["report"]["evidence"]
    few = tmp_path / "few.jsonl"
    made_log(60, seed=4).write(few)
    gate[3] = str(few)
    assert main(gate) == 3
    assert capsys.readouterr().out.startswith("refuse: the log cannot answer: candidate: the effective sample size is")


def test_a_checkpoint_serves_only_after_the_gate_has_promoted_it(data, checkpoint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.yaml").write_text(TABLE.format(primary="big", floor=0.8))
    record = checkpoint.with_name(f"{checkpoint.name}.gate.json")
    record.unlink(missing_ok=True)
    monkeypatch.setenv("SAGE_RL_POLICY", "1")
    monkeypatch.setenv("SAGE_RL_CHECKPOINT", str(checkpoint))

    def answer():
        assert main(["route", "--role", "coder", "--category", "code", "--json"]) == 0
        decision = json.loads(capsys.readouterr().out)
        code = main(["doctor"])
        said = [line for line in capsys.readouterr().out.splitlines() if " policy: " in line]
        return decision["policy"], decision["verdict"], code, said[0]

    policy, verdict, code, said = answer()
    assert (policy, verdict, code) == ("static", "policy_unusable", 1)
    assert "has no gate record" in said
    gate = ["rl", "gate", "--data", str(data), "--checkpoint", str(checkpoint), "--models", "models.yaml"]
    assert main(gate) == 0
    written = json.loads(record.read_text())
    assert (written["promote"], written["level"], written["data_source"]) == (True, 0.95, "replay")
    assert len(written["checkpoint_sha256"]) == len(written["data_sha256"]) == 64
    capsys.readouterr()
    policy, verdict, code, said = answer()
    assert (policy, verdict, code) == ("doubly_robust", "ok", 0)
    assert "serves, promoted by the gate" in said
    monkeypatch.setenv("SAGE_RL_FORCE", "1")  # not needed, and not mentioned
    assert answer() == (policy, verdict, code, said)
    few = tmp_path / "few.jsonl"
    made_log(60, seed=4).write(few)
    assert main([*gate[:2], "--data", str(few), *gate[4:]]) == 3
    capsys.readouterr()
    policy, verdict, code, said = answer()
    assert (policy, verdict, code) == ("doubly_robust", "ok", 0)
    assert "SAGE_RL_FORCE=1 lets it serve although the gate refused" in said
    record.unlink()


def test_looks_are_counted_in_the_log(checkpoint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    judge = ["--checkpoint", str(checkpoint), "--interval", "fixed-n", "--json"]
    rows = {name: str(tmp_path / f"{name}.jsonl") for name in ("monday", "tuesday")}
    for seed, path in enumerate(rows.values(), start=12):
        made_log(1_200, seed=seed).write(path)
    assert main(["rl", "gate", "--data", rows["monday"], *judge]) == 0
    assert json.loads(capsys.readouterr().out)["looks"] is None  # no log, no ledger
    assert main(["rl", "collect-synth", "--rows", "60"]) == 0
    capsys.readouterr()
    assert main(["rl", "eval-offline", "--data", rows["monday"], "--out", "r.json", *judge]) == 0  # looking is a look
    capsys.readouterr()
    assert main(["rl", "gate", "--data", rows["monday"], *judge]) == 0
    assert json.loads(capsys.readouterr().out)["looks"] == 1
    record = checkpoint.with_name(f"{checkpoint.name}.gate.json")
    promoted = record.read_text()
    assert main(["rl", "gate", "--data", rows["tuesday"], *judge]) == 3
    second = json.loads(capsys.readouterr().out)
    assert "this is look 2" in second["reason"]
    assert second["record"] is None
    assert record.read_text() == promoted  # a look that is no verdict revokes nothing
    judge[3] = "anytime"
    assert main(["rl", "gate", "--data", rows["tuesday"], *judge]) == 0
    record.unlink()


def test_the_floor_is_that_of_the_table_unless_another_is_given(data, checkpoint, tmp_path, capsys):
    table = tmp_path / "models.yaml"
    table.write_text(TABLE.format(primary="big", floor=1.0))
    evaluate = [
        "rl",
        "eval-offline",
        "--data",
        str(data),
        "--checkpoint",
        str(checkpoint),
        "--out",
        str(tmp_path / "r"),
    ]
    shares = {}
    for name, more in {"table": ["--models", str(table)], "given": ["--models", str(table), "--floor", "0.6"]}.items():
        assert main([*evaluate, *more, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        shares[name] = (found["floor"], found["acting_share"] > 0)
    assert shares == {"table": (1.0, False), "given": (0.6, True)}


def test_synthetic_rows_cannot_promote(tmp_path, capsys):
    data, out = tmp_path / "s.jsonl", tmp_path / "p"
    made_log(3_000, source="synthetic").write(data)
    assert main(["rl", "train-dr", "--data", str(data), "--out", str(out)]) == 0
    gate = ["rl", "gate", "--data", str(data), "--checkpoint", str(out)]
    assert main(gate) == 3
    assert main([*gate, "--allow-synthetic"]) == 0
    said = capsys.readouterr().out
    assert "SYNTHETIC, no evidence" in said
    assert "no gate record was written: the rows are synthetic" in said
    assert not out.with_name("p.gate.json").exists()


def test_a_report_that_cannot_be_written_leaves_no_record(data, checkpoint, tmp_path, capsys):
    record = checkpoint.with_name(f"{checkpoint.name}.gate.json")
    record.unlink(missing_ok=True)
    assert main(["rl", "gate", "--data", str(data), "--checkpoint", str(checkpoint), "--out", str(tmp_path)]) == 2
    assert "it is there and not a file" in capsys.readouterr().err
    assert not record.exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train-dr", "--data", "nowhere.jsonl", "--out", "p"], "no such file"),
        (["train-dr", "--data", "DATA", "--out", "p", "--holdout", "1.5"], "holdout=1.5 must lie between 0 and 1"),
        (["train-cql", "--data", "DATA", "--out", "p", "--updates", "0"], "updates=0 must be 1 or more"),
        (["gate", "--data", "DATA", "--checkpoint", "DATA"], "not a policy file or was cut"),
        (
            ["gate", "--data", "DATA", "--checkpoint", "CHECKPOINT", "--floor", "7"],
            "floor=7.0 must lie between 0 and 1",
        ),
        (["gate", "--data", "DATA", "--checkpoint", "CHECKPOINT", "--models", "OTHER"], "none of the log's models"),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(data, checkpoint, tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other.yaml"
    other.write_text(TABLE.format(primary="big", floor=0.5).replace("big", "else").replace("mid", "more"))
    places = {"DATA": str(data), "CHECKPOINT": str(checkpoint), "OTHER": str(other)}
    assert main(["rl", *(places.get(word, word) for word in words)]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1
    assert not (tmp_path / "p").exists()


def test_models_yaml_of_another_pool_in_the_folder_is_not_taken(data, checkpoint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.yaml").write_text(
        TABLE.format(primary="big", floor=0.5).replace("big", "else").replace("mid", "x")
    )
    assert main(["rl", "gate", "--data", str(data), "--checkpoint", str(checkpoint), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["report"]
    assert report["incumbent"] == "the most likely model of the log"
    (tmp_path / "models.yaml").write_text(TABLE.format(primary="big", floor=0.5))
    assert main(["rl", "gate", "--data", str(data), "--checkpoint", str(checkpoint), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"]["incumbent"] == "static"


def test_plausible_models_are_written_for_models_yaml(data, checkpoint, tmp_path, capsys):
    out = tmp_path / "plausible.json"
    assert main(["rl", "plausible", "--data", str(data), "--out", str(out), "--checkpoint", str(checkpoint)]) == 0
    assert "coder code: big, mid\ncoder prose: big\n" in capsys.readouterr().out
    assert main(["rl", "plausible", "--data", str(data), "--out", str(out), "--most", "2"]) == 0
    assert "coder code: big, mid" in capsys.readouterr().out
    (tmp_path / "models.yaml").write_text(
        TABLE.format(primary="big", floor=0.9) + "exploration: {share: 0.3, among: plausible.json}\n"
    )
    with Router.open(tmp_path / "sage.db", models=tmp_path / "models.yaml", environment={}) as router:
        assert router.route(role="coder", category="code").probabilities == pytest.approx((0.85, 0.15))
        assert router.route(role="coder", category="prose").probabilities == pytest.approx((1.0, 0.0))
    assert main(["rl", "plausible", "--data", str(data), "--out", str(out), "--most", "1"]) == 2
    assert "most=1 must be 2 or more" in capsys.readouterr().err


def test_a_plan_says_how_many_decisions_and_what_they_cost(data, capsys):
    plan = ["rl", "plan", "--data", str(data), "--gain", "0.02", "--exploration", "0.1,0.3", "--among", "2"]
    assert main(plan) == 0
    lines = capsys.readouterr().out.splitlines()
    start = "to prove a gain of 0.02 with power 0.8, if the policy takes 30% of decisions"
    assert lines[0].startswith(f"{start} (10 planned looks, ")
    assert "; full information would have power 1.00 there, of which this is 80%; " in lines[1]
    assert lines[-1].startswith("judge with --final-rows")
    assert [line.split(":")[0] for line in lines[1:-1]] == [
        "exploration 0.1 among 3.0 models",
        "exploration 0.3 among 3.0 models",
        "exploration 0.1 among 2.0 models",
        "exploration 0.3 among 2.0 models",
    ]
    assert main([*plan, "--json", "--interval", "fixed-n"]) == 0
    plans = json.loads(capsys.readouterr().out)["plans"]
    assert plans[0]["proof_rows"] > plans[1]["proof_rows"] > plans[3]["proof_rows"] > 1_000
    assert plans[0]["log_rows"] == -(-plans[0]["proof_rows"] * 10 // 4)
    assert main(["rl", "plan", "--data", str(data), "--gain", "0"]) == 2
    assert "gain=0 must be above 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*plan, "--exploration", "some"])
    assert "'some' must be numbers with commas between them" in capsys.readouterr().err
