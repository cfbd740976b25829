"""What is decided without running anything: omissions, shapes, duplicates, splits, manifests."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sage.files import FileReadError
from sage.sandbox import Result
from sage.sim.line_file import LineFileError
from sage.sim.tasks.acceptance import cheap_reason, instruction_reason, static_reason, waits
from sage.sim.tasks.deduplicate import MOST_PER_SHAPE, Deduplicator, shape_of, token_triples
from sage.sim.tasks.journal import Journal
from sage.sim.tasks.making import Made
from sage.sim.tasks.manifest import Manifest
from sage.sim.tasks.mutations import apply
from sage.sim.tasks.omission import omissions
from sage.sim.tasks.recipes import all_edits, edit_of, step_of
from sage.sim.tasks.sources import UnknownSourceError
from sage.sim.tasks.splits import split_of
from sage.sim.tasks.suites import Prepared
from tests.sage.sim.tasks.programs import MODULE, PATH, SOURCE, SUITE, broken_task

OMITTED = {
    "omitted_body": ("def f(a):\n    'Doc.'\n    b = a\n    return b", ["def f(a):\n    'Doc.'\n    raise NotImplementedError"]),
    "omitted_branch": ("if a:\n    b()\nelif c:\n    d()\nif e:\n    f()", ["if a:\n    b()\nelif c:\n    d()\npass"]),
    "omitted_check": ("if a:\n    raise E", ["pass"]),
    "omitted_else": ("if a:\n    b()\nelse:\n    c()\nd()", ["if a:\n    b()\nd()"]),
    "omitted_handler": ("try:\n    a()\nexcept E:\n    b()\n    c()", ["try:\n    a()\nexcept E:\n    raise"]),
}  # fmt: skip


@pytest.mark.parametrize("operator", OMITTED)
def test_an_omission_leaves_out_what_it_says(operator: str) -> None:
    source, answers = OMITTED[operator]
    assert [apply(source, edit) for edit in omissions(source) if edit.operator == operator] == answers


def test_a_recipe_finds_its_edit_again_and_holds_no_code() -> None:
    for edit in all_edits(MODULE):
        step = step_of(PATH, MODULE, edit)
        assert edit_of(MODULE, step) == edit
        assert set(step) == {"path", "operator", "start", "choice"}
    with pytest.raises(UnknownSourceError, match="another version"):
        edit_of(MODULE, {"path": PATH, "operator": "boundary", "start": 0, "choice": 0})


def test_shapes_forget_names_and_numbers() -> None:
    assert shape_of(["-x = a[1] + b", "+x = a[2] + b"]) == shape_of(["-sum = rows[7] + k", "+sum = rows[8] + k"])
    assert shape_of(["-x = a < b", "+x = a <= b"]) != shape_of(["-x = a > b", "+x = a >= b"])


def row(number: int, **more: str) -> dict:
    name = str(number)
    values = {
        "suite": "p/m.py",
        "function": "f",
        "package": "p",
        "shape": name,
        "broken_sha256": name,
        "failing_sha256": name,
    }
    return values | more


def test_duplicates_and_too_much_of_the_same_are_left_out() -> None:
    seen = Deduplicator(per_package=5)
    triples = token_triples("def f(a): return a + 1")

    def reason(task: dict) -> str:
        found = seen.reason(task, triples)
        if not found:
            seen.add(task, triples)
        return found

    assert reason(row(1)) == ""
    assert reason(row(2, broken_sha256="1")) == "duplicate"
    assert reason(row(2, failing_sha256="1")) == "duplicate"
    assert [reason(row(n, shape="1")) for n in (3, 4, 5)] == ["", "", "shape"]
    assert MOST_PER_SHAPE == 3
    assert [reason(row(n)) for n in (6, 7, 8)] == ["", "", "package"]


def test_functions_that_are_alike_count_as_one() -> None:
    seen = Deduplicator(per_package=1000)
    body = "\n".join(f"    a{n} = b{n} + {n}" for n in range(20))
    first, copy, other = (
        token_triples(f"def f():\n{body}"),
        token_triples(f"def g():\n{body}"),
        token_triples("def h(): pass"),
    )
    assert seen.group_of("p:f", first) == seen.group_of("q:g", copy)
    assert seen.group_of("p:h", other) != seen.group_of("p:f", first)


@pytest.mark.parametrize(
    ("package", "operator", "split"),
    [("logs", "constant", "test_family"), ("graphs", "boundary", "test_op"), ("semver", "boundary", "test_pkg")],
)
def test_families_operators_and_packages_are_held_out(package: str, operator: str, split: str) -> None:
    assert split_of({"package": package, "function": "f", "steps": [{"path": "a.py", "operator": operator}]}) == split


def test_tasks_in_one_function_are_in_one_split() -> None:
    splits = {
        function: {
            split_of({"package": "graphs", "function": function, "steps": [{"path": "a.py", "operator": operator}]})
            for operator in ("constant", "boolean", "arithmetic")
        }
        for function in map(str, range(60))
    }
    assert all(len(found) == 1 for found in splits.values())
    assert {split for found in splits.values() for split in found} == {"train", "val", "test_iid"}


def test_cheap_rules_refuse_before_anything_runs() -> None:
    prepared = Prepared(SOURCE)
    assert cheap_reason(prepared, [step_of(PATH, MODULE, all_edits(MODULE)[0])]) == ""
    spaces = replace(SOURCE, files={**SOURCE.files, PATH: b"def f(x):\n    x( 1)\n    time.sleep(1)\n    return x\n"})
    text = spaces.files[PATH].decode()
    sleeping = next(edit for edit in all_edits(text) if "sleep" in edit.original)
    assert cheap_reason(Prepared(spaces), [step_of(PATH, text, sleeping)]) == "flaky_code"


def test_trees_of_a_task_are_as_the_rules_want_them() -> None:
    task, prepared = broken_task(), Prepared(SOURCE)
    assert static_reason(prepared, task, SUITE) == ""
    assert static_reason(prepared, replace(task, oracle={}), SUITE) == "oracle_differs"
    shown = {**task.files, "tests/test_numbers.py": SOURCE.files["tests/test_hidden_numbers.py"]}
    assert static_reason(prepared, replace(task, files=shown), SUITE) == "hidden_shown"


def test_an_instruction_does_not_tell() -> None:
    steps = [{"path": PATH, "operator": "boundary"}]
    changed = {PATH: ["-        if value > best:", "+        if value >= best:"]}
    assert instruction_reason("2 tests fail", steps, changed) == ""
    assert instruction_reason("a boundary is wrong", steps, changed) == "tells"
    assert instruction_reason("look at `if value >= best:`", steps, changed) == "tells"


@pytest.mark.parametrize("name", ["tasks.jsonl", "tasks.jsonl.gz"])
def test_a_manifest_comes_back(tmp_path: Path, name: str) -> None:
    rows = [{"id": "1", "suite": SUITE.name, "steps": []}]
    Manifest({"tasks": 1}, {SUITE.name: SUITE}, rows).save(tmp_path / name)
    found = Manifest.open(tmp_path / name)
    assert (found.header, found.rows) == ({"tasks": 1}, rows)
    assert found.suites == {SUITE.name: replace(SUITE, callers={})}
    (tmp_path / name).write_bytes(b"{}\n")
    with pytest.raises(FileReadError, match="is not a manifest of tasks"):
        Manifest.open(tmp_path / name)


def test_a_journal_goes_on_after_a_crash_and_knows_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "tasks.partial"
    Journal(path, {"seed": 1}).add(Made("a", rows=[{"id": "1"}], suites={SUITE.name: SUITE}, tried=2))
    with path.open("a") as file:
        file.write(json.dumps({"unit": "b"})[:5])
    found = Journal(path, {"seed": 1})
    assert {name: (made.rows, made.tried) for name, made in found.made.items()} == {"a": ([{"id": "1"}], 2)}
    found.add(Made("c"))
    assert set(Journal(path, {"seed": 1}).made) == {"a", "c"}
    with pytest.raises(LineFileError, match="other settings"):
        Journal(path, {"seed": 2})


@pytest.mark.parametrize(
    ("wall_s", "cpu_s", "expected"), [(6.3, 0.15, True), (10.8, 0.28, True), (2.0, 0.7, False), (8.0, 0.7, False)]
)
def test_tests_that_sleep_are_told_from_a_busy_machine(wall_s: float, cpu_s: float, expected: bool) -> None:
    assert waits(Result(code=0, ended_by="exit", wall_s=wall_s, cpu_s=cpu_s)) is expected
