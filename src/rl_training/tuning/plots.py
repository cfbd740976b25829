"""Pictures of a study, as SVG to stand in a page."""

from __future__ import annotations

import math

import matplotlib as mpl
from matplotlib.figure import Figure

from rl_training.experiment.html_page import LINE, OTHER, OURS, to_svg
from rl_training.tuning.records import Trial
from rl_training.tuning.space import Space


def history_plot(trials: list[Trial]) -> str | None:
    """Draws the value of every complete trial and the best so far, as SVG text; None if no trial is complete.

    Pruned trials are marked at the value that they had when they ended.
    """
    complete = [(t.number, t.value) for t in trials if t.value is not None]
    if not complete:
        return None
    figure = Figure(figsize=(8, 3))
    axes = figure.subplots()
    cut = [(t.number, t.curve[t.reached]) for t in trials if t.state == "pruned" and t.curve]
    if cut:
        axes.plot(*zip(*cut, strict=True), "x", color=OTHER, label="pruned: the value when it ended")
    axes.plot(*zip(*complete, strict=True), "o", color=OURS, label="complete")
    best = [max(value for _, value in complete[: i + 1]) for i in range(len(complete))]
    numbers = [number for number, _ in complete]
    axes.plot(numbers, best, color=LINE, linewidth=1, drawstyle="steps-post", label="best so far")
    return finished(figure, "trial", "objective")


def curves_plot(trials: list[Trial], best: Trial | None) -> str | None:
    """Draws the objective over steps of every trial, `best` in colour, as SVG text; None without evaluations."""
    drawn = [t for t in trials if t.curve]
    if not drawn:
        return None
    figure = Figure(figsize=(8, 3))
    axes = figure.subplots()
    for trial in drawn:
        chosen = best is not None and trial.number == best.number
        color = OURS if chosen else OTHER
        label = f"trial {trial.number}, the best" if chosen else None
        steps = sorted(trial.curve)
        values = [trial.curve[step] for step in steps]
        mark = "x" if trial.state == "pruned" else None
        axes.plot(steps, values, color=color, linewidth=2 if chosen else 0.8, zorder=2 + chosen, label=label, marker=mark,
                  markevery=[-1])  # fmt: skip
    return finished(figure, "steps", "objective so far")


def importance_plot(importances: dict[str, float]) -> str | None:
    """Draws the importance of each setting, {path: share of 1}, as SVG text; None if `importances` is empty."""
    if not importances:
        return None
    names = sorted(importances, key=importances.__getitem__)
    figure = Figure(figsize=(8, 0.6 + 0.28 * len(names)))
    axes = figure.subplots()
    axes.barh(names, [importances[name] for name in names], color=OURS, height=0.7)
    axes.set_xlim(0, 1)
    return finished(figure, "share of the importance", "")


def parallel_plot(trials: list[Trial], space: Space) -> str | None:
    """Draws a line for each trial, through its settings to its value, as SVG text; the better, the darker.

    Returns None if fewer than two trials have a value and all settings.
    """
    drawn = [(t, value) for t in trials if (value := last_value(t)) is not None and t.params.keys() == space.keys()]
    if len(drawn) < 2:
        return None
    values = [value for _, value in drawn]
    low, span = min(values), max(max(values) - min(values), 1e-12)
    figure = Figure(figsize=(max(8, 1.15 * (len(space) + 1)), 4))
    axes = figure.subplots()
    places, colors = range(len(space) + 1), mpl.colormaps["viridis_r"]
    for trial, value in sorted(drawn, key=lambda pair: pair[1]):
        share = (value - low) / span
        heights = [param.share_of(trial.params[path]) for path, param in space.items()]
        width = 1.2 if trial.value is not None else 0.5
        axes.plot(places, [*heights, share], color=colors(share), linewidth=width, alpha=0.35 + 0.6 * share)
    for place, param in enumerate(space.values()):
        ends = param.ends
        for share, end in ((0.0, ends[0]), (1.0, ends[-1])):
            text = end if isinstance(end, str) else f"{end:.3g}"
            axes.annotate(
                text, (place, share), xytext=(3, -10 if share == 0 else 4), textcoords="offset points", fontsize=7
            )
    for share, end in ((0.0, min(values)), (1.0, max(values))):
        place = (len(space), share)
        axes.annotate(f"{end:.4g}", place, xytext=(3, -10 if share == 0 else 4), textcoords="offset points", fontsize=7)
    for place in places:
        axes.axvline(place, color=LINE, linewidth=0.6)
    names = [path.partition(".")[2] for path in space]
    axes.set_xticks(places, [*names, "objective"], fontsize=7, rotation=20, ha="right")
    axes.set_yticks([])
    axes.set_ylim(-0.08, 1.08)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    return to_svg(figure)


def last_value(trial: Trial) -> float | None:
    """Returns a trial's value or, without one, its last objective so far; None if that is missing or not finite."""
    if trial.value is not None:
        return trial.value
    value = trial.curve[trial.reached] if trial.curve else math.nan
    return value if math.isfinite(value) else None


def finished(figure: Figure, across: str, up: str) -> str:
    axes = figure.axes[0]
    axes.set(xlabel=across, ylabel=up)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", fontsize=7, frameon=False)
    return to_svg(figure)
