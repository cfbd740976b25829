"""A disk that is full, a folder that cannot be written, a log that is damaged: every call is answered all the same."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import resource
import signal
import sqlite3
import tempfile
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from rl_base import file_lock
from sage import Decision, DecisionLog, Router
from sage.cli import main
from sage.log import database
from sage.log.database import DatabaseError
from sage.log.records import RecordError
from sage.orchestrator import backlog
from tests import needs
from tests.sage.examples import decision, outcome, written

EXPLORES = "exploration: 0.9\n"
BUDGET = EXPLORES + "guard: {budget_usd: 100}\n"
TABLES = {"table": EXPLORES, "budget": BUDGET, "bandit": EXPLORES + "bandit: contextual\n"}


def opened(folder: Path, extra: str = EXPLORES) -> Router:
    options: dict = {"models": written(folder, extra), "environment": {}, "seed": 0, "data_source": "synthetic"}
    return Router.open(folder / "sage.db", **options)


def until_full(write: Callable[[], object]) -> None:
    with suppress(DatabaseError):
        for _ in range(1000):
            write()
        pytest.fail("the disk never was full")


@contextmanager
def full(router: Router) -> Iterator[None]:
    """SQLite's own full disk: the file may not get another page, and those that it has are filled."""
    connect = router.log.file._connect

    def limited() -> sqlite3.Connection:
        connection = connect()
        connection.execute("PRAGMA max_page_count = 1")  # as many as there are
        return connection

    router.log.file.close()
    router.log.file._connect = limited  # pyrefly: ignore
    until_full(lambda: router.log.append(decision(uuid.uuid4().hex, features=(), data_source="replay")))
    until_full(lambda: router.log.add_outcome(outcome("nobody")))
    yield
    router.log.file.close()
    router.log.file._connect = connect  # pyrefly: ignore


def assert_unlogged(made: Decision, model: str = "medium") -> None:
    assert (made.model, made.verdict, made.policy, made.logged) == (model, "unlogged", "static", False)
    assert made.propensity == 1.0  # nothing is explored that nobody can learn from
    assert "cannot be used as a log" in made.reason


@pytest.mark.parametrize("name", TABLES)
def test_a_full_disk_is_answered_counted_and_recovered_from(tmp_path: Path, name: str) -> None:
    with opened(tmp_path, TABLES[name]) as router:
        before = router.route(role="debugger")
        assert before.logged
        with full(router), warnings.catch_warnings():
            warnings.simplefilter("error")  # not even a warning is raised in the request path
            made = router.route(role="debugger")
            assert_unlogged(made, "small" if name == "budget" else "medium")
            assert_unlogged(router.route(role="coder"), "small")
            assert router.outcome(before.id, quality=0.5, cost_usd=0.25) == "unlogged"
        assert router.backlog.counts == {"decisions": 2}
        after = router.route(role="debugger")
        assert after.logged
        assert router.outcome(after.id, quality=1.0) == "joined"
        counts = router.log.counts()
        assert counts["unlogged"] == 2
        rows = {decision.id: outcome for decision, outcome in router.log.rows()}
        assert made.id not in rows
        assert rows[before.id].quality == 0.5  # it waited, and was written when that was possible
    assert DecisionLog.open(tmp_path / "sage.db").counts() == counts


def test_the_reason_of_a_fallback_is_logged_once_per_outage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    router = opened(tmp_path)
    for _ in range(2):
        with full(router):
            for _ in range(3):
                router.route(role="coder")
        router.route(role="coder")
    said = [record.getMessage() for record in caplog.records]
    assert ["cannot be used as a log" in text for text in said] == [True, False, True, False]
    assert said[1].endswith("sage.db can be written again")


def test_outcomes_that_wait_are_bounded_and_what_is_given_up_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "MOST_WAITING", 5)
    router = opened(tmp_path)
    made = [router.route(role="coder") for _ in range(8)]
    with full(router):
        assert {router.outcome(one.id, quality=1.0) for one in made} == {"unlogged"}
    router.route(role="coder")
    assert router.backlog.counts["outcomes"] == 3
    rows = {decision.id: outcome for decision, outcome in router.log.rows()}
    assert [rows[one.id] is None for one in made] == [True] * 3 + [False] * 5


def test_a_router_that_closes_with_outcomes_waiting_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    router = opened(tmp_path)
    made = router.route(role="coder")
    with full(router):
        router.outcome(made.id, quality=1.0)
        router.close()
        assert "1 outcomes could not be written to " in caplog.text


def test_an_outcome_that_can_never_be_written_holds_up_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as router:
        made = [router.route(role="coder") for _ in range(3)]
        wrong = outcome(made[1].id)
        object.__setattr__(wrong, "latency_s", math.nan)  # which no outcome can be made with
        with pytest.raises(RecordError, match=f"outcome '{wrong.decision_id}' cannot be written: Out of range"):
            router.report(wrong)
        assert not router.backlog.is_down  # the log is as good as before
        with full(router):
            assert router.outcome(made[0].id, quality=0.5) == "unlogged"
            router.backlog.add_outcome(wrong, False, DatabaseError("the disk is full"))
            assert router.outcome(made[2].id, quality=0.5) == "unlogged"
        router.route(role="coder")
        assert not router.backlog.is_down
        assert router.backlog.counts == {"outcomes": 1}
        known = {decision.id: outcome for decision, outcome in router.log.rows()}
        assert [known[one.id] is None for one in made] == [False, True, False]
    assert "cannot be written: Out of range float values are not JSON compliant" in caplog.text


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_in_the_first_page(path: Path) -> None:
    os.truncate(path, 50)


def overwritten(path: Path) -> None:
    path.write_bytes(b"garbage " * 2000)


DAMAGES = (emptied, halved, cut_in_the_first_page, overwritten)


def filled(folder: Path) -> Path:
    with opened(folder) as router:
        for _ in range(60):
            router.outcome(router.route(role="coder").id, quality=1.0)
    return folder / "sage.db"


@pytest.mark.parametrize("damage", DAMAGES[1:])
@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_log_is_answered_and_a_mended_one_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None], name: str
) -> None:
    path = filled(tmp_path)
    whole = path.read_bytes()
    damage(path)
    router = opened(tmp_path, TABLES[name])
    assert "nothing is logged until then" in caplog.text
    made = [router.route(role="coder") for _ in range(5)]
    for one in made:
        assert_unlogged(one, "small")
    assert {router.outcome(one.id, quality=1.0) for one in made} == {"unlogged"}
    path.write_bytes(whole)
    assert router.route(role="coder").logged
    router.close()
    counts = DecisionLog.open(path).counts()
    assert (counts["decisions"], counts["with_outcome"]) == (61, 60)
    assert (counts["unlogged"], counts["unknown"]) == (5, 5)


def test_an_empty_file_becomes_a_log(tmp_path: Path) -> None:
    path = filled(tmp_path)
    emptied(path)
    with opened(tmp_path) as router:
        assert router.route(role="coder").logged


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_log_that_is_damaged_while_it_is_open(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = filled(tmp_path)
    router = opened(tmp_path)
    router.route(role="coder")
    damage(path)
    for _ in range(30):
        made = router.route(role="coder")
        assert made.logged or made.model == "small"
        assert router.outcome(made.id, quality=1.0)


def use_unwritable(folder: Path, answers) -> None:
    """In a process of its own, as nobody in particular: the superuser may write everywhere."""
    if os.geteuid() == 0:
        os.seteuid(65534)
    router = opened_there(folder)
    made = [router.route(role="debugger") for _ in range(3)]
    answers.send([(one.model, one.verdict, one.reason) for one in made])
    answers.send(router.outcome(made[0].id, quality=1.0))
    if os.getuid() == 0:
        os.seteuid(0)
    os.chmod(folder, 0o777)
    answers.send([router.route(role="debugger").logged, router.log.counts()["unlogged"]])


def opened_there(folder: Path) -> Router:
    return Router.open(folder / "sage.db", models=folder / "models.yaml", environment={}, data_source="synthetic")


@pytest.mark.parametrize("there", [False, True], ids=["no log yet", "a log"])
def test_a_folder_that_cannot_be_written(there: bool) -> None:
    with tempfile.TemporaryDirectory() as name:  # the folders of pytest may be read by their owner only
        folder = Path(name)
        written(folder)
        if there:
            opened_there(folder).close()
        folder.chmod(0o555)
        here, other = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=use_unwritable, args=(folder, other))
        child.start()
        other.close()
        rows, status, recovered = (here.recv() for _ in range(3))
        child.join()
        folder.chmod(0o755)
    assert {row[:2] for row in rows} == {("medium", "unlogged")}
    assert "cannot be used as a log" in rows[0][2]
    assert status == "unlogged"
    assert recovered == [True, 3]


def hold_the_log(folder: Path, ready) -> None:
    """Writes, and never gets done with it."""
    with DecisionLog.open(folder / "sage.db").file.transaction():
        ready.send(True)
        ready.recv()


@pytest.mark.skipif(file_lock.fcntl is None, reason=needs.FCNTL)
def test_another_process_that_stopped_while_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)
    router = opened_there(tmp_path)
    here, other = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=hold_the_log, args=(tmp_path, other))
    child.start()
    here.recv()
    os.kill(child.pid or 0, signal.SIGSTOP)
    monkeypatch.setattr(database, "PATIENCE_S", 0.05)
    made = [router.route(role="debugger") for _ in range(3)]
    assert {one.verdict for one in made} == {"unlogged"}
    assert "another process has held sage.db-lock for 0.05 s" in made[0].reason
    assert {"another process still holds sage.db-lock" in one.reason for one in made[1:]} == {True}
    os.kill(child.pid or 0, signal.SIGCONT)
    here.send(True)
    child.join()
    monkeypatch.undo()
    assert router.route(role="debugger").logged
    assert router.log.counts()["unlogged"] == 3
    assert router.log.counts()["decisions"] == 1


def use_little_disk(folder: Path, answers) -> None:
    """No file may grow beyond 100 kB, and writing more fails: as good as a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    router = opened_there(folder)
    logged = []
    while sum(not one for one in logged) < 20:
        made = router.route(role="debugger", task="x")
        logged.append(made.logged)
        assert made.model == "medium"
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    logged.append(router.route(role="debugger").logged)
    router.close()
    answers.send(logged)


def test_a_file_that_cannot_grow(tmp_path: Path) -> None:
    written(tmp_path)
    here, other = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=use_little_disk, args=(tmp_path, other))
    child.start()
    other.close()
    logged = here.recv()
    child.join()
    assert logged[-1]
    with closing(DecisionLog.open(tmp_path / "sage.db")) as log:
        counts = log.counts()
    assert counts["decisions"] == sum(logged)
    assert counts["unlogged"] == len(logged) - sum(logged)


def test_threads_are_answered_while_the_disk_is_full(tmp_path: Path) -> None:
    router = opened(tmp_path, TABLES["bandit"])
    made: list[Decision] = []

    def work() -> None:
        for _ in range(15):
            one = router.route(role="coder")
            made.append(one)
            router.outcome(one.id, quality=1.0)

    with full(router):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    router.route(role="coder")
    counts = router.log.counts()
    assert [one.logged for one in made] == [False] * 60
    assert (counts["synthetic"], counts["unlogged"]) == (1, 60)
    assert counts["unknown"] >= 60  # outcomes of decisions that are not in the log are kept, too


def test_the_command_line_refuses_what_a_service_would_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    overwritten(tmp_path / "sage.db")
    assert main(["route", "--role", "coder", "--json"]) == 2
    assert "file is not a database" in json.loads(capsys.readouterr().err)["error"]
