"""Exported policies compared with `agent.predict`."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from rl_training import Agent
from rl_training.export.export_policy import open_policy
from rl_training.export.run_policy import Policy, difference
from tests.core.test_policy_decide import OBS, sample

PACKAGES = ("numpy", "onnxruntime", "flatbuffers", "google")  # all that a policy in a file needs
ENVIRONMENT = ("gymnasium", "farama_notifications", "cloudpickle", "typing_extensions")  # and its environment


def drawn(obs: str, num: int, seed: int = 5) -> Any:
    """Observations of a space of `test_policy_decide`, as environments give them."""
    space = OBS[obs]
    space.seed(seed)
    rows = [sample(space) for _ in range(num)]
    return (
        {key: np.stack([row[key] for row in rows]) for key in rows[0]} if isinstance(rows[0], dict) else np.stack(rows)
    )


def row_of(obs: Any, index: int) -> Any:
    return {key: part[index] for key, part in obs.items()} if isinstance(obs, dict) else obs[index]


def same(found: np.ndarray, expected: np.ndarray) -> None:
    """Choices are equal; numbers to 1e-5, relative to the largest of a row above 1."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.dtype.kind == "f":
        rows = np.atleast_2d(expected)
        assert difference(np.atleast_2d(found), rows, 1.0) <= 1e-5
    else:
        np.testing.assert_array_equal(found, expected)


def compare(agent: Agent, path: Path, obs: Any, singles: int = 20) -> Policy:
    """Exports an agent, and compares the file with it for a batch and for single observations."""
    exported = agent.export(path)
    assert (exported.observations, exported.largest_difference <= 1e-5) == (1000, True)
    policy = open_policy(path)
    same(policy.predict(obs)[0], agent.predict(obs)[0])
    for index in range(singles):
        same(np.asarray(policy.predict(row_of(obs, index))[0]), np.asarray(agent.predict(row_of(obs, index))[0]))
    return policy


def compare_steps(agent: Agent, policy: Policy, obs: Any, starts: np.ndarray) -> None:
    """Compares a policy with memory over `starts` [time, row] steps of `obs` [time * row, ...]."""
    state, ours = None, None
    times, rows = starts.shape
    for time in range(times):
        part = row_of(obs, slice(time * rows, (time + 1) * rows))
        first = starts[time] if time else None
        action, state = policy.predict(part, state, first)
        expected, ours = agent.predict(part, ours, first)
        same(action, expected)
        assert state is not None
        assert ours is not None
        for found, known in zip(state, ours, strict=True):
            same(found, known)


def run_apart(code: str, folder: Path, *packages: str) -> str:
    """Runs a program in `folder` where nothing but the given packages can be imported; returns what it printed."""
    site = folder / "site"
    site.mkdir()
    for name in packages:
        found = find_spec(name)
        assert found is not None
        origin = Path(next(iter(found.submodule_search_locations or [found.origin or ""])))
        for part in origin.parent.glob(f"{origin.stem}*"):
            if not (site / part.name).exists():
                os.symlink(part, site / part.name)
    start = (
        f"import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p] + {[str(folder), str(site)]!r}\n"
    )
    command = [sys.executable, "-I", "-S", "-c", start + code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
