"""`sage serve` as a program: its sentences, its workers and its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from sage.cli import main
from sage.log.decision_log import DecisionLog
from tests.sage.serve.answers import BODIES, CHAT, PATHS, table
from tests.sage.serve.scripted import proxy, whole


def start(folder: Path, *more: str) -> tuple[subprocess.Popen[str], str]:
    """The program and its URL."""
    words = [sys.executable, "-m", "sage", "serve", "--port", "0", *more]
    program = subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, text=True, env=dict(os.environ, UP_KEY="k", PYTHONUNBUFFERED="1")
    )
    assert program.stdout is not None
    line = program.stdout.readline()
    assert line.startswith("sage serves http://127.0.0.1:"), line
    return program, line.split()[2]


def ask(url: str) -> int:
    request = urllib.request.Request(url + PATHS["chat"], json.dumps(BODIES["chat"]).encode(), method="POST")
    for _ in range(200):
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status
        except (ConnectionError, urllib.error.URLError):
            time.sleep(0.05)  # a worker that was killed took the request with it
    return 0


def answered(url: str) -> float:
    """Returns the number of answers with status 200 that /metrics shows."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    wanted = [line for line in lines if line.startswith('sage_requests_total{dialect="chat",status="200"}')]
    return float(wanted[0].split()[-1]) if wanted else 0.0


def test_workers_serve_are_replaced_and_end_together(tmp_path: Path) -> None:
    up = tmp_path / "up"
    up.mkdir()
    with proxy(up, lambda _: whole(CHAT), table) as served:
        (tmp_path / "models.yaml").write_text((up / "models.yaml").read_text())
        program, url = start(tmp_path, "--workers", "2")
        assert ask(url) == 200
        children = Path(f"/proc/{program.pid}/task/{program.pid}/children")
        if children.exists():
            os.kill(int(children.read_text().split()[-1]), signal.SIGKILL)
        assert [ask(url) for _ in range(4)] == [200] * 4
        seen = [answered(url) for _ in range(10)]  # by either worker, and counts of the killed one if it wrote them
        assert seen[0] >= 4
        assert seen == sorted(seen)
        program.send_signal(signal.SIGTERM)
        assert program.wait(30) == 0
    assert served.upstream.asked[0].headers["authorization"] == "bearer k"  # as the test's upstream keeps headers
    rows = list(DecisionLog(tmp_path / "sage.db").rows())
    assert len(rows) >= 5
    assert all(outcome is not None for _, outcome in rows[-4:])


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        ("{url: 'http://127.0.0.1:1', key_env: NO_SUCH_KEY}", (), "models.m.upstream names NO_SUCH_KEY"),
        ("null", (), "models.m has no upstream, so it cannot be served: in models.yaml, add `upstream: {url: https://"),
        ("{url: 'http://127.0.0.1:1'}", ("--workers", "0"), "--workers 0 must be 1 or more"),
        ("{url: 'http://127.0.0.1:1'}", ("--host", "0.0.0.0"), "key"),
        ("{url: 'http://127.0.0.1:1'}", ("--port", "TAKEN"), "choose another --port"),
    ],
)
def test_a_server_that_cannot_start_says_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    words: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    model = f"{{input_usd_per_mtok: 1, output_usd_per_mtok: 1, upstream: {text}}}"
    Path("models.yaml").write_text(f"models:\n  m: {model}\nroles: {{default: {{primary: m}}}}\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [str(taken.getsockname()[1]) if word == "TAKEN" else word for word in words]
        assert main(["serve", *given]) == 2
    assert sentence in capsys.readouterr().err
