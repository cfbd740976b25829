"""The commands about data, benches and reports, as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sage.cli import main
from sage.evidence.routing_data import RoutingData
from sage.outcomes.synthetic import synthetic_table
from sage.outcomes.table import OutcomeTable
from tests import needs

CSV = "task_id,model,score,category,cost_usd\n" + "".join(
    f"t{i},{model},{int((i + k) % 3 > 0)},c{i % 2},{0.01 * 10**k}\n"
    for i in range(40)
    for k, model in enumerate(("a", "b"))
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> None:
    assert main(list(words)) == 0


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 2
    return capsys.readouterr().err


def test_import_replay_export_analyze_and_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs.import_package("pyarrow")
    (folder / "team.csv").write_text(CSV)
    run("data", "import", "csv", "team.csv")
    run("data", "info", "datasets/csv.parquet", "--json")
    about = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (about["tasks"], about["data_source"], sorted(about["models"])) == (40, "real", ["a", "b"])
    run("rl", "replay", "--outcomes", "datasets/csv.parquet", "--policy", "epsilon:0.2", "--rows", "300")
    run("rl", "export", "--output", "datasets/rows.jsonl")
    data = RoutingData.read("datasets/rows.jsonl")
    assert (len(data), data.source, data.propensity.min()) == (300, "replay", pytest.approx(0.1))
    run("rl", "analyze-rewards", "--data", "datasets/rows.jsonl", "--out", "rewards.json")
    assert json.loads((folder / "rewards.json").read_text())["evidence"] is True
    run("report", "--out", "report.html")
    assert "replay" in (folder / "report.html").read_text()


def test_the_same_replay_gives_the_same_file_and_is_logged_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic_table(50, seed=0).save(folder / "t.npz")
    words = ("rl", "replay", "--outcomes", "t.npz", "--rows", "50")
    for name in ("a.jsonl", "b.jsonl"):
        run(*words, "--output", name)
    assert (folder / "a.jsonl").read_bytes() == (folder / "b.jsonl").read_bytes()
    run(*words)
    assert "give another --seed" in refused(capsys, *words)


def test_synthetic_rows_use_the_models_of_the_folder(folder: Path) -> None:
    run("init")
    run("rl", "collect-synth", "--rows", "100")
    run("rl", "export", "--output", "rows.jsonl")
    data = RoutingData.read("rows.jsonl")
    from sage.orchestrator.static_table import StaticTable

    assert set(data.models) == set(StaticTable.read("models.yaml").models)
    assert data.source == "synthetic"


def test_bench_pack_and_verify(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic_table(200, roles=("coder",), seed=0).save(folder / "t.npz")
    (folder / "suite.yaml").write_text("name: s\ntable: t.npz\nstatic: medium\nseeds: [0, 1]\n")
    run("bench", "--suite", "suite.yaml", "--out", "bench.json", "--run-pack-dir", "pack")
    assert "SYNTHETIC" in capsys.readouterr().out
    rows = json.loads((folder / "bench.json").read_text())["baselines"]
    assert {"random", "static", "UCB1", "always small", "oracle (optimistic)", "logistic regression"} <= set(rows)
    run("bench", "verify", "pack")
    OutcomeTable.open("t.npz").with_models(("large", "medium")).save("t.npz")
    assert main(["bench", "verify", "pack"]) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("rl", "export", "--output", "x.jsonl"), "no such log"),
        (("rl", "replay", "--outcomes", "none.npz"), "no such file"),
        (("rl", "replay", "--outcomes", "t.npz", "--policy", "greedy"), "policy='greedy' is not known"),
        (("rl", "replay", "--outcomes", "t.npz", "--rows", "0"), "rows=0 must be 1 or more"),
        (("rl", "collect-synth", "--rows", "-5"), "rows=-5 must be 1 or more"),
        (("rl", "analyze-rewards", "--data", "none.jsonl", "--out", "x"), "no such file"),
        (("bench", "verify"), "give the run pack"),
        (("bench", "verify", "t"), "not a run pack"),
        (("bench", "--suite", "none.yaml"), "no such suite"),
        (("bench", "--checkpoint", "c"), "--checkpoint is for --compare-policy"),
        (("report", "--out", "r.html"), "no such log"),
        (("data", "import", "csv", "none.csv"), "no such file"),
    ],
)
def test_mistakes_get_a_sentence(folder: Path, capsys: pytest.CaptureFixture[str], words: tuple, message: str) -> None:
    synthetic_table(20, seed=0).save(folder / "t.npz")
    assert message in refused(capsys, *words)
    assert not (folder / "sage.db").exists()


def test_times_are_seconds_or_dates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sage.cli.values import seconds

    assert seconds("12.5") == 12.5
    assert seconds("1970-01-02") == 86400.0
    assert seconds("1970-01-01T01:00:00+01:00") == 0.0
    with pytest.raises(SystemExit):
        main(["rl", "export", "--output", "x", "--since", "yesterday"])


def test_data_commands_do_not_load_torch(folder: Path) -> None:
    synthetic_table(20, seed=0).save(folder / "t.npz")
    code = "import sys; from sage.cli import main; main(['rl', 'replay', '--outcomes', 't.npz', '--rows', '9']); "
    code += "main(['rl', 'export', '--output', 'x.jsonl']); main(['report', '--out', 'r.html']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=folder, check=False, capture_output=True).returncode == 0


def test_a_policy_goes_from_log_to_bench_and_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`bench --compare-policy --checkpoint` and `report --evaluation`, as typed."""
    synthetic_table(300, roles=("coder",), seed=0).save(folder / "t.npz")
    (folder / "suite.yaml").write_text("name: s\ntable: t.npz\nstatic: medium\nseeds: [0, 1]\n")
    run("rl", "replay", "--outcomes", "t.npz", "--policy", "epsilon:0.5", "--rows", "3000")
    run("rl", "export", "--output", "rows.jsonl")
    run("rl", "train-dr", "--data", "rows.jsonl", "--out", "policy.safetensors")
    run("rl", "eval-offline", "--data", "rows.jsonl", "--checkpoint", "policy.safetensors", "--out", "evaluation.json")
    compare = ("bench", "--suite", "suite.yaml", "--compare-policy", "--checkpoint", "policy.safetensors")
    run(*compare, "--out", "bench.json", "--run-pack-dir", "pack")
    found = json.loads((folder / "bench.json").read_text())
    assert found["comparison"]["policy"] == "doubly_robust"
    assert found["evidence"] is False
    run("bench", "verify", "pack")
    run("report", "--out", "report.html", "--evaluation", "evaluation.json")
    page, value = (folder / "report.html").read_text(), json.loads((folder / "evaluation.json").read_text())
    assert "Synthetic data." in page
    assert value["policy_version"] in page
    assert f"{value['num_rows']:,}" in page
