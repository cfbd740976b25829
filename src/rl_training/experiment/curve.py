"""The learning curve of a run: a picture, and a few lines of text for a terminal."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np

log = logging.getLogger(__name__)
BLOCKS = " ▁▂▃▄▅▆▇█"


def read_lines(path: Path) -> list[dict]:
    """Returns the records of a log; lines that a crash or an editor damaged are left out, and said."""
    text = path.read_bytes() if path.exists() else b""
    lines, records, damaged = text.splitlines(keepends=True), [], []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except ValueError:  # which bytes that are no text are, too
            record = None
        if isinstance(record, dict):
            records.append(record)
        elif line.endswith(b"\n"):  # else it is being written, or was when its process was killed
            damaged.append(number)
    if damaged:
        log.warning(f"{path}: line {', '.join(map(str, damaged[:5]))} is damaged and was left out")
    return records


def having(rows: list[dict], *keys: str) -> list[dict]:
    """Returns the records with a number under each of the keys."""
    return [row for row in rows if all(isinstance(row.get(key), int | float) for key in keys)]


def training_curve(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Steps and returns of every finished episode."""
    rows = having(read_lines(folder / "episodes.jsonl"), "timesteps", "return")
    return np.array([r["timesteps"] for r in rows]), np.array([r["return"] for r in rows])


def evaluation_curve(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    keys = ("timesteps", "eval/mean_reward", "eval/std_reward")
    rows = having(read_lines(folder / "metrics.jsonl"), *keys)
    return tuple(np.array([r[key] for r in rows]) for key in keys)  # pyrefly: ignore


def draw_curve(folder: Path, title: str) -> Path | None:
    """Writes `learning_curve.png`; returns None where no episode has ended yet, in training or evaluation."""
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
    target = folder / "learning_curve.png"
    temporary = folder / ".learning_curve.png.tmp"
    figure.savefig(temporary, format="png")
    temporary.replace(target)
    return target


def text_curve(folder: Path, width: int = 60) -> str:
    """One line of block characters over the run, with the range it spans."""
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
