"""Objectives from models.yaml to the gate's record, and the frontier, on the command line."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sage.cli import main
from tests.sage.rl.made_logs import made_log

TABLE = """
models:
  big: {input_usd_per_mtok: 3, output_usd_per_mtok: 15}
  mid: {input_usd_per_mtok: 1, output_usd_per_mtok: 5}
  small: {input_usd_per_mtok: 0.2, output_usd_per_mtok: 1}
roles:
  default: {primary: big}
guard: {confidence_floor: 0.8}
"""
PRICES = (0.40, 0.10, 0.02)
TRUTH = {"code": (0.5, 0.8, 0.2), "prose": (0.7, 0.3, 0.2)}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "routing.jsonl"
    made_log(6_000, truth=TRUTH, prices=PRICES, epsilon=0.5).write(path)
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.yaml").write_text(TABLE + "objective: {max_points_worse: 2}\n")
    return tmp_path


def test_a_margin_goes_from_the_table_to_the_record(data, folder, monkeypatch, capsys):
    assert main(["rl", "train-dr", "--data", str(data), "--out", "p"]) == 0
    assert "a dollar counts as" in capsys.readouterr().out
    assert main(["rl", "eval-offline", "--data", str(data), "--checkpoint", "p", "--out", "r.json"]) == 0
    said = capsys.readouterr().out
    assert "objective: at most 2.0 points worse in quality, as cheap as possible" in said
    assert "cost per task, USD: 0." in said
    assert main(["rl", "gate", "--data", str(data), "--checkpoint", "p", "--interval", "fixed-n"]) == 0
    assert capsys.readouterr().out.startswith("promote: quality +0.")
    assert json.loads((folder / "p.gate.json").read_text())["objective"].startswith("at most 2.0 points worse")
    monkeypatch.setenv("SAGE_RL_POLICY", "1")
    monkeypatch.setenv("SAGE_RL_CHECKPOINT", "p")
    assert main(["doctor"]) == 0
    assert "objective: at most 2.0 points worse" in capsys.readouterr().out
    (folder / "models.yaml").write_text(TABLE)
    assert main(["doctor"]) == 1
    assert "and the table has 'reward_v1'" in capsys.readouterr().out
    assert main(["rl", "gate", "--data", str(data), "--checkpoint", "p"]) == 2
    assert "the policy was learned for at most 2.0 points worse" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train-bc", "train-cql"])
def test_networks_learn_for_weights_alone(data, folder, capsys, command):
    assert main(["rl", command, "--data", str(data), "--out", "p"]) == 2
    assert (
        f"the learner {command[-3:].lstrip('-')} learns for weights, and the objective is 'at most 2.0"
        in capsys.readouterr().err
    )
    assert not (folder / "p").exists()


def test_weights_are_learned_and_judged_with(data, folder, capsys):
    (folder / "models.yaml").write_text(TABLE + "objective: {weights: {cost: 3}}\n")
    assert main(["rl", "train-table", "--data", str(data), "--out", "p", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reward"] == "reward_v1 with cost=3.0-without-latency"
    assert main(["rl", "gate", "--data", str(data), "--checkpoint", "p", "--interval", "fixed-n"]) == 0


@pytest.mark.parametrize("name", ["f.html", "f.json"])
def test_the_frontier_is_written_as_its_suffix_says(folder, capsys, name):
    made_log(300, truth=TRUTH, prices=PRICES, epsilon=0.5).write("few.jsonl")
    assert main(["rl", "frontier", "--data", "few.jsonl", "--out", name]) == 0
    said = capsys.readouterr().out
    assert "always mid" in said
    assert f"wrote {name}" in said
    start = {"f.html": "<!doctype html>", "f.json": "{"}[name]
    assert (folder / name).read_text().startswith(start)


def test_a_frontier_of_one_tenant_has_its_rows_alone(folder, capsys):
    log = made_log(400, truth=TRUTH, prices=PRICES, epsilon=0.5)
    replace(log, tenant=np.array(["acme", "beta"])[np.arange(400) % 4 // 2]).write("both.jsonl")
    assert main(["rl", "frontier", "--data", "both.jsonl", "--tenant", "acme"]) == 0
    said = capsys.readouterr().out
    assert "200 replay rows of 200 tasks" in said
    assert "rows of tenant acme alone (200 rows of other tenants, left out)" in said


def test_a_frontier_that_cannot_be_drawn(data, folder, capsys):
    assert main(["rl", "frontier", "--data", str(data), "--out", "f.png"]) == 2
    assert "out='f.png' must end with .html, .svg, .json" in capsys.readouterr().err
    made_log(500).write(folder / "free.jsonl")
    assert main(["rl", "frontier", "--data", "free.jsonl"]) == 2
    assert "no row has both a quality and a cost" in capsys.readouterr().err
