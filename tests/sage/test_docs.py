"""The pages about sage say what the code does: commands parse, examples run, claims hold on the committed results."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from html import escape
from pathlib import Path

import pytest

from sage.cli import main
from sage.cli.main import build_parser
from sage.log.records import ROLES
from sage.orchestrator.models_file import ModelsFile
from sage.report.frontier_page import render_svg
from tests.sage.examples import TABLE

ROOT = Path(__file__).parent.parent.parent
CHECK = ROOT / "scripts" / "check_claims.py"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "sage").glob("*.md")))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def documented_commands() -> Iterator[str]:
    for page in PAGES:
        for block in blocks(page, "bash"):
            yield from (line for line in block.splitlines() if line.startswith("sage "))
    for name in ("demo_sage.sh", "demo_serve.sh"):
        demo = (ROOT / "scripts" / name).read_text().replace("\\\n", " ")
        yield from (
            line.removeprefix("run ") for line in demo.splitlines() if line.startswith("run sage ") and "$" not in line
        )


@pytest.mark.parametrize("command", sorted(set(documented_commands())))
def test_documented_commands_parse(command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    options = build_parser(words).parse_args(words[: words.index("||")] if "||" in words else words)
    assert callable(options.func)  # a command without a handler would parse, too


def test_the_recording_shows_the_demo_as_it_is() -> None:
    demo = (ROOT / "scripts" / "demo_sage.sh").read_text()
    shown = (ROOT / "docs" / "sage" / "demo.svg").read_text()
    commands = re.findall(r"^(?:run|refused|quietly) (sage [^$\n]*)$", demo, re.MULTILINE)
    assert len(commands) > 10
    assert [command for command in commands if f">$ {escape(command, quote=False)}<" not in shown] == []
    assert "SYNTHETIC data, nobody ran the routed models" in shown
    assert len(shown) < 1_000_000


def test_the_picture_of_the_frontier_is_drawn_from_the_stored_numbers() -> None:
    stored = json.loads((ROOT / "benchmarks" / "sage" / "results" / "frontier.json").read_text())
    assert (ROOT / "docs" / "sage" / "frontier.svg").read_text() == render_svg(stored) + "\n"


def test_the_quickstart_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    code = "\n".join(blocks(ROOT / "docs" / "sage" / "index.md", "python"))
    assert "router.outcome(" in code
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_log_is_trained_on_and_judged_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    assert main(["rl", "collect-synth", "--rows", "600", "--epsilon", "0.3"]) == 0
    code = "\n".join(blocks(ROOT / "docs" / "sage" / "prove.md", "python"))
    assert all(f"sage.{call}(" in code for call in ("train", "evaluate", "gate"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    trained, *_, promote, reason, _ = done.stdout.splitlines()
    assert trained.startswith("memory/rl/policy_dr.safetensors: doubly_robust ")
    assert (promote, reason.split(":")[0]) == ("False", "the log is made of synthetic rows")
    with closing(sqlite3.connect("sage.db")) as log:
        assert log.execute("SELECT count(*) FROM looks").fetchone() == (1,)


def test_the_frontier_of_the_page_about_objectives_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["rl", "collect-synth", "--rows", "400", "--epsilon", "0.3"]) == 0
    assert main(["rl", "export", "--output", "datasets/routing_v1.jsonl"]) == 0
    page = ROOT / "docs" / "sage" / "objectives.md"
    code = "\n".join(blocks(page, "python"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "at most 1.0 points worse" in done.stdout, done.stderr
    names = [ModelsFile.parse(TABLE + block).objective.name for block in blocks(page, "yaml")]
    assert [name.split()[0] for name in names] == ["reward_v1", "at", "best"]


def test_shadows_of_the_page_about_exploration_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(ROOT / "docs" / "sage" / "exploration.md", "python"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    asked = re.match(r"(\d+) of 200 decisions had a shadow", done.stdout)
    assert asked, done.stderr
    assert 8 <= int(asked[1]) <= 36  # .1 of them
    assert main(["rl", "export", "--output", "rows.jsonl"]) == 0
    assert Path("rows.jsonl").read_text().count('"shadow": {') == int(asked[1])


def test_a_cascade_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    page = ROOT / "docs" / "sage" / "cascades.md"
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks(page, "python"))], capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith(" def add(a, b):\n    return a + b\n\n"), done.stderr
    Path("checks").mkdir()
    Path("checks/test_add.py").write_text("def test_add(): pass")
    for text in blocks(page, "yaml"):
        Path("models.yaml").write_text(Path("models.yaml").read_text().split("cascade:")[0] + text)
        assert set(ModelsFile.read("models.yaml").cascade) == set(ROLES)


def test_the_log_of_the_page_about_learned_cascades_can_be_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(ROOT / "docs" / "sage" / "learned_cascades.md", "python")).replace(
        "range(300)", "range(60)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert main(["rl", "export", "--cascades", "--output", "cascades.jsonl"]) == 0
    learn = ["rl", "train-cascade", "--data", "cascades.jsonl", "--out", "policy", "--price", "0.2"]
    assert main([*learn, "--learner", "fitted-q"]) == 0
    assert "from 36 real episodes of 36 tasks" in capsys.readouterr().out


def claims(*options: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, CHECK, *options], capture_output=True, text=True, check=False)


def test_committed_results_hold_and_the_page_lists_every_claim() -> None:
    done = claims()
    assert done.returncode == 0, done.stdout
    said = (ROOT / "docs" / "verification_matrix.md").read_text()
    for line in done.stdout.splitlines()[:-1]:
        assert re.sub(r": [^:]*(\(must|no result).*", "", line[8:]) in said
    assert re.search(r"^[6-9][0-9] hold, 0 fail", done.stdout, flags=re.MULTILINE)


def test_a_result_that_is_not_good_enough_fails(tmp_path: Path) -> None:
    results = ROOT / "benchmarks" / "sage" / "results" / "log_throughput.json"
    slow = re.sub(r'("decisions_per_second": )[\d.]+', r"\g<1>1999.0", results.read_text())
    (tmp_path / "log_throughput.json").write_text(slow)
    done = claims("--results", str(tmp_path))
    assert done.returncode == 1
    assert "FAILS   log: decisions a second from 4 processes: 1999 (must >= 2000; measured now)" in done.stdout


def test_tables_in_the_guides_equal_the_results() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "sage" / "render_docs.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
