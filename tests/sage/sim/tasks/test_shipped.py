"""The tasks that come with the package: enough of them, different, split, without code of others, and sound."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sage.sandbox import Backend
from sage.sim.tasks.acceptance import REASONS
from sage.sim.tasks.audit import audit
from sage.sim.tasks.families import FAMILIES
from sage.sim.tasks.manifest import Manifest
from sage.sim.tasks.sdists import SDISTS
from sage.sim.tasks.sources import Sources
from sage.sim.tasks.splits import SPLITS, split_of


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return Manifest.shipped()


def test_there_are_enough_and_they_differ(manifest: Manifest) -> None:
    rows = manifest.rows
    assert len({row["id"] for row in rows}) == len({row["broken_sha256"] for row in rows}) == len(rows) >= 1000
    assert len({row["shape"] for row in rows}) >= 300
    assert max(Counter(row["package"] for row in rows).values()) <= 0.03 * len(rows) + 1
    assert len({step["operator"] for row in rows for step in row["steps"]}) >= 20
    assert {row["level"] for row in rows} == {1, 2, 3, 4}


def test_splits_are_what_the_rules_say(manifest: Manifest) -> None:
    assert {row["split"] for row in manifest.rows} == set(SPLITS)
    assert all(row["split"] == split_of(row) for row in manifest.rows)


def test_everything_can_be_rebuilt_from_what_is_pinned(manifest: Manifest) -> None:
    for row in manifest.rows:
        assert row["package"] in SDISTS or row["package"] in FAMILIES
        assert all(set(step) <= {"path", "operator", "start", "choice", "fault"} for step in row["steps"])
    assert set(manifest.header["refused"]) <= set(REASONS)


def test_a_sample_of_those_that_need_no_network_is_sound(zygote: Backend, manifest: Manifest, tmp_path: Path) -> None:
    own = Manifest(manifest.header, manifest.suites, [row for row in manifest.rows if row["package"] in FAMILIES])
    found = audit(own, backends=[zygote], sources=Sources(tmp_path, indexes=[]), sample=5)
    assert found["skipped"] == {}
    assert (found["tasks"], found["oracle_solved_twice"], found["repetitions_agree"]) == (5, 5, 5)
    assert (found["noop_solved"], found["deletion_solved"]) == (0, 0)
