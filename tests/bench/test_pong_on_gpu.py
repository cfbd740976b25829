"""The program that compares Pong on a GPU, run on the CPU: nobody has seconds of a GPU to find out that it breaks."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

from tests import needs

needs.import_package("ale_py")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "pong_on_gpu.py"


@pytest.mark.slow
def test_all_of_it_runs_and_a_missing_library_costs_its_row_alone(tmp_path: Path, monkeypatch, capsys) -> None:
    """The interpreter of the tests has what CleanRL's loop needs, but usually no Stable-Baselines3."""
    given = ["--sb3-python", sys.executable, "--out", str(tmp_path), "--repeats", "1", "--tiny"]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *given])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    rows = json.loads((tmp_path / "speed.json").read_text())
    alone = [f"{name}-pong-gpu-emulators-alone" for name in ("dqn", "ppo")]
    assert set(rows) == {*alone, "dqn-pong-gpu", "ppo-pong-gpu-cleanrl"}
    dqn = rows["dqn-pong-gpu"]
    assert "No module named" in dqn["unavailable"] if "unavailable" in dqn else dqn["ratio_median"] > 0
    assert rows["ppo-pong-gpu-cleanrl"]["ratio_median"] > 0
    assert rows["ppo-pong-gpu-cleanrl"]["protocol"]["life_loss_terminal"]
    assert all(rows[name]["ours_steps_per_second"][0] > 0 for name in alone)
