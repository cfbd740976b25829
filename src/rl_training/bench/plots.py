"""Pictures of the results, as SVG to stand in a page."""

from __future__ import annotations

import math
import statistics

from matplotlib.figure import Figure

from rl_training.bench.gates import Verdict
from rl_training.bench.records import Record
from rl_training.evaluation import Profile
from rl_training.experiment.html_page import LINE, OTHER, OURS, to_svg

COLUMNS = 4


def speed_plot(results: dict[str, dict]) -> str | None:
    """Returns an SVG of our speed divided by each peer's, on a logarithmic scale, with ranges; None without such rows.

    `results` are the rows of `speed.json` by name.
    """
    rows = [(name, r) for name, r in results.items() if "ratio_median" in r]
    if not rows:
        return None
    figure = Figure(figsize=(8, 0.6 + 0.28 * len(rows)))
    axes = figure.subplots()
    places = range(len(rows), 0, -1)
    middles = [r["ratio_median"] for _, r in rows]
    below = [r["ratio_median"] - r["ratio_min"] for _, r in rows]
    above = [r["ratio_max"] - r["ratio_median"] for _, r in rows]
    axes.barh(places, middles, color=[OURS if middle >= 1 else OTHER for middle in middles], height=0.7)
    axes.errorbar(middles, places, xerr=[below, above], fmt="none", ecolor=LINE, capsize=2, linewidth=1)
    axes.axvline(1.0, color=LINE, linewidth=1)
    axes.set_xscale("log")
    ticks = [tick for tick in (0.5, 1, 2, 5, 10, 20, 50) if tick <= 1.2 * max(r["ratio_max"] for _, r in rows)]
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(places, [f"{name} / {r['peer']}" for name, r in rows])
    axes.set_xlabel("our steps per second / the peer's")
    axes.spines[["top", "right"]].set_visible(False)
    return to_svg(figure)


def interval_plot(verdicts: list[Verdict], scales: dict[str, list[float]]) -> str | None:
    """Returns an SVG of all runs on a scale from floor (0) to published mean or gate (1); None without runs.

    `scales` holds the scores of the runs on this scale by cell; the verdicts give the order and the color.
    """
    rows = [(verdict, scales[verdict.cell]) for verdict in verdicts if verdict.cell in scales]
    if not rows:
        return None
    figure = Figure(figsize=(8, 0.6 + 0.24 * len(rows)))
    axes = figure.subplots()
    for place, (verdict, scores) in zip(range(len(rows), 0, -1), rows, strict=True):
        color = "#b03a2e" if verdict.met is False else OURS
        axes.plot(scores, [place] * len(scores), "o", color=color, alpha=0.5, markersize=4)
        axes.plot([statistics.fmean(scores)], [place], "|", color=color, markersize=12)
    axes.axvline(1.0, color=LINE, linewidth=1)
    axes.axvline(0.0, color=OTHER, linewidth=1)
    axes.set_yticks(range(len(rows), 0, -1), [verdict.cell for verdict, _ in rows])
    axes.set_xlabel("0: nothing learned, 1: published mean, or the gate")
    axes.spines[["top", "right"]].set_visible(False)
    return to_svg(figure)


def profile_plot(profile: Profile) -> str:
    """Returns an SVG of the share of runs above each normalised score, with its pointwise band."""
    figure = Figure(figsize=(8, 3))
    axes = figure.subplots()
    axes.fill_between(profile.thresholds, profile.low, profile.high, color=OURS, alpha=0.2, linewidth=0, step="post")
    axes.plot(profile.thresholds, profile.share, color=OURS, linewidth=1.5, drawstyle="steps-post")
    axes.axvline(1.0, color=LINE, linewidth=1)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(profile.thresholds[0], profile.thresholds[-1])
    axes.set_xlabel("score, 0: nothing learned, 1: published mean, or the gate")
    axes.set_ylabel("share of runs above it")
    axes.spines[["top", "right"]].set_visible(False)
    return to_svg(figure)


def curves_plot(cells: dict[str, list[Record]]) -> str | None:
    """Returns an SVG of the evaluations during training in each cell, as mean and range over seeds.

    `cells` are records of runs by cell's name; without any the result is None.
    """
    if not cells:
        return None
    rows = math.ceil(len(cells) / COLUMNS)
    figure = Figure(figsize=(3 * COLUMNS, 2.1 * rows))
    grid = figure.subplots(rows, COLUMNS, squeeze=False)
    for axes in grid.flat[len(cells) :]:
        axes.set_visible(False)
    for axes, (name, records) in zip(grid.flat, cells.items(), strict=False):
        curves = [dict(map(tuple, record["evaluations"])) for record in records]
        steps = sorted(set.intersection(*(set(curve) for curve in curves)))
        columns = [[curve[step] for curve in curves] for step in steps]
        axes.fill_between(
            steps, [min(c) for c in columns], [max(c) for c in columns], color=OURS, alpha=0.2, linewidth=0
        )
        axes.plot(steps, [statistics.fmean(c) for c in columns], color=OURS, linewidth=1.2)
        axes.set_title(name, fontsize=8)
        axes.tick_params(labelsize=6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return to_svg(figure)
