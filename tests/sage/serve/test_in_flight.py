"""Calls of workers that are killed end as censored outcomes, once, and nobody else's do."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sage.orchestrator.model_router import Router
from sage.serve.in_flight import KILLED, MOST, InFlight, abandoned, censor_abandoned
from tests.sage.serve.answers import table

HOLDS = """
import sys, time
from pathlib import Path
from sage.serve.in_flight import InFlight
mine = InFlight(Path(sys.argv[1]))
for name in sys.argv[2:]:
    mine.add(name)
mine.remove(sys.argv[2])
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def router(tmp_path: Path) -> Router:
    (tmp_path / "models.yaml").write_text(table("http://127.0.0.1:1/v1"))
    return Router.open(tmp_path / "sage.db", models=tmp_path / "models.yaml", environment={})


def test_what_a_killed_process_had_under_way_is_censored(router: Router) -> None:
    done, open_, told, judged = (router.route(role="coder").id for _ in range(4))
    words = [sys.executable, "-c", HOLDS, str(router.log.path), done, open_, told, judged]
    worker = subprocess.Popen(words, stdout=subprocess.PIPE, env={"PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        assert censor_abandoned(router) == 0  # it is alive
        router.outcome(told, latency_s=0.5)
        router.outcome(judged, verdicts={"tests": True})  # by another process, before its call has ended
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
    assert censor_abandoned(router) == 2
    assert censor_abandoned(router) == 0
    rows = {decision.id: outcome for decision, outcome in router.log.rows()}
    assert rows[done] is None
    for censored in (open_, judged):
        assert rows[censored].timed_out
        assert rows[censored].provenance == KILLED
    assert not rows[told].timed_out
    assert not list(router.log.path.parent.glob("*.in-flight-*"))


def test_a_folder_that_became_read_only_stops_no_server(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, *_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    left = router.log.path.with_name(f"{router.log.path.name}.in-flight-1-0")
    left.write_bytes(b"")
    monkeypatch.setattr("sage.serve.in_flight.os.open", refused)
    monkeypatch.setattr("sage.serve.in_flight.os.unlink", refused)
    assert censor_abandoned(router) == 0
    InFlight(router.log.path).close()
    assert left.exists()


def test_places_are_used_again_and_what_is_too_much_is_left_out(tmp_path: Path) -> None:
    mine = InFlight(tmp_path / "sage.db")
    names = [f"{number:032x}" for number in range(MOST + 3)]
    for name in names:
        mine.add(name)
    for name in names:
        mine.remove(name)
    assert len(mine.free) == MOST
    mine.add(names[0])
    assert list(abandoned(tmp_path / "sage.db")) == []  # this process lives
    mine.remove(names[0])
    mine.close()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_names_nobody(tmp_path: Path, router: Router) -> None:
    (tmp_path / "sage.db.in-flight-1").write_bytes(os.urandom(999))
    assert censor_abandoned(router) == 0
