from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sage.agent import running
from sage.sandbox import Backend, SandboxError
from sage.sandbox.choose import open_backend
from tests import needs
from tests.sage.agent.models import KEY, PROJECT


@pytest.fixture(scope="package")
def sandbox() -> Iterator[Backend]:
    """One for all runs: to open one and see that it holds takes a second."""
    try:
        backend = open_backend()
    except SandboxError:
        pytest.skip(needs.SANDBOX)
    yield backend
    backend.close()


class Borrowed:
    """A sandbox that stays open after a run."""

    def __init__(self, backend: Backend) -> None:
        self.name, self.run, self.interrupt = backend.name, backend.run, backend.interrupt

    def close(self) -> None:
        pass


@pytest.fixture
def project(tmp_path: Path, sandbox: Backend, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small project; the current folder is the one above it."""
    monkeypatch.setenv("UP_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "open_backend", lambda: Borrowed(sandbox))
    for name, text in PROJECT.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


@pytest.fixture
def sage() -> Callable[..., int]:
    from sage.cli import main

    def run(*words: str) -> int:
        return main(["run", "add a function double to calc.py, with a test", "--repo", "project", *words])

    return run
