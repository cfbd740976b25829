"""Generation: what it writes can be rebuilt, repaired and not cheated; a killed one goes on to the same manifest."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sage.sandbox import Backend, Command, Files, Limits, Result
from sage.sim.tasks.audit import audit
from sage.sim.tasks.generate import GenerateError, generate, groups_of
from sage.sim.tasks.manifest import Manifest
from sage.sim.tasks.rebuilding import Rebuilder, RebuildError
from sage.sim.tasks.sources import Sources
from tests.sage.sandbox.fixtures import CACHE

COUNT = 2


class Killed(Exception):  # noqa: N818
    """What ends a generation in the middle."""


class Mortal:
    """A backend that ends the generation after some runs."""

    name = "zygote"

    def __init__(self, backend: Backend, runs: int) -> None:
        self.backend = backend
        self.left = runs

    def run(self, files: Files, command: Command, limits: Limits) -> Result:
        self.left -= 1
        if self.left < 0:
            raise Killed
        return self.backend.run(files, command, limits)

    def close(self) -> None: ...


def made(backend: Backend, folder: Path) -> Manifest:
    sources = Sources(folder, indexes=[])
    return generate(
        COUNT, seed=1, backends=[backend], sources=sources, journal=folder / "partial", chosen="intervals,toolz"
    )


@pytest.fixture(scope="module")
def manifest(zygote: Backend, tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return made(zygote, tmp_path_factory.mktemp("whole"))


def test_tasks_are_sound(zygote: Backend, manifest: Manifest, tmp_path: Path) -> None:
    assert len(manifest.rows) == len({row["id"] for row in manifest.rows}) == COUNT
    assert "are you offline" in manifest.header["skipped_sources"]["toolz"]
    found = audit(manifest, backends=[zygote], sources=Sources(tmp_path, indexes=[]))
    assert found == {
        "tasks": COUNT,
        "oracle_solved_twice": COUNT,
        "noop_solved": 0,
        "deletion_solved": 0,
        "repetitions_agree": COUNT,
        "skipped": {},
    }


def test_a_killed_generation_goes_on_to_the_same_tasks(zygote: Backend, manifest: Manifest, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        made(Mortal(zygote, runs=14), tmp_path)
    counted = Mortal(zygote, runs=10_000)
    again = made(counted, tmp_path)
    assert [row["id"] for row in again.rows] == [row["id"] for row in manifest.rows]
    assert 10_000 - counted.left < again.header["runs"]
    assert not (tmp_path / "partial").exists()


def test_what_is_not_the_same_here_is_refused_with_a_reason(manifest: Manifest, tmp_path: Path) -> None:
    sources, row = Sources(tmp_path, indexes=[]), manifest.rows[0]
    suite = manifest.suites[row["suite"]]
    changed = {
        "no_suite": ({}, row),
        "no_source": ({row["suite"]: replace(suite, source="toolz")}, row),
        "other_source": ({row["suite"]: replace(suite, source_sha256="0")}, row),
        "other_edit": (manifest.suites, row | {"steps": [row["steps"][0] | {"choice": 99}]}),
        "other_files": (manifest.suites, row | {"files_sha256": "0"}),
    }
    for reason, (suites, given) in changed.items():
        with pytest.raises(RebuildError) as error:
            Rebuilder(sources, suites).materialise(given)
        assert error.value.reason == reason


def test_a_row_has_no_code_and_does_not_tell(manifest: Manifest, tmp_path: Path) -> None:
    for row in manifest.rows:
        assert all(set(step) == {"path", "operator", "start", "choice"} for step in row["steps"])
        assert row["instruction"].startswith(f"{row['features']['visible_failing']} of ")
        assert row["split"] in ("train", "val", "test_iid", "test_op")


def test_unknown_sources_and_counts_are_refused(tmp_path: Path) -> None:
    assert groups_of("toolz,intervals") == ["toolz", "intervals"]
    with pytest.raises(GenerateError, match="'poems' is not known"):
        groups_of("toolz,poems")
    with pytest.raises(GenerateError, match="count=0"):
        generate(0, seed=1, backends=[], sources=Sources(tmp_path), journal=tmp_path / "partial")


def test_the_example_of_the_page_runs(zygote: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAGE_CACHE_DIR", str(CACHE))
    page = Path(__file__).parents[4] / "docs" / "sage" / "simulate.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    (code,) = [block for block in blocks if "generate(" in block]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("as it is: tests\nrepaired: True\n"), done.stderr
