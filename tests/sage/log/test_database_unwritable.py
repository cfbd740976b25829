"""What only reads a log works in a folder that cannot be written."""

from __future__ import annotations

import io
import multiprocessing
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from sage.cli.doctor import check_log, guarded
from sage.cli.main import build_parser, main
from sage.log.compaction import digest
from sage.log.decision_log import DecisionLog
from tests.sage.examples import decision, outcome

FORMAT_1 = Path(__file__).parent / "data" / "log_format_1.sql"


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:  # the folders of pytest may be read by their owner only
        yield Path(name)
        os.chmod(name, 0o755)


def run(ask: Callable[[], object], folder: Path, answers) -> None:
    """In a process of its own, as nobody in particular: the superuser may write everywhere."""
    folder.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)
    text = io.StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        answers.send((ask(), text.getvalue()))


def asked(folder: Path, ask: Callable[[], object]) -> tuple:
    """What a call returned there, and what it printed."""
    here, other = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=run, args=(ask, folder, other))
    child.start()
    other.close()
    found = here.recv()
    child.join()
    return found


def told(folder: Path, words: str) -> tuple:
    build_parser(("log",))  # imports what nobody in particular may not read
    return asked(folder, lambda: main([*words.split(), "--db", str(folder / "sage.db")]))


def logged(folder: Path) -> str:
    with closing(DecisionLog.open(folder / "sage.db")) as log:
        log.append_many([decision(f"d{number}") for number in range(3)])
        log.add_outcome(outcome("d1"))
        share(folder)
        return digest(log).sha256


def share(folder: Path) -> None:
    """Lets everybody read the log, which only its owner may at first."""
    for path in folder.iterdir():
        path.chmod(0o644)


@pytest.mark.parametrize("open_elsewhere", [False, True], ids=["nobody has it open", "a writer has it open"])
def test_reading_commands_need_no_write_access(folder: Path, open_elsewhere: bool) -> None:
    sha256 = logged(folder)
    writer = DecisionLog.open(folder / "sage.db")
    if open_elsewhere:
        writer.append(decision("newest"))
        sha256 = digest(writer).sha256
    else:
        writer.close()
    share(folder)
    code, text = told(folder, "log digest")
    assert (code, text.split()[0]) == (0, sha256)
    assert told(folder, "log erase --before 2000")[1].startswith("4 dec" if open_elsewhere else "3 dec")
    writer.close()


def test_an_export_goes_elsewhere(folder: Path) -> None:
    logged(folder)
    with tempfile.TemporaryDirectory() as elsewhere:
        os.chmod(elsewhere, 0o777)
        code, text = told(folder, f"rl export --output {elsewhere}/out.jsonl")
        assert (code, (Path(elsewhere) / "out.jsonl").is_file()) == (0, True), text


def test_the_doctor_says_that_nothing_can_be_logged(folder: Path) -> None:
    logged(folder)
    (state, text), _ = asked(folder, lambda: guarded(lambda: check_log(folder / "sage.db")))
    assert state == "BAD"
    assert "check the path, its permissions and the disk" in text


def test_an_older_format_is_upgraded_elsewhere(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "sage.db")) as old:
        old.executescript(FORMAT_1.read_text(encoding="utf-8"))
    code, text = told(folder, "log digest")
    assert code == 2
    assert "has format 1, and its folder cannot be written to upgrade it" in text
