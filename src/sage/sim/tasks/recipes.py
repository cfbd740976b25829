"""Recipes of bugs, which manifests store: operators and places, without code. The source and the hash of the result do
the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from sage.sim.tasks.mutations import Edit, apply_all, edits
from sage.sim.tasks.omission import omissions
from sage.sim.tasks.sources import Source, UnknownSourceError

Step = Mapping[str, str | int]


@lru_cache(maxsize=256)
def all_edits(source: str) -> tuple[Edit, ...]:
    """Returns the mutations and omissions of a source."""
    return (*edits(source), *omissions(source))


def step_of(path: str, source: str, edit: Edit) -> dict[str, str | int]:
    """Returns an edit of a source without its text: its operator, its place, and its number among the edits of that
    operator there."""
    same = [other for other in all_edits(source) if (other.operator, other.start) == (edit.operator, edit.start)]
    return {"path": path, "operator": edit.operator, "start": edit.start, "choice": same.index(edit)}


def edit_of(source: str, step: Step) -> Edit:
    """Returns the edit that a step means; raises UnknownSourceError if the source has no such edit."""
    same = [edit for edit in all_edits(source) if (edit.operator, edit.start) == (step["operator"], step["start"])]
    choice = int(step["choice"])
    if choice >= len(same):
        raise UnknownSourceError(
            f"the source has no edit {step['operator']} at byte {step['start']}: it is another version"
        )
    return same[choice]


def broken_files(source: Source, steps: Sequence[Step]) -> dict[str, bytes]:
    """Returns the content, by path, of the source's files that a recipe (its steps) changes, after the change."""
    changed: dict[str, bytes] = {}
    for path in dict.fromkeys(str(step["path"]) for step in steps):
        here = [step for step in steps if step["path"] == path]
        if "fault" in here[0]:
            fault = source.faults[int(here[0]["fault"])]
            changed[path] = fault.changes[path]
        else:
            text = source.files[path].decode()
            changed[path] = apply_all(text, [edit_of(text, step) for step in here]).encode()
    return changed
