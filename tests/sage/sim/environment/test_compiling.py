"""A manifest becomes a file of tables, which `sage sim compile` says and executes again."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from sage.cli import main
from sage.grading.task import Task
from sage.sandbox import Backend
from sage.settings import CACHE
from sage.sim.environment import compiling, packed
from sage.sim.environment.compiling import Compilation, CompiledManifest, compile_manifest
from sage.sim.environment.equality import Disagreement, Transition
from sage.sim.environment.tables import Table
from sage.sim.tasks.manifest import Manifest
from sage.sim.tasks.rebuilding import Rebuilder, RebuildError
from tests.sage.sim.environment.small_task import TASK


@pytest.fixture
def manifest(zygote: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tasks, the second of which cannot be made again, with a sandbox and a cache of the tests."""

    def materialise(self: Rebuilder, row: Mapping) -> Task:
        if row["id"] == "gone":
            raise RebuildError("changed", "the source changed")
        return replace(TASK, id=row["id"])

    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    monkeypatch.setattr(Rebuilder, "materialise", materialise)
    monkeypatch.setattr(compiling, "open_backends", lambda workers: nullcontext([zygote]))
    monkeypatch.setattr(Manifest, "open", lambda path: Manifest({}, {}, [{"id": "small"}, {"id": "gone"}]))
    return tmp_path / "tasks.jsonl"


def test_a_manifest_is_compiled_and_executed_again(manifest: Path, tmp_path: Path, table: Table) -> None:
    moves: list[tuple[int, int]] = []
    out = tmp_path / "tables.npz"
    made = compile_manifest(manifest, out, verify=4, progress=lambda done, total: moves.append((done, total)))
    (found,) = packed.load(out)
    assert (found.id, len(found.nodes)) == ("small", len(table.nodes))
    assert (made.found.skipped, moves, made.wrong) == ({"gone": "changed"}, [(1, 1)], [])
    assert str(made).splitlines() == [
        f"{out}: 1 tasks, of which trials can solve 1; 1 skipped",
        "  1 skipped: changed",
        "executed again: 4 transitions, 2 after an edit; 0 differ from the tables",
    ]


def test_the_command_prints_what_was_compiled(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tables.npz"
    assert main(["sim", "compile", "--tasks", str(manifest), "--out", str(out), "--limit", "1"]) == 0
    assert capsys.readouterr().out == f"{out}: 1 tasks, of which trials can solve 1; 0 skipped\n"


def test_a_difference_is_shown(table: Table) -> None:
    one = Transition(0, 0, (0, 0, 0))
    wrong = [Disagreement(one, "solved", "broken")] * 12
    made = CompiledManifest(Path("t.npz"), Compilation([table], {}), [one] * 12, wrong)
    lines = str(made).splitlines()
    assert lines[1] == "executed again: 12 transitions, 0 after an edit; 12 differ from the tables"
    assert lines[2:] == [f"  {table.id}: solved; executed: broken"] * 10
