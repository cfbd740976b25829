"""How many runs per second sandboxes give: `python -c pass`, and pytest on two tests.

.venv/bin/python benchmarks/sage/sandbox_rate.py --workers 2                      # adds to results/sandbox_rate.json
.venv/bin/python benchmarks/sage/sandbox_rate.py --backends docker --engine "docker --host unix:///run/other.sock"

Every worker is a thread with a backend of its own, which is warm before the clock starts. Each command is run for a number
of seconds by all workers at once; the rate is of all of them together. On a machine that others use their share is in the
numbers: `load` is the average of the minute before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from sage.files import write_json
from sage.sandbox.choose import BACKENDS
from sage.sandbox.contract import Backend, Command, Limits, SandboxError
from sage.sandbox.diagnosis import PYTEST, SAMPLE
from sage.sandbox.docker_runner import Docker

RESULT = Path(__file__).parent / "results" / "sandbox_rate.json"
COMMANDS = {"python": ("python", "-c", "pass"), "pytest": PYTEST}


def run_once(backend: Backend, command: Command) -> None:
    result = backend.run(SAMPLE, command, Limits(cpu_s=60, wall_s=60))
    if not result.succeeded:
        raise SystemExit(f"a run of {command.argv} failed: {result}")


def runs_until(backend: Backend, command: Command, deadline: float) -> int:
    runs = 0
    while time.monotonic() < deadline:
        run_once(backend, command)
        runs += 1
    return runs


def rates(build: Callable[[], Backend], workers: int, seconds: float) -> dict[str, float]:
    """Runs per second of all workers together, by command."""
    backends = [build() for _ in range(workers)]
    found = {}
    try:
        with ThreadPoolExecutor(workers) as pool:
            for name, argv in COMMANDS.items():
                command = Command(argv=argv)
                list(pool.map(run_once, backends, [command] * workers))
                start = time.monotonic()
                each = pool.map(runs_until, backends, [command] * workers, [start + seconds] * workers)
                found[f"{name}_per_s"] = round(sum(each) / (time.monotonic() - start), 1)
    finally:
        for backend in backends:
            backend.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", nargs="+", choices=tuple(BACKENDS), default=["zygote", "bubblewrap", "docker"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--engine", help="the words that begin a command of Docker (docker)")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    rows = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else []
    for name in options.backends:
        build = BACKENDS[name]
        if name == "docker" and options.engine:
            build = partial(Docker, engine=shlex.split(options.engine))
        row = {
            "backend": name,
            "workers": options.workers,
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
        }
        try:
            row |= rates(build, options.workers, options.seconds)
        except SandboxError as error:
            raise SystemExit(f"{name}: {error}") from error
        rows.append(row | {"python": platform.python_version(), "kernel": platform.release()})
        print(rows[-1])
        write_json(options.out, rows)


if __name__ == "__main__":
    main()
