"""The learning curve of a run: a picture, and a few lines of text for a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

BLOCKS = " ▁▂▃▄▅▆▇█"


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def training_curve(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Steps and returns of every finished episode."""
    rows = read_lines(folder / "episodes.jsonl")
    return np.array([r["timesteps"] for r in rows]), np.array([r["return"] for r in rows])


def evaluation_curve(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = [r for r in read_lines(folder / "metrics.jsonl") if "eval/mean_reward" in r]
    return tuple(np.array([r[key] for r in rows]) for key in ("timesteps", "eval/mean_reward", "eval/std_reward"))  # pyrefly: ignore


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
