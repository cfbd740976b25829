"""The default number of threads of a run: as many as its network's matrix products can use.

Measured in benchmarks/results/threads.txt: from about 200,000 parameters on, two threads are faster than one, and in a
stack of small networks, whose products are one for each member, from about 15 million parameters times rows on.
"""

from __future__ import annotations

import os

MEDIUM = 200_000  # parameters, targets included, from which two threads are faster than one
LARGE = 500_000  # from which all cores help
STACKED = 15_000_000  # parameters times rows of all members in an update, from which a stack is faster with two threads


def default_threads(parameters: int) -> int:
    """Returns the default number of threads for a network with so many parameters, at most this process's cores."""
    cores = available_cores()
    if parameters >= LARGE:
        return cores
    return min(2, cores) if parameters >= MEDIUM and waiting_is_bounded() else 1


def stacked_threads(alone: int, products: int) -> int:
    """Returns the default number of threads for a stack of runs that take `alone` threads each.

    `products` are the parameters of a member times the rows of an update, of all members together.
    """
    return max(alone, default_threads(MEDIUM)) if products >= STACKED else alone


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
