"""Nothing gets out of a sandbox: 93 attempts, and proof that the attempts would be noticed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sage.sandbox import Backend, Command, Files, Limits, Result, choose
from sage.sandbox.escape_check import attempts
from sage.sandbox.escapes import ATTEMPTS, EscapeAttempt
from sage.sandbox.image import Image
from tests.sage.sandbox.backends import KINDS, opened

HARMLESS = {  # on a host without any sandbox
    *("tcp", "udp", "abstract socket", "socket in a folder", "read the host's file", "up from the root"),
    *("see others", "kill another", "open files", "gain privileges by a program", "no filter"),
}


class Host:
    """No sandbox at all: what an attempt does when nothing holds it."""

    name = "host"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, files: Files, command: Command, limits: Limits) -> Result:
        for old in self.folder.iterdir():
            old.unlink()
        for path, content in files.items():
            (self.folder / path).write_bytes(content)
        words = [sys.executable, *command.argv[1:]]
        done = subprocess.run(words, input=command.stdin, capture_output=True, cwd=self.folder, check=False, timeout=20)
        return Result(code=done.returncode, ended_by="exit", out=done.stdout, err=done.stderr)

    def close(self) -> None: ...


ESSENTIAL = [attempt for attempt in ATTEMPTS if attempt.name in choose.ESSENTIAL]
# Backends that start everything anew for each attempt take half a minute for all of them.
CASES = [
    pytest.param("zygote", ATTEMPTS, id="zygote"),
    *(pytest.param(kind, ESSENTIAL, id=f"{kind}-essential") for kind in KINDS if kind != "zygote"),
    *(pytest.param(kind, ATTEMPTS, id=kind, marks=pytest.mark.slow) for kind in KINDS if kind != "zygote"),
]


@pytest.fixture(scope="module")
def backend(request: pytest.FixtureRequest, image: Image) -> Iterator[Backend]:
    yield from opened(request.param, image, request)


@pytest.mark.parametrize(("backend", "chosen"), CASES, indirect=["backend"])
def test_no_attempt_escapes(backend: Backend, chosen: Sequence[EscapeAttempt]) -> None:
    found = [(finding.attempt.name, finding.escape, finding.result) for finding in attempts(backend, chosen)]
    assert len(found) == len(chosen) >= (40 if chosen is ATTEMPTS else 14)
    assert [(name, escape) for name, escape, _ in found if escape] == []
    assert [(name, result) for name, _, result in found if result.ended_by == "broken"] == []


@pytest.mark.parametrize("attempt", [a for a in ATTEMPTS if a.name in HARMLESS], ids=lambda attempt: attempt.name)
def test_an_attempt_that_nothing_holds_is_noticed(attempt: EscapeAttempt, tmp_path: Path) -> None:
    (finding,) = attempts(Host(tmp_path), [attempt])
    assert finding.escape != ""
