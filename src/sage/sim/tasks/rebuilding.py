"""Rebuilding of tasks from recipes, and from the rows of a manifest, which name the recipe and the hash of the
files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from sage.grading.task import Task, is_editable
from sage.sim.tasks.recipes import Step, broken_files
from sage.sim.tasks.sources import Sources, tree_hash
from sage.sim.tasks.suites import Prepared, Suite


class RebuildError(ValueError):
    """A row that this machine cannot rebuild; `reason` is a code that reports count."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def task_id(recipe: Mapping, source_sha256: str, seed: int) -> str:
    """Returns the id of a task, which depends on its recipe, source and seed only."""
    return hashlib.sha256(f"{canonical(recipe)} {source_sha256} {seed}".encode()).hexdigest()[:24]


def canonical(values: Mapping) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def make_task(
    prepared: Prepared, suite: Suite, steps: Sequence[Step], *, row: Mapping | None = None, seed: int = 0
) -> Task:
    """Returns the task of a recipe; `row` has what is known about it (family, level, split, instruction)."""
    row = row or {}
    source = prepared.source
    broken = broken_files(source, steps)
    start = prepared.agent_tree(suite.tests) | broken
    kept = {
        path: content
        for path, content in prepared.others.items()
        if not is_editable(source.editable, path, source.test_roots)
    }
    return Task(
        id=task_id({"source": source.name, "module": suite.module, "steps": list(steps)}, prepared.sha256, seed),
        family=row.get("family", ""),
        level=row.get("level", 0),
        split=row.get("split", ""),
        instruction=row.get("instruction", ""),
        files=start,
        editable=source.editable,
        test_roots=source.test_roots,
        tests=suite.tests,
        visible=suite.visible,
        hidden=suite.hidden,
        graded=kept | {path: prepared.graded[path] for path in suite.tests},
        oracle={path: source.files[path] for path in broken},
        seconds=suite.seconds,
    )


class Rebuilder:
    """Maker of tasks from the rows of a manifest."""

    def __init__(self, sources: Sources, suites: Mapping[str, Suite]) -> None:
        self.sources = sources
        self.suites = suites
        self.prepared: dict[str, Prepared] = {}

    def materialise(self, row: Mapping) -> Task:
        """Returns the task of a row of the manifest; raises RebuildError if its source is missing, or if this machine
        gets other files."""
        suite = self.suites.get(row["suite"])
        if suite is None:
            raise RebuildError("no_suite", f"the manifest has no suite {row['suite']!r}: is it complete?")
        if suite.source not in self.prepared:
            try:
                self.prepared[suite.source] = Prepared(self.sources.get(suite.source))
            except ValueError as error:
                raise RebuildError("no_source", str(error)) from error
        prepared = self.prepared[suite.source]
        if prepared.sha256 != suite.source_sha256:
            raise RebuildError("other_source", f"{suite.source} has other files here than when the task was made")
        try:
            task = make_task(prepared, suite, row["steps"], row=row, seed=row["seed"])
        except (ValueError, KeyError, IndexError) as error:
            raise RebuildError("other_edit", f"the recipe of task {row['id']} does not fit: {error}") from error
        if task.id != row["id"] or tree_hash(task.files) != row["files_sha256"]:
            raise RebuildError(
                "other_files", f"task {row['id']} is rebuilt with other files: it was made by another version"
            )
        return task
