"""How many threads a run takes follows from its network, the cores and what the user says; nothing is timed."""

import os
import subprocess
import sys

import pytest

from rl_training.runtime.threads import LARGE, MEDIUM, STACKED, default_threads, stacked_threads


@pytest.mark.parametrize(
    ("parameters", "cores", "told", "expected"),
    [
        (MEDIUM - 1, 8, {"GOMP_SPINCOUNT": "2000"}, 1),
        (MEDIUM, 8, {"GOMP_SPINCOUNT": "2000"}, 2),
        (MEDIUM, 8, {"OMP_WAIT_POLICY": "passive"}, 2),
        (MEDIUM, 8, {}, 1),  # torch was there first: waiting threads would spin
        (MEDIUM, 1, {"GOMP_SPINCOUNT": "2000"}, 1),
        (LARGE, 8, {"GOMP_SPINCOUNT": "2000"}, 8),
        (LARGE, 8, {"GOMP_SPINCOUNT": "2000", "OMP_NUM_THREADS": "3"}, 3),
        (LARGE, 8, {"OMP_NUM_THREADS": "4,2"}, 4),
        (LARGE, 2, {"OMP_NUM_THREADS": "64"}, 2),
        (MEDIUM, 8, {"GOMP_SPINCOUNT": "2000", "OMP_NUM_THREADS": "1"}, 1),
        (LARGE, 8, {"OMP_NUM_THREADS": "many"}, 8),
    ],
)
def test_threads_by_size_cores_and_what_is_told(parameters, cores, told, expected, monkeypatch) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    assert default_threads(parameters) == expected


@pytest.mark.parametrize(
    ("alone", "products", "expected"), [(1, STACKED - 1, 1), (1, STACKED, 2), (8, STACKED, 8), (2, 1, 2)]
)
def test_threads_of_a_stack_by_the_work_of_all_members(alone, products, expected, monkeypatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("GOMP_SPINCOUNT", "2000")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert stacked_threads(alone, products) == expected


@pytest.mark.parametrize(
    ("script", "told", "expected"),
    [
        ("import rl_training", {}, "2000"),
        ("import rl_training", {"GOMP_SPINCOUNT": "7"}, "7"),
        ("import rl_training", {"OMP_WAIT_POLICY": "active"}, "None"),
        ("import sys; sys.modules['torch'] = None; import rl_training", {}, "None"),  # as if it were loaded
    ],
)
def test_waiting_is_bounded_unless_the_user_or_torch_was_first(script: str, told: dict, expected: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")} | told
    command = [sys.executable, "-c", f"{script}; import os; print(os.environ.get('GOMP_SPINCOUNT'))"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
