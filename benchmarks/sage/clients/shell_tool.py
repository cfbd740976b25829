"""The tool that the agents of this folder have."""

from __future__ import annotations

import subprocess


def run_command(command: str) -> str:
    """Runs a command in a shell and gives what it printed, with its exit code.

    Args:
        command: what the shell is to run
    """
    done = subprocess.run(
        ["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return f"{done.stdout}\nexit code: {done.returncode}"
