"""What is written down during a run, and the picture drawn from it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest

from rl_training.experiment.curve import draw_curve, evaluation_curve, text_curve, training_curve
from rl_training.experiment.loggers import JsonLines, ProgressBar
from rl_training.runtime import Episode, EvalResult, Progress
from rl_training.runtime.phases import Plan

RESULT = EvalResult((1.0, 3.0), (10, 20))


def trainer_at(timesteps: int) -> SimpleNamespace:
    """As much of a trainer as loggers look at."""
    return SimpleNamespace(
        progress=Progress(env_steps=timesteps),
        logged_at=timesteps,
        plan=Plan([], {}),
        recent=[Episode(4, 0, 2.0, 2), Episode(8, 1, 4.0, 4)],
    )


def rows(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_json_lines_append_and_hold_only_json_numbers(tmp_path):
    for timesteps in (8, 16):
        logger = JsonLines(tmp_path)
        logger.on_start(trainer_at(timesteps))
        logger.on_steps(trainer_at(timesteps), [Episode(timesteps, 1, 2.5, 3)])
        logger.on_log(trainer_at(timesteps), {"train/loss": float("nan"), "time/fps": 2.0})
        logger.on_evaluation(trainer_at(timesteps), RESULT)
        logger.close()
    assert rows(tmp_path / "episodes.jsonl") == [
        {"timesteps": n, "env": 1, "return": 2.5, "length": 3} for n in (8, 16)
    ]
    metrics = rows(tmp_path / "metrics.jsonl")
    assert metrics[0] == {"timesteps": 8, "train/loss": None, "time/fps": 2.0}
    assert metrics[3] == {
        "timesteps": 16, "eval/mean_reward": 2.0, "eval/std_reward": 1.0, "eval/mean_ep_length": 15.0,
        "eval/returns": [1.0, 3.0],
    }  # fmt: skip


def test_json_lines_name_the_file_that_cannot_be_written():
    from pathlib import Path

    logger = JsonLines(Path("somewhere"))
    logger.files = {"metrics": open("/dev/full", "w")}  # noqa: SIM115
    with pytest.raises(OSError, match="No space left on device: free space, then resume") as caught:
        logger.write("metrics", [{"timesteps": 1}])
    assert caught.value.filename == "somewhere/metrics.jsonl"
    logger.close()


def test_progress_without_a_terminal_is_plain_lines_on_standard_error(capsys):
    bar = ProgressBar(1000, seconds_between_lines=-1.0)
    bar.on_start(trainer_at(0))
    bar.on_steps(trainer_at(500), [])
    bar.on_evaluation(trainer_at(500), RESULT)
    bar.close()
    out, err = capsys.readouterr()
    assert out == ""
    first, second = err.splitlines()
    assert first.startswith("500/1,000 env steps  return 3.0  ")
    assert first.endswith(" left")
    assert second == "500 env steps: evaluation return 2.0 +- 1.0 (2 episodes)"


def write_run(folder) -> None:
    episodes = [{"timesteps": 10 * n, "return": float(n), "env": 0, "length": 10} for n in range(1, 121)]
    (folder / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in episodes))
    metrics = [{"timesteps": 600, "eval/mean_reward": 5.0, "eval/std_reward": 1.0}, {"timesteps": 700, "train/loss": 1}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics))


def test_curves_are_read_back(tmp_path):
    write_run(tmp_path)
    steps, returns = training_curve(tmp_path)
    assert np.array_equal(steps, 10 * np.arange(1, 121))
    assert np.array_equal(returns, np.arange(1, 121))
    assert [part.tolist() for part in evaluation_curve(tmp_path)] == [[600], [5.0], [1.0]]


def test_the_picture_is_drawn_without_touching_the_callers_matplotlib(tmp_path):
    write_run(tmp_path)
    before = mpl.rcParams._get("backend") if hasattr(mpl.rcParams, "_get") else mpl.get_backend()
    assert draw_curve(tmp_path, "title") == tmp_path / "learning_curve.png"
    assert (tmp_path / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert (mpl.rcParams._get("backend") if hasattr(mpl.rcParams, "_get") else mpl.get_backend()) == before
    assert not (tmp_path / ".learning_curve.png.tmp").exists()


def test_text_curve_rises_with_the_returns(tmp_path):
    assert text_curve(tmp_path) == "no episode has ended yet"
    assert draw_curve(tmp_path, "title") is None
    write_run(tmp_path)
    line = text_curve(tmp_path, width=8)
    assert line == "return 8 | ▁▂▃▅▆▇█| 113 over 1,200 steps"
