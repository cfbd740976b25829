"""Cascades on the command line: learned, judged, and set beside the static table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cascade_replay import replay_cascade

from sage.cli.main import main
from sage.evidence.objective import weighted
from sage.policies.cascades.cascade_ladder import ExploringCascade, LadderCascade
from sage.proof.gate_record import why_not_promoted
from sage.rl.cascades.simulated_verifier import SimulatedVerifier
from tests.sage.evidence.cascades.test_cascade_data import small_table


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A log in which the dear model alone was the usual way."""
    logger = ExploringCascade(LadderCascade(("c",)), 0.4)
    data = replay_cascade(small_table(400), logger, 6_000, verifier=SimulatedVerifier(), seed=0)
    data.write(path := tmp_path_factory.mktemp("log") / "episodes.jsonl")
    return path


@pytest.fixture
def episodes(tmp_path, monkeypatch, written):
    monkeypatch.chdir(tmp_path)
    Path("episodes.jsonl").write_bytes(written.read_bytes())
    return "episodes.jsonl"


def train(*more: str) -> int:
    words = ["rl", "train-cascade", "--data", "episodes.jsonl", "--out", "c.safetensors", "--learner", "fitted-q"]
    return main([*words, "--holdout", "0.5", *more])


def test_a_cascade_is_learned_proved_and_compared(episodes, capsys):
    assert train("--price", "0.6", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["policy"] == "fitted_q"
    assert told["price"] == 0.6
    assert main(["rl", "eval-offline", "--data", episodes, "--checkpoint", "c.safetensors", "--out", "e.json"]) == 0
    assert "sequential DR" in capsys.readouterr().out
    assert main(["rl", "gate", "--data", episodes, "--checkpoint", "c.safetensors", "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["promote"]
    assert verdict["report"]["parts"]["cost_usd"]["high"] < 0
    assert why_not_promoted(Path("c.safetensors"), 0.0, weighted(cost=0.6)) == ""
    suite = "name: small\ntable: table.npz\nstatic: c\nseeds: [0]\n"
    Path("suite.yaml").write_text(suite, encoding="utf-8")
    small_table(100, seed=7, prefix="other").save("table.npz")
    words = ["bench", "--suite", "suite.yaml", "--compare-policy", "--checkpoint", "c.safetensors", "--out", "b.json"]
    assert main(words) == 0
    compared = json.loads(Path("b.json").read_text(encoding="utf-8"))["comparison"]
    assert compared["policy"] == "fitted_q"
    assert compared["splits"][0]["cost_usd"] < compared["splits"][0]["cost_usd_static"]
    assert compared["difference"] > 0


def test_a_cascade_that_is_not_better_is_refused(episodes, capsys):
    """Where money plays no part, nothing beats the model that solves whatever the others do."""
    assert train("--price", "0") == 0
    assert main(["rl", "gate", "--data", episodes, "--checkpoint", "c.safetensors"]) == 3
    assert "refuse" in capsys.readouterr().out
    assert main(["rl", "gate", "--data", episodes, "--checkpoint", "c.safetensors", "--floor", "0.5"]) == 2
    assert "a cascade has no confidence" in capsys.readouterr().err


def write_limit(usd: float = 0.25) -> None:
    models = "".join(f"  {name}: {{input_usd_per_mtok: 1, output_usd_per_mtok: 1}}\n" for name in "abc")
    limit = f"roles: {{default: {{primary: c}}}}\nobjective: {{max_usd_per_task: {usd}}}\n"
    Path("models.yaml").write_text(f"models:\n{models}{limit}", encoding="utf-8")


def test_dqn_is_not_learned_for_every_price_of_a_limit(episodes, capsys):
    write_limit()
    assert train("--learner", "dqn") == 2
    assert "give --price, or fitted-q" in capsys.readouterr().err


def test_a_budget_below_the_cheapest_call_is_told(episodes, capsys):
    write_limit(0.01)
    assert train("--holdout", "0.9") == 0
    assert "no cascade keeps to the limit (the cheapest may cost 0." in capsys.readouterr().out


@pytest.mark.slow
def test_an_objective_with_a_limit_chooses_the_price(episodes, capsys):
    write_limit()
    assert train("--json") == 0
    cheap = json.loads(capsys.readouterr().out)
    assert (
        max(cheap["price"], cheap["other_price"] or 0.0) > 0.4
    )  # at a fifth of what the dear model costs, cheap ones must do
    assert main(["rl", "gate", "--data", episodes, "--checkpoint", "c.safetensors", "--json"]) in (0, 3)
    verdict = json.loads(capsys.readouterr().out)
    assert "USD per task" in verdict["reason"]
    assert verdict["report"]["parts"]["usd_per_task"]["value"] < 0.25


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--price", "-1"], "price=-1.0 must be a finite number"),
        (["--holdout", "1"], "holdout=1.0 must lie between 0 and 1"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(episodes, tmp_path, capsys, words, sentence):
    assert train(*words) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "c.safetensors").exists()


def test_an_export_of_single_decisions_is_told_from_one_of_cascades(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["rl", "collect-synth", "--rows", "20"]) == 0
    assert main(["rl", "export", "--output", "episodes.jsonl"]) == 0
    assert train() == 2
    assert "line 1: a decision and no episode of a cascade: export with --cascades" in capsys.readouterr().err
