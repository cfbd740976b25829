"""Commands on this machine, without a sandbox: for `sage run --unsafe`, and for nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from sage.sandbox import Command, Files, Limits, Result
from sage.sandbox.contract import checked_files


class Host:
    """Backend that holds nothing: commands have all rights of the user, in a copy of the files.

    Only new files at the top of that copy come back.
    """

    name = "the host"

    def run(self, files: Files, command: Command, limits: Limits) -> Result:
        checked_files(files, limits)
        with tempfile.TemporaryDirectory(prefix="sage-run-") as folder:
            for path, content in files.items():
                target = Path(folder, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            result = run_in(Path(folder), command, limits)
            return replace(result, changed=made_at_the_top(Path(folder), files, limits))

    def interrupt(self) -> None:
        """Does nothing: a command ends with its time."""

    def close(self) -> None:
        """Does nothing: no process is left between two runs."""


def made_at_the_top(folder: Path, files: Files, limits: Limits) -> dict[str, bytes | None]:
    """Returns the content of new plain files in the folder itself, by name; larger ones than `file_mb` are left out."""
    made: dict[str, bytes | None] = {}
    for path in folder.iterdir():
        plain = path.is_file() and not path.is_symlink() and path.stat().st_size <= limits.file_mb * 2**20
        if plain and path.name not in files:
            made[path.name] = path.read_bytes()
    return made


def run_in(folder: Path, command: Command, limits: Limits) -> Result:
    """Runs a command in the folder to its end or to the end of its time, and returns its result."""
    python = command.argv[0] == "python" and shutil.which("python") is None
    argv = (sys.executable, *command.argv[1:]) if python else command.argv
    began = time.monotonic()
    process = subprocess.Popen(
        argv,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(command.stdin, timeout=limits.wall_s)
        ended_by = "exit" if process.returncode >= 0 else "signal"
    except subprocess.TimeoutExpired:
        end(process)
        out, err = process.communicate()
        ended_by = "wall_s"
    finally:
        end(process)
    code = process.returncode if ended_by == "exit" else None
    most = limits.output_bytes
    return Result(code=code, ended_by=ended_by, out=out[-most:], err=err[-most:], wall_s=time.monotonic() - began)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and everything that it started and that stayed in its session."""
    if os.name == "posix":
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
    else:
        process.kill()
