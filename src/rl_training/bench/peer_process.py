"""A process that measures another library when asked; the other side is `peers/protocol.py`."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from rl_training.bench.peer_environments import PeerUnavailableError

SCRIPTS = Path(__file__).parent / "peers"


class Peer:
    """One peer at one piece of work; raises `PeerUnavailableError` with what it said last where it cannot do it."""

    def __init__(self, name: str, python: Path, work: dict, script: Path | None = None) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (open as long as the process)
        self.process = subprocess.Popen(
            [str(python), str(script or SCRIPTS / f"{name}_speed.py"), json.dumps(work)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(work["threads"])},
        )
        self.versions = self.read()

    def read(self) -> dict:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            said = [text.strip() for text in self.errors.read().splitlines() if text.strip()]
            raise PeerUnavailableError(
                f"it failed: {said[-1][:300] if said else f'exit code {self.process.returncode}'}"
            )
        answer = json.loads(line)
        if "unavailable" in answer:
            self.close()
            raise PeerUnavailableError(answer["unavailable"])
        return answer

    def measure(self, num_steps: int) -> float:
        """Steps per second over so many steps."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"steps": num_steps}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it died: reading says of what
        return self.read()["steps_per_second"]

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()
