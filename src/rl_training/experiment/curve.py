"""The learning curve of a run: a picture, and a few lines of text for a terminal."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)
FEW = 100  # points that are marked
BLOCKS = " ▁▂▃▄▅▆▇█"


def read_lines(path: Path) -> list[dict]:
    """Returns the records of a JSON-lines log; empty if the file does not exist.

    Leaves out damaged lines, with a logged warning, and a last line that is not complete.
    """
    text = path.read_bytes() if path.exists() else b""
    lines, records, damaged = text.splitlines(keepends=True), [], []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # the first also for bytes that are no text
            record = None
        if isinstance(record, dict):
            records.append(record)
        elif line.endswith(b"\n"):  # else it is being written, or was when its process was killed
            damaged.append(number)
    if damaged:
        log.warning(f"{path}: line {', '.join(map(str, damaged[:5]))} is damaged and was left out")
    return records


def having(rows: list[dict], *keys: str) -> list[dict]:
    """Returns the records that have a number under each of the keys."""
    return [row for row in rows if all(isinstance(row.get(key), int | float) for key in keys)]


def training_curve(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns two arrays with one entry per finished training episode of a run: the step of its end, and its return."""
    rows = having(read_lines(folder / "episodes.jsonl"), "timesteps", "return")
    return np.array([r["timesteps"] for r in rows]), np.array([r["return"] for r in rows])


def evaluation_curve(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    keys = ("timesteps", "eval/mean_reward", "eval/std_reward")
    rows = having(read_lines(folder / "metrics.jsonl"), *keys)
    return tuple(np.array([r[key] for r in rows]) for key in keys)  # pyrefly: ignore


def draw_curve(folder: Path, title: str) -> Path | None:
    """Draws a run's learning curve, writes `learning_curve.png` in its folder and returns the path.

    Returns None, and writes nothing, if no episode has ended yet, in training or evaluation.
    """
    from matplotlib.figure import Figure  # without pyplot the caller's backend stays as it is

    steps, returns = training_curve(folder)
    eval_steps, mean, std = evaluation_curve(folder)
    if not len(steps) and not len(eval_steps):
        return None
    figure = Figure(figsize=(7, 4), dpi=120)
    axes = figure.subplots()
    if len(steps):
        axes.plot(steps, returns, ".", markersize=2, alpha=0.25, color="tab:blue", label="training episodes")
        window = max(1, min(100, len(returns) // 5))
        smooth = np.convolve(returns, np.ones(window) / window, mode="valid")
        axes.plot(steps[window - 1 :], smooth, color="tab:blue", label=f"mean of {window} episodes")
    if len(eval_steps):
        axes.errorbar(
            eval_steps, mean, std, color="tab:orange", marker="o", markersize=3, capsize=2, label="evaluation"
        )
    axes.set(title=title, xlabel="environment steps" if len(steps) else "updates", ylabel="return")
    axes.legend(loc="best", fontsize=8)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    return save_picture(figure, folder / "learning_curve.png")


def draw_seeds(runs: dict[int, Path], target: Path, title: str) -> Path | None:
    """Draws the learning curves of several runs in the PNG file `target` and returns it; `runs` maps seeds to folders.

    Shows a run's evaluations if it has at least two, else the running mean of its training episodes. Returns None, and
    writes nothing, if no run has a value yet.
    """
    from matplotlib.figure import Figure

    curves = {seed: smoothed(folder) for seed, folder in runs.items()}
    curves = {seed: curve for seed, curve in curves.items() if len(curve[0])}
    if not curves:
        return None
    figure = Figure(figsize=(7, 4), dpi=120)
    axes = figure.subplots()
    for seed, (steps, returns) in curves.items():
        axes.plot(steps, returns, marker="o" if len(steps) < FEW else None, markersize=3, label=f"seed {seed}")
    axes.set(title=title, xlabel="environment steps", ylabel="return")
    axes.legend(loc="best", fontsize=8)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    return save_picture(figure, target)


def smoothed(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns the points of a run's curve to plot: two arrays of equal length, steps and returns.

    They are its evaluations if there are two or more, else a running mean over its training episodes, else a single
    evaluation; both are empty if the run has none of these.
    """
    steps, mean, _ = evaluation_curve(folder)
    if len(steps) > 1:
        return steps, mean
    trained, returns = training_curve(folder)
    window = max(1, min(100, len(returns) // 5))
    if not len(returns):
        return steps, mean
    return trained[window - 1 :], np.convolve(returns, np.ones(window) / window, mode="valid")


def save_picture(figure: Figure, target: Path) -> Path:
    """Writes a figure as PNG to `target`, by way of a temporary file, and returns `target`."""
    temporary = target.with_name(f".{target.name}.tmp")
    figure.savefig(temporary, format="png")
    temporary.replace(target)
    return target


def text_curve(folder: Path, width: int = 60) -> str:
    """Returns one line of text: the run's returns over time as at most `width` block characters, with their range.

    Takes training episodes or, if there are none, evaluations. Returns "no episode has ended yet" without either.
    """
    steps, returns = training_curve(folder)
    if not len(steps):
        steps, returns, _ = evaluation_curve(folder)
    if not len(steps):
        return "no episode has ended yet"
    groups = [g for g in np.array_split(returns, min(width, len(returns))) if len(g)]
    means = np.array([g.mean() for g in groups])
    span = np.ptp(means) or 1.0
    bars = "".join(BLOCKS[round((m - means.min()) / span * (len(BLOCKS) - 1))] for m in means)
    return f"return {means.min():.0f} |{bars}| {means.max():.0f} over {steps[-1]:,} steps"
