"""A process that measures another library when asked; the other side is `benchmarks/peers/protocol.py`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from rl_training.bench.peer_environments import SCRIPTS, PeerUnavailableError

CLOSE_LIMIT = 10  # seconds to end in once nothing more is asked


class Peer:
    """A process that runs another library on one piece of work, and measures its speed when asked.

    `limit` is in seconds: to start, to warm up and for every measurement. Construction and `measure` raise
    PeerUnavailableError, with the last line that the process wrote, if it fails or exceeds the limit.
    """

    def __init__(self, name: str, python: Path, work: dict, script: Path | None = None, *, limit: float) -> None:
        self.limit = limit
        self.errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  (open as long as the process)
        try:
            self.process = subprocess.Popen(
                [str(python), str(script or SCRIPTS / f"{name}_speed.py"), json.dumps(work)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": str(work["threads"])},
                start_new_session=True,  # to be killed with all that it has started
            )
        except OSError as error:
            raise PeerUnavailableError(f"{python} cannot be started: {error.strerror}") from error
        self.versions = self.read()

    def read(self) -> dict:
        """Waits for the process's next line and returns its JSON mapping; raises PeerUnavailableError if there is none.

        The process is killed if it gives no answer within `limit` seconds, or if the wait is interrupted.
        """
        assert self.process.stdout is not None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self.kill()

        timer = threading.Timer(self.limit, give_up)
        timer.daemon = True
        timer.start()
        line = None
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
            if line is None:
                self.kill()
        if late.is_set():
            self.close()
            raise PeerUnavailableError(f"it gave no answer within {self.limit:g} s (--peer-timeout) and was stopped")
        if not line:
            self.process.wait()
            reason = self.last_words() or f"exit code {self.process.returncode}"
            self.close()
            raise PeerUnavailableError(f"it failed: {reason}")
        answer = parse_answer(line)
        if answer is None:
            self.kill()
            self.close()
            raise PeerUnavailableError(f"it printed {line.strip()[:60]!r} instead of an answer")
        if "unavailable" in answer:
            self.close()
            raise PeerUnavailableError(answer["unavailable"])
        return answer

    def last_words(self) -> str:
        self.errors.seek(0)
        said = [text.strip() for text in self.errors.read().splitlines() if text.strip()]
        return said[-1][:300] if said else ""

    def measure(self, num_steps: int) -> float:
        """Asks the process to take `num_steps` steps and returns its steps per second.

        Raises PeerUnavailableError if the process fails or exceeds the limit.
        """
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it died: reading says of what
            self.process.stdin.write(json.dumps({"steps": num_steps}) + "\n")
            self.process.stdin.flush()
        return self.read()["steps_per_second"]

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            if sys.platform == "win32":  # where what it has started is left alone
                self.process.kill()
            else:
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Closes the process's input and waits for its end; kills it after 10 s."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(CLOSE_LIMIT)
        except subprocess.TimeoutExpired:  # in the middle of a measurement, after an interruption
            self.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def parse_answer(line: str) -> dict | None:
    try:
        answer = json.loads(line)
    except json.JSONDecodeError:
        return None
    return answer if isinstance(answer, dict) else None
