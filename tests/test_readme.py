"""The README can be followed from top to bottom in an empty folder: all of it slowly, what it reads and makes at once."""

import ast
import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from rl_training.config import list_presets
from sage.cli import main
from tests.forked import run_script

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "run_readme.py"
MAKING_FLAGS = ("--run-dir", "--out", "--output")
MADE_UNNAMED = {"sage init": "models.yaml", "sage log route": "sage.db"}
PATH = re.compile(r"[\w.-]+/[\w./-]+|[\w-]+\.(yaml|json|jsonl|npz|parquet|safetensors|db|html)")


def script():
    spec = importlib.util.spec_from_file_location("run_readme", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of_command(line: str) -> tuple[set[str], set[str]]:
    """The files and runs that a command reads, and those that it makes."""
    words = shlex.split(line, comments=True)
    made = {word for before, word in pairwise(words) if before in (*MAKING_FLAGS, ">")}
    made |= {name for command, name in MADE_UNNAMED.items() if line.startswith(command)}
    if words[1:3] == ["presets", "copy"]:
        made.add(words[4])
    parts = {part for word in words for part in word.split("=")}
    return {part for part in parts if PATH.fullmatch(part)} - made - set(list_presets()), made


def of_python(code: str) -> tuple[set[str], set[str]]:
    """The files that Python reads with `load` and `open`, and those that it makes with `save`."""
    read, made = set(), set()
    for call in (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("load", "open", "save"):
            values = [*call.args, *(keyword.value for keyword in call.keywords)]
            names = {value.value for value in values if isinstance(value, ast.Constant)}
            (made if call.func.attr == "save" else read).update(names)
    return read, made


def missing(blocks: Sequence) -> list[str]:
    """What is read before anything made it, with the line that reads it."""
    there: set[str] = set()
    found = []
    for block in blocks:
        steps = [block.code] if block.language == "python" else block.code.splitlines()
        for step in steps:
            read, made = (of_python if block.language == "python" else of_command)(step)
            found += [f"{name}: {step}" for name in sorted(read - there)]
            there |= made
    return found


def test_every_file_that_the_readme_reads_was_made_before() -> None:
    blocks = script().blocks(ROOT / "README.md")
    assert {block.language for block in blocks} == {"bash", "python"}
    assert missing(blocks) == []


@pytest.mark.parametrize(
    ("language", "code", "name"),
    [
        ("bash", "rl-training eval runs/x\nrl-training train ppo/cartpole --run-dir runs/x", "runs/x"),
        ("bash", "rl-training train my.yaml", "my.yaml"),
        ("bash", "rl-training data make --env CartPole-v1 --policy runs/sac=0.5 --steps 9 --out a.npz", "runs/sac"),
        ("bash", "rl-training train bc/cartpole --set data.path=a.npz", "a.npz"),
        ("python", "agent = rl_training.load('model')", "model"),
        ("python", "router = Router.open('sage.db', models='models.yaml')", "models.yaml"),
    ],
)
def test_a_file_that_nothing_made_is_found(language: str, code: str, name: str) -> None:
    assert missing([script().Block(language, code, 1)])[0].startswith(name)


def test_its_python_blocks_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0  # makes models.yaml, as a command of the README does before it is read
    blocks = [block.code for block in script().blocks(ROOT / "README.md") if block.language == "python"]
    (tmp_path / "blocks.py").write_text("\n".join(blocks))
    done = run_script(tmp_path / "blocks.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_readme_runs_from_top_to_bottom_in_an_empty_folder(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "new"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_block_that_fails_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "text\n\n```bash\necho fine > a.txt\n```\n\n```python\nprint(1)\n```\n\n```bash\nfalse\necho no\n```\n"
    )
    assert not script().run(page, tmp_path)
    told = capsys.readouterr().out
    assert "ok page.md:4 (bash" in told
    assert "FAILED page.md:12 (bash" in told
    assert (tmp_path / "a.txt").read_text() == "fine\n"
