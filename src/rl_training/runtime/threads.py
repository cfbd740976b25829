"""The default number of threads of a run: as many as its network's matrix products can use.

Measured in benchmarks/results/threads.txt: from about 200,000 parameters on, two threads are faster than one.
"""

from __future__ import annotations

import os

MEDIUM = 200_000  # parameters, targets included, from which two threads are faster than one
LARGE = 500_000  # from which all cores help


def default_threads(parameters: int) -> int:
    """Returns the default number of threads for a network with so many parameters, at most this process's cores."""
    cores = available_cores()
    if parameters >= LARGE:
        return cores
    return min(2, cores) if parameters >= MEDIUM and waiting_is_bounded() else 1


def available_cores() -> int:
    """Returns the number of cores that this process may use, at most OMP_NUM_THREADS if that is set."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores


def waiting_is_bounded() -> bool:
    """Returns True if environment variables make waiting OpenMP threads sleep soon.

    If not, two threads beside a busy process hardly progress. OpenMP reads the variables when torch is loaded; `import
    rl_training` sets one of them, unless torch was imported before.
    """
    return "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ
