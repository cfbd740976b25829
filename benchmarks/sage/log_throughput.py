"""How many decisions a second the log takes from several processes, and that a killed one loses nothing.

.venv/bin/python benchmarks/sage/log_throughput.py                       # writes results/log_throughput.json
.venv/bin/python benchmarks/sage/log_throughput.py --seconds 2 --out /tmp/x.json

Every process appends one decision after the other, each committed before the next, and notes every id that it was told
is logged in a file of its own. After half of the time one process gets SIGKILL. Then every noted id has to be in the log,
whole and once; more may be there only if a process was killed between the commit and the note: at most one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sqlite3
import tempfile
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np

from sage.files import write_json
from sage.log.decision_log import DecisionLog
from sage.log.records import Decision
from sage.policies.features import NAMES, VERSION

RESULT = Path(__file__).parent / "results" / "log_throughput.json"
MODELS = tuple(f"model-{k}" for k in range(9))


def make(decision_id: str) -> Decision:
    return Decision(
        id=decision_id,
        time=time.time(),
        data_source="synthetic",
        role="coder",
        candidates=MODELS,
        probabilities=(0.92, *(0.01,) * 8),
        model=MODELS[0],
        policy="static",
        policy_version="benchmark",
        features=(0.25,) * len(NAMES),
        features_version=VERSION,
        task_id=f"task-{decision_id}",
        category="benchmark",
        reason="static table: coder gets model-0",
    )


def work(index: int, log: Path, notes: Path, ready: Barrier, seconds: float) -> None:
    """Appends once all are ready, until the time is over; a note is 8 bytes: nanoseconds that `append` took, once it returned."""
    decisions = DecisionLog.open(log)
    handle = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ready.wait()
    number, end = 0, time.time() + seconds
    while time.time() < end:
        decision = make(f"{index}-{number}")
        before = time.perf_counter_ns()
        decisions.append(decision)
        os.write(handle, (time.perf_counter_ns() - before).to_bytes(8, "little"))
        number += 1


def measure(processes: int, seconds: float) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        log, notes = Path(folder) / "sage.db", [Path(folder) / f"notes-{i}" for i in range(processes)]
        DecisionLog.open(log).close()
        context = multiprocessing.get_context("spawn")
        ready = context.Barrier(processes + 1)
        workers = [context.Process(target=work, args=(i, log, notes[i], ready, seconds)) for i in range(processes)]
        for worker in workers:
            worker.start()
        ready.wait()  # a busy machine takes its time to start them
        time.sleep(seconds / 2)
        os.kill(workers[0].pid or 0, signal.SIGKILL)
        for worker in workers:
            worker.join()
        latency = [np.frombuffer(path.read_bytes(), np.int64) / 1e6 for path in notes]
        return verify(log, latency) | rates(latency, seconds) | {"killed_exit_code": workers[0].exitcode}


def verify(log: Path, latency: list[np.ndarray]) -> dict:
    """Compares what was noted with what is in the log."""
    logged = [decision.id for decision, _ in DecisionLog.open(log).rows()]
    noted = {f"{index}-{number}" for index, values in enumerate(latency) for number in range(len(values))}
    unnoted = set(logged) - noted
    with sqlite3.connect(log) as connection:
        intact = connection.execute("PRAGMA integrity_check").fetchone()[0]
    return {
        "acknowledged": len(noted),
        "logged": len(logged),
        "lost": len(noted - set(logged)),
        "twice": len(logged) - len(set(logged)),
        "committed_but_not_acknowledged": len(unnoted),
        "integrity_check": intact,
    }


def rates(latency: list[np.ndarray], seconds: float) -> dict:
    everything = np.concatenate(latency)
    return {
        "decisions_per_second": round(len(everything) / seconds, 1),
        "append_ms": {f"p{q:g}": round(float(np.percentile(everything, q)), 3) for q in (50, 99, 99.9)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    settings = {"processes": options.processes, "seconds": options.seconds, "killed_after_s": options.seconds / 2}
    machine = {"cores": os.cpu_count(), "load": os.getloadavg()[0], "nice": os.nice(0)}
    result = {"settings": settings, **machine, **measure(options.processes, options.seconds)}
    result["holds"] = result["decisions_per_second"] >= 2000 and result["lost"] == result["twice"] == 0
    write_json(options.out, result)
    print(options.out.read_text())


if __name__ == "__main__":
    main()
