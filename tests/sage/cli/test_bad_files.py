"""Files and values that are wrong, given to every command that reads them: one sentence, code 2, nothing written."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sage.cli import main


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A small log as a file, and a policy learned from it."""
    folder = tmp_path_factory.mktemp("good")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["rl", "collect-synth", "--rows", "120", "--epsilon", "0.3"]) == 0
        assert main(["rl", "export", "--output", "rows.jsonl"]) == 0
        assert main(["rl", "train-table", "--data", "rows.jsonl", "--out", "policy.bin"]) == 0
    return {name: (folder / name).read_bytes() for name in ("rows.jsonl", "policy.bin", "sage.db")}


def changed(change: Callable[[dict], object]) -> Callable[[bytes], bytes]:
    """The second line of the export, changed."""

    def apply(rows: bytes) -> bytes:
        lines = rows.splitlines()
        values = json.loads(lines[1])
        change(values)
        return b"\n".join([lines[0], json.dumps(values).encode(), *lines[2:]]) + b"\n"

    return apply


EXPORTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut in half": (lambda rows: rows[: len(rows) // 2], "(the file ends in the middle of it)"),
    "not text": (lambda rows: b"\x89PNG" + rows, "line 1: 'utf-8' codec"),
    "a picture of brackets": (lambda rows: b"[" * 100_000 + b"\n", "line 1: not a whole JSON object"),
    "a blank line": (lambda rows: b"\n" + rows, "line 1: not a whole JSON object"),
    "no id": (changed(lambda row: row.update(id=None)), "line 2: id=None must be text"),
    "a number for a category": (changed(lambda row: row.update(category=3)), "line 2: category=3 must be text"),
    "models that are numbers": (
        changed(lambda row: row.update(candidates=[1, 2, 3], model=1)),
        "line 2: model=1 must be text",
    ),
    "NaN reward": (changed(lambda row: row["outcome"].update(quality=float("nan"))), "line 2: NaN is not a number"),
    "a cost of 400 digits": (
        changed(lambda row: row["outcome"].update(cost_usd=10**400)),
        "must be a finite number that is not negative and at most 1e+15",
    ),
    "retries of 400 digits": (changed(lambda row: row["outcome"].update(retries=10**400)), "must be a whole number"),
    "a number too long to read": (
        lambda rows: rows.replace(b'"retries": 0', b'"retries": ' + b"9" * 5000, 1),
        "line 2: ",
    ),
    "features of another length": (
        lambda rows: b"".join(
            json.dumps(json.loads(line) | {"features": [0.0]}).encode() + b"\n" for line in rows.splitlines()[1:]
        ),
        "rows have 1 features, and version 1 has 26",
    ),
    "propensity 0": (
        changed(lambda row: row.update(probabilities=[float(m != row["model"]) / 2 for m in row["candidates"]])),
        "line 2: probabilities gives the chosen model",
    ),
    "propensities that sum to 2": (
        changed(lambda row: row.update(probabilities=[2 / 3] * 3)),
        "line 2: probabilities=[0.6666666666666666, 0.6666666666666666, 0.6666666666666666] add up to 2, not 1",
    ),
    "mixed schema versions": (changed(lambda row: row.update(schema=2)), "line 2: schema=2 is not the version"),
    "a cost that is missing in one row": (
        changed(lambda row: row["outcome"].update(cost_usd=None)),
        "cost is missing in 1 of 120 rows",
    ),
    "a time-out with a quality": (
        changed(lambda row: row["outcome"].update(timed_out=True, quality=0.5)),
        "line 2: quality=0.5 of a time-out",
    ),
    "a clock before 1970": (changed(lambda row: row.update(time=-5.0)), "line 2: time=-5.0 must be"),
    "one task only": (lambda rows: rows.splitlines()[1] + b"\n", "there are 1 different tasks, too few"),
    "a header of a later sage": (
        lambda rows: rows.replace(b'"sage_export": 1', b'"sage_export": 2'),
        "the header in line 1: it is of version 2",
    ),
    "a header of other rows": (
        lambda rows: rows.replace(b'"last": 120', b'"last": 119'),
        "one of which has number 120",
    ),
    "half a header": (lambda rows: rows[:20] + b"\n" + rows, "the header in line 1: it is not whole JSON"),
    "empty": (lambda rows: b"", "holds no decision with an outcome"),
    "features of another sage": (
        lambda rows: rows.replace(b'"features_version": 1', b'"features_version": 2'),
        "has features version 2, and this sage has 1",
    ),
    "half a character": (
        changed(lambda row: row.update(category="\ud800")),
        "line 2: category='\\ud800' holds bytes that are no text",
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: dict[str, bytes]) -> Path:
    monkeypatch.chdir(tmp_path)
    main(["init"])
    for name, content in good.items():
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "a_folder").mkdir()
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], command: str) -> str:
    capsys.readouterr()
    try:
        code = main(command.split())
    except SystemExit as left:  # by argparse
        code = left.code
    said = capsys.readouterr()
    assert (code, said.out) == (2, ""), said.err
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize(("change", "sentence"), EXPORTS.values(), ids=EXPORTS)
def test_an_export_that_is_wrong(
    folder: Path, capsys: pytest.CaptureFixture[str], change: Callable[[bytes], bytes], sentence: str
) -> None:
    (folder / "wrong.jsonl").write_bytes(change((folder / "rows.jsonl").read_bytes()))
    assert sentence in refused(capsys, "rl train-table --data wrong.jsonl --out new.bin")
    assert not (folder / "new.bin").exists()


def flipped(content: bytes) -> bytes:
    return content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]


CHECKPOINTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut": (lambda content: content[: len(content) // 2], "is not a policy file or was cut"),
    "one bit": (flipped, "the content does not match its sha256"),
    "a pickle": (lambda content: pickle.dumps({"a": 1}), "pickles are never read"),
    "empty": (lambda content: b"", "is not a policy file or was cut"),
}


@pytest.mark.parametrize(("change", "sentence"), CHECKPOINTS.values(), ids=CHECKPOINTS)
@pytest.mark.parametrize("command", ["rl gate --data rows.jsonl --checkpoint", "bench --compare-policy --checkpoint"])
def test_a_checkpoint_that_is_wrong(
    folder: Path, capsys: pytest.CaptureFixture[str], change: Callable[[bytes], bytes], sentence: str, command: str
) -> None:
    (folder / "wrong.bin").write_bytes(change((folder / "policy.bin").read_bytes()))
    assert sentence in refused(capsys, f"{command} wrong.bin")


TABLES: dict[str, tuple[bytes, str]] = {
    "no row": (b"task_id,model,score\n", "there is no row"),
    "no score": (b"task_id,model,score\nx,m,\n", "there is no score"),
    "a column twice": (b"task_id,task_id,model,score\nx,y,m,1\n", "the column 'task_id' is there twice"),
    "not text": (b"\xff\xfe\x00", "table.csv: not text in UTF-8"),
    "a score of 7": (b"task_id,model,score\nx,m,7\n", "score of task 'x' by 'm' is 7.0"),
    "NaN": (b"task_id,model,score\nx,m,nan\n", "line 2: score='nan' is not a number"),
    "a line cut": (b"task_id,model,score\nx,m\n", "line 2: not 3 values"),
}


@pytest.mark.parametrize(("content", "sentence"), TABLES.values(), ids=TABLES)
def test_a_table_that_is_wrong(folder: Path, capsys: pytest.CaptureFixture[str], content: bytes, sentence: str) -> None:
    (folder / "table.csv").write_bytes(content)
    assert sentence in refused(capsys, "data import csv table.csv --out t.npz")
    assert not (folder / "t.npz").exists()


def test_a_prompt_may_be_long(folder: Path) -> None:
    (folder / "table.csv").write_text("task_id,model,score,prompt\nx,m,1," + "a" * 200_000 + "\n")
    assert main(["data", "import", "csv", "table.csv", "--out", "t.npz"]) == 0


COMMANDS = {
    "seed below zero": ("rl train-table --data rows.jsonl --out o --seed -1", "'-1' must be a whole number"),
    "holdout of all": ("rl train-table --data rows.jsonl --out o --holdout 1", "holdout=1.0 must lie between 0 and 1"),
    "a folder to learn from": ("rl train-table --data a_folder --out o", "a_folder: there is no such file"),
    "a folder to write": ("rl train-table --data rows.jsonl --out a_folder", "a_folder could not be written"),
    "a file as a folder": ("rl train-table --data rows.jsonl --out sage.db/o", "sage.db/o could not be written"),
    "a pipe to write": ("rl export --output pipe", "pipe could not be written: it is there and not a file"),
    "a pack in a file": ("bench --run-pack-dir sage.db", "sage.db cannot be made a folder"),
    "no exploration possible": ("rl collect-synth --epsilon 3", "epsilon=3.0 must lie between 0 and 1"),
    "a date that is none": ("rl export --output o --since nan", "'nan' is neither seconds since 1970 nor a date"),
    "a session that is none": (
        "rl export --output o --session x",
        "has no decision of session x (in all it has 120 synthetic)",
    ),
    "rows without a date": (
        "rl export --output o --since 2026-01-01",
        "replayed and synthetic rows have no date, choose them by session",
    ),
    "a source that is not there": (
        "rl export --output o --data-source real",
        "has no decision of data_source real (in all it has 120 synthetic)",
    ),
    "an outcome that says nothing": ("outcome d1", "says nothing: give quality, cost_usd, latency_s"),
    "more cached than there are": (
        "outcome d1 --quality 1 --tokens-in 5 --tokens-cached 9",
        "tokens_cached=9 are a part of tokens_in=5",
    ),
    "a command that is none": ("nope", "there is no 'nope'"),
    "a report of a folder": ("report --out r.html --db a_folder", "a_folder: there is no such log"),
    "an evaluation that is a picture": ("report --out r.html --evaluation a.png", "a.png: not text in UTF-8"),
    "a suite that is a picture": ("bench --suite a.png", "a.png: not text in UTF-8"),
    "a table that is no table": ("rl replay --outcomes not.npz", "not.npz: not an outcome table"),
}


@pytest.mark.parametrize(("command", "sentence"), COMMANDS.values(), ids=COMMANDS)
def test_a_command_that_is_wrong(folder: Path, capsys: pytest.CaptureFixture[str], command: str, sentence: str) -> None:
    np.savez(folder / "not.npz", a=1)
    (folder / "a.png").write_bytes(b"\x89PNG")
    os.mkfifo(folder / "pipe")
    assert sentence in refused(capsys, command)
    assert not {"o", "r.html"} & {path.name for path in folder.iterdir()}


MANIFEST = {
    "format": 1,
    "code": {"version": "1", "sha256": "x"},
    "data": {"table": "bundled:synthetic", "sha256": "x"},
    "seeds": [0],
    "kind": "baselines",
    "artefacts": {"results.json": "x", "suite.yaml": "x"},
    "metrics": {},
}


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        (b"\xff\xfe", "not text in UTF-8"),
        (b"[]", "'format' is missing"),
        (b"{", "not whole JSON"),
        (json.dumps(MANIFEST | {"artefacts": []}).encode(), "'artefacts' is not as a run pack has it"),
        (json.dumps(MANIFEST | {"artefacts": {"../rows.jsonl": "x"}}).encode(), "'artefacts' is not as a run pack"),
        (json.dumps(MANIFEST | {"code": 1}).encode(), "'code' is not as a run pack has it"),
        (json.dumps(MANIFEST | {"data": {"table": 3, "sha256": 4}}).encode(), "'data' is not as a run pack has it"),
    ],
)
def test_a_run_pack_that_is_wrong(
    folder: Path, capsys: pytest.CaptureFixture[str], manifest: bytes, sentence: str
) -> None:
    (folder / "a_folder" / "manifest.json").write_bytes(manifest)
    assert sentence in refused(capsys, "bench verify a_folder")


def test_a_log_without_exploration_is_learned_from_with_a_warning(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header, *rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert header["sage_export"] == 1
    lines = [json.dumps(row | {"candidates": [row["model"]], "probabilities": [1.0]}) for row in rows]
    (folder / "fixed.jsonl").write_text("\n".join(lines) + "\n")
    assert main(["rl", "train-table", "--data", "fixed.jsonl", "--out", "fixed.bin"]) == 0
    assert "warning: no row explores" in capsys.readouterr().err
