"""What runs where there is no `fcntl`, as on Windows, and no `SIGRTMAX`, `select.poll` or `os.killpg`."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rl_base.shown_warnings import warnings_shown
from rl_training.cli.main import main
from rl_training.data.files import sync
from rl_training.experience.allocation import Allocator

WITHOUT_FCNTL = Path(__file__).parent / "without_fcntl"
PROGRAM = """
import os, select, signal, sys
from pathlib import Path

for module, names in ((os, ("fork", "killpg", "sched_getaffinity", "getloadavg", "lockf")), (select, ("poll",)),
                      (signal, ("SIGRTMAX", "SIGKILL", "SIGALRM", "SIGUSR1", "SIGHUP", "pthread_kill"))):
    for name in names:
        delattr(module, name)
assert sys.modules["fcntl"] is None

import numpy as np
import rl_training
from rl_training.cli import main
from sage import DecisionLog
from sage.cli.main import main as sage

agent = rl_training.PPO("CartPole-v1", n_envs=2, n_steps=16, batch_size=16, n_epochs=1, run_dir="mine")
agent.learn(64)
agent.save("saved")
assert rl_training.load("saved").predict(np.zeros((2, 4), np.float32))[0].shape == (2,)
short = ["--set", "algorithm.n_epochs=1", "--set", "evaluation.episodes=1", "--quiet"]
assert main(["train", "ppo/cartpole", "--total-timesteps", "2048", "--stop-at", "512", "--run-dir", "run", *short]) == 0
assert main(["resume", "run", "--quiet"]) == 0
assert main(["eval", "run", "--episodes", "1"]) == 0
assert sage(["init", "--models", "m.yaml"]) == 0
assert sage(["route", "--role", "coder", "--db", "a.db", "--models", "m.yaml"]) == 0
assert DecisionLog.open("a.db").counts()["decisions"] == 1
"""


def test_without_what_only_posix_has_runs_train_resume_and_route(tmp_path: Path) -> None:
    path = os.pathsep.join([str(WITHOUT_FCNTL), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "finished" in done.stdout


def test_a_screen_without_a_letter_shows_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of Windows, where output goes to a file."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252"))
    assert main(["presets", "list"]) == 0
    with warnings_shown("rl_training"):
        print("\u2581 caf\u00e9", flush=True)
    assert written.getvalue().endswith("? caf\u00e9".encode("cp1252") + os.linesep.encode())


def test_windows_is_not_asked_for_what_it_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    opened = []
    monkeypatch.setattr("rl_training.data.files.os.open", lambda path, flags: opened.append((path, flags)) or 0)
    monkeypatch.setattr("rl_training.data.files.os.fsync", opened.append)
    monkeypatch.setattr("rl_training.data.files.os.close", opened.append)
    with monkeypatch.context() as on_windows:
        on_windows.setattr(sys, "platform", "win32")
        sync(tmp_path)  # a folder
        assert opened == []
        sync(tmp_path / "file")
        assert opened == [(tmp_path / "file", os.O_RDWR), 0, 0]
        with pytest.raises(ValueError, match=r"buffer_folder='.*' needs files .* Windows .*: drop it"):
            Allocator(torch.device("cpu"), str(tmp_path))
