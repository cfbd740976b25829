"""The server of one local model: a process of its own, on a loopback port, with one thread for its arithmetic."""

from __future__ import annotations

import importlib.util
import json
import logging
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import sage
from sage.local_models.registry import LocalModel, LocalModelError, Registry

log = logging.getLogger(__name__)
START_S = 120.0  # to load a model on a busy machine
STOP_S = 5.0
CONTEXT = 8192  # tokens of prompt and answer together


@dataclass(frozen=True, kw_only=True)
class LocalServer:
    """A running local model, which answers at the base URL `url`; it ends with `close()` or with this process."""

    name: str
    url: str
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def close(self) -> None:
        stop(self.process)

    def __enter__(self) -> LocalServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def start(
    name: str, *, registry: Registry | None = None, context: int = CONTEXT, start_s: float = START_S
) -> LocalServer:
    """Starts the server of a model that `sage models add` has named, and returns it when it answers.

    `context` is in tokens, `start_s` in seconds. Raises LocalModelError if the model is unknown, changed or does not
    start.

    Example:
        >>> with start("small") as server:
        ...     client = openai.OpenAI(base_url=server.url, api_key="none")
    """
    return serve((registry or Registry()).checked(name), context=context, start_s=start_s)


def serve(model: LocalModel, *, context: int = CONTEXT, start_s: float = START_S) -> LocalServer:
    if importlib.util.find_spec("xllamacpp") is None:
        raise LocalModelError("local models need xllamacpp: pip install 'sage-routing[local]'")
    settings = {"file": model.file, "name": model.name, "context": context}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "sage.local_models.host_program", json.dumps(settings)],
            stdin=subprocess.PIPE,  # whose end tells the program that we are gone
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=Path(sage.__file__).parent.parent,  # where `-m` finds sage, installed or not
        )
        url = ""
        try:
            url = first_line(process, start_s)
        finally:  # also when we are interrupted while it loads
            if not url:
                stop(process)
        if not url:
            raise LocalModelError(f"{model.file}: {model.name!r} did not start: {reason(process, errors, start_s)}")
    log.info("local model %s answers at %s", model.name, url)
    return LocalServer(name=model.name, url=f"{url}/v1", process=process)


def first_line(process: subprocess.Popen[bytes], start_s: float) -> str:
    """Returns the line that the program prints when it is ready; '' if it is not ready in `start_s` seconds."""
    assert process.stdout is not None
    alarm = threading.Timer(start_s, process.kill)
    alarm.start()
    try:
        return process.stdout.readline().decode().strip()
    finally:
        alarm.cancel()


def reason(process: subprocess.Popen[bytes], errors: IO[bytes], start_s: float) -> str:
    """Returns the last line of errors of a process that failed; if we had to end it, a sentence with its exit code."""
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    if process.returncode == 1 and lines:
        return lines[-1]
    return f"it ended with code {process.returncode} within {start_s:g} s: is there enough memory?"


def stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
