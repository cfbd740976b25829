"""Compiling a task: where the bugs are, which trials repair them, and that execution agrees with the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sage.files import FileReadError
from sage.grading.grading import grade
from sage.sandbox import Backend
from sage.sim.environment import packed
from sage.sim.environment.equality import disagreements, transitions
from sage.sim.environment.suspects import KINDS, looks_of, slots_of
from sage.sim.environment.tables import BETTER, Table, tree, variant
from sage.sim.environment.trials import Spectrum, run_variants, spectrum
from sage.sim.tasks.manifest import Manifest
from sage.sim.tasks.mutations import OPERATORS, edits
from tests.sage.sim.environment.small_task import PROGRAM, REPAIRED, TASK


def test_the_spectrum_has_what_each_test_ran_and_where_it_failed(zygote: Backend) -> None:
    found = spectrum(zygote, TASK)
    assert found.passed == {"test_calc.py::test_double"}
    assert found.lines["test_calc.py::test_span"] == {("calc.py", 10), ("calc.py", 12)}
    assert found.errors["test_calc.py::test_span"] == "AssertionError"


def test_a_spectrum_knows_what_unittest_calls_a_failure(zygote: Backend) -> None:
    written = b"""\
import unittest
from calc import clamp, double


class Calc(unittest.TestCase):
    def test_below(self):
        self.assertEqual(clamp(-5, 0, 10), 0)

    def test_double(self):
        self.assertEqual(double(4), 8)

    def test_later(self):
        self.skipTest("not yet")

    @unittest.expectedFailure
    def test_wrong(self):
        self.assertEqual(double(4), 9)
"""
    names = {f"test_calc.py::Calc::test_{name}": 1 for name in ("below", "double", "later", "wrong")}
    found = spectrum(zygote, replace(TASK, files={"calc.py": PROGRAM, "test_calc.py": written}, visible=names))
    assert found.passed == {"test_calc.py::Calc::test_double"}
    assert found.errors == {"test_calc.py::Calc::test_below": "AssertionError"}
    assert ("calc.py", 2) in found.lines["test_calc.py::Calc::test_below"]


def test_suspicion_is_by_the_tests_that_ran_a_line() -> None:
    found = Spectrum(
        passed=frozenset("c"),
        lines={"a": frozenset({("m", 1)}), "b": frozenset({("m", 1), ("m", 2)}), "c": frozenset({("m", 2)})},
        frames={"a": (("m", 1),), "b": (("m", 2), ("m", 1))},
    )
    ochiai, tarantula, in_traces, at_end, failed, passed = looks_of(("m", 2), found, ["a", "b"], ["a", "b", "c"])
    assert ochiai == pytest.approx(1 / np.sqrt(2 * 2))
    assert tarantula == pytest.approx(0.5 / (0.5 + 1))
    assert (in_traces, at_end, failed, passed) == (0.5, 0.0, 0.5, 1.0)
    assert looks_of(("m", 1), found, ["a", "b"], ["a", "b", "c"])[:4] == (1.0, 1.0, 1.0, 1.0)


def test_every_operator_has_a_kind() -> None:
    assert sorted(name for names in KINDS.values() for name in names) == sorted(OPERATORS)


def test_slots_are_statements_of_failing_tests(zygote: Backend) -> None:
    slots = slots_of(TASK.files, spectrum(zygote, TASK), list(TASK.visible))
    assert {slot.line for slot in slots} <= {2, 3, 4, 5, 6, 10, 11, 12}
    (condition,) = [slot for slot in slots if slot.line == 2]
    assert "<" in {edit.replacement for edit in condition.repairs[list(KINDS).index("comparison")]}
    assert condition.syntax[:2] == (1.0, 0.0)  # compares, and does not calculate


def test_edits_are_ranked_by_how_usual_they_make_the_program(zygote: Backend) -> None:
    for slot in slots_of(TASK.files, spectrum(zygote, TASK), list(TASK.visible)):
        for repairs, gains in zip(slot.repairs, slot.gains, strict=True):
            assert len(repairs) == len(gains)
            assert sorted(gains, reverse=True) == list(gains)


def test_a_variant_is_limited_by_its_processor_time_not_by_the_clock(zygote: Backend) -> None:
    sleeping, busy = (
        replace(TASK, files=TASK.files | {"calc.py": b"import time\n" + PROGRAM.replace(b"return value * 2", line)})
        for line in (b"time.sleep(1.5); return value * 2", b"\n    while True:\n        value += 1")
    )
    tests = ["test_calc.py::test_double"]
    assert run_variants(zygote, replace(sleeping, seconds=0.0), [{}], tests)[0].passed == set(tests)
    assert run_variants(zygote, replace(busy, seconds=0.0), [{}], tests)[0].ended == "silent"


def test_variants_do_not_see_each_other(zygote: Backend) -> None:
    flip, other = (
        next(e for e in edits(PROGRAM.decode()) if (e.line, e.replacement) == x) for x in ((2, "<"), (12, "-"))
    )
    told = run_variants(
        zygote, TASK, [{"calc.py": [flip]}, {}, {"calc.py": [other]}, {"calc.py": [flip, other]}], list(TASK.visible)
    )
    names = [sorted(name.rpartition("_")[2] for name in one.passed) for one in told]
    assert names == [
        ["above", "below", "double", "inside"],
        ["double"],
        ["double", "span"],
        sorted(n.rpartition("_")[2] for n in TASK.visible),
    ]


def test_two_bugs_are_repaired_by_two_kept_edits(table: Table, zygote: Backend) -> None:
    first = {table.nodes[int(lead)].failing for lead in table.nodes[0].leads[table.nodes[0].result == BETTER]}
    assert first >= {1, 3}  # of four failing tests
    assert table.nodes[0].result.max() == BETTER  # no single edit repairs both
    solving = [i for i, node in enumerate(table.nodes) if node.solves]
    assert solving
    repaired = tree(TASK, variant(table, table.nodes[solving[0]].places))
    assert repaired["calc.py"] == REPAIRED
    assert grade(zygote, TASK, repaired).solved


def test_execution_agrees_with_the_table(table: Table, zygote: Backend) -> None:
    chosen = transitions([table], 16)
    assert sum(one.node > 0 for one in chosen) >= 8
    assert disagreements(zygote, {TASK.id: TASK}, [table], chosen) == []
    one = next(one for one in chosen if one.node == 0)
    table.nodes[0].result[one.place] += 1
    assert len(disagreements(zygote, {TASK.id: TASK}, [table], [one])) == 1
    table.nodes[0].result[one.place] -= 1


def test_tables_are_saved_and_loaded_whole(table: Table, tmp_path: Path) -> None:
    packed.save(tmp_path / "tables.npz", [table, table])
    _, same = packed.load(tmp_path / "tables.npz")
    assert (same.slots, same.id, same.num_failing, same.plausible) == (table.slots, table.id, 4, table.plausible)
    for ours, theirs in zip(table.nodes, same.nodes, strict=True):
        assert (ours.places, ours.failing, ours.passes, ours.solves) == (
            theirs.places,
            theirs.failing,
            theirs.passes,
            theirs.solves,
        )
        assert np.array_equal(ours.result, theirs.result)
        assert np.array_equal(ours.leads, theirs.leads)
    (tmp_path / "broken.npz").write_bytes(b"PK")
    with pytest.raises(FileReadError, match="has no compiled tasks"):
        packed.load(tmp_path / "broken.npz")


def test_the_tables_that_are_shipped_are_of_tasks_that_are_shipped() -> None:
    tasks = packed.load_packed(packed.SHIPPED)
    rows = {row["id"]: row for row in Manifest.shipped().rows}
    assert len(tasks) > 950
    assert [rows[name]["split"] for name in tasks.ids] == list(tasks.splits)
    assert tasks.solves[:, -1].all()
    assert not tasks.solves[:, 0].any()


def test_arrays_alone_are_read_as_they_were_written(table: Table, tmp_path: Path) -> None:
    tasks = packed.packed([table])
    packed.save_packed(tmp_path / "arrays.npz", tasks)
    found = packed.load_packed(tmp_path / "arrays.npz")
    assert (found.ids, found.splits) == (tasks.ids, tasks.splits)
    assert all(np.array_equal(getattr(found, name), value) for name, value in vars(tasks).items() if name != "ids")
    content = bytearray((tmp_path / "arrays.npz").read_bytes())
    content[200:300] = bytes(100)
    (tmp_path / "arrays.npz").write_bytes(content)
    with pytest.raises(FileReadError, match="has no compiled tasks"):
        packed.load_packed(tmp_path / "arrays.npz")
    with pytest.raises(FileReadError, match=r"none\.npz: there is no such file: make it with `sage sim compile`"):
        packed.load_packed(tmp_path / "none.npz")
    (tmp_path / "arrays.npz").write_bytes(b"no arrays")
    with pytest.raises(FileReadError, match=r"has no compiled tasks \(not a whole \.npz file\)"):
        packed.load_packed(tmp_path / "arrays.npz")
