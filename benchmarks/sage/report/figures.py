"""The figures of the report, as SVG files whose bytes depend on the results only."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from result_tables import folder, read
from sim_tables import SIM_CELLS, sampled_scores

from report.local import LOCAL
from report.parts import gate_rows
from rl_training.evaluation import bootstrap_interval, iqm

BLUE, ORANGE, GREEN, GREY = "#2f6db3", "#d9772b", "#3c9461", "#8a8f98"
STYLE = {
    "svg.hashsalt": "sage",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e3e5e8",
    "legend.frameon": False,
}


def false_promotion(axes: Axes, results: Path) -> None:
    rows = gate_rows(results)
    for shift, key, label, color in (
        (-0.2, "false_promotion", "gate", BLUE),
        (0.2, "naive_false_promotion", "naive rule", ORANGE),
    ):
        axes.bar([i + shift for i in range(len(rows))], [row[key] for row in rows], 0.36, label=label, color=color)
    axes.axhline(0.05, color=GREY, linestyle="--", linewidth=1, label="must: at most .05")
    axes.set_xticks(range(len(rows)), [row["table"] for row in rows])
    axes.set_ylabel("promoted though not better")
    axes.set_ylim(0, 0.6)
    axes.grid(axis="x", visible=False)
    axes.legend(loc="upper center", ncols=3)


def power_by_gain(axes: Axes, results: Path) -> None:
    rows = gate_rows(results)
    for row, color in zip(rows, (BLUE, ORANGE, GREEN, GREY), strict=False):
        bins = [b for b in row["power_by_gain"] if b["draws"] >= 10]
        names = [gain_name(b) for b in bins]
        axes.plot(names, [b["power"] for b in bins], marker="o", markersize=4, label=row["table"], color=color)
    axes.set_ylim(0, 1.03)
    axes.set_xlabel("true gain in reward, points (bins of at least 10 draws)")
    axes.set_ylabel("promoted")
    axes.legend()


def gain_name(bin_: dict) -> str:
    low, high = (f"{100 * bin_[side]:g}" for side in ("from", "to"))
    return f"above {low}" if bin_["to"] >= 1 else f"{low} to {high}"


def coverage(axes: Axes, results: Path) -> None:
    names = [row["table"] for row in gate_rows(results)]
    for setting, marker, color in (("random", "o", BLUE), ("best", "s", ORANGE)):
        rows = {row["table"]: row for row in gate_rows(results, setting)}
        shown = [name for name in names if name in rows]
        axes.plot(
            [names.index(name) for name in shown],
            [rows[name]["coverage"] for name in shown],
            marker,
            label=f"{setting} static table",
            color=color,
        )
    axes.axhline(0.95, color=GREY, linestyle="--", linewidth=1, label="nominal")
    axes.axhspan(0.935, 0.965, color=GREY, alpha=0.15, linewidth=0, label="must")
    axes.set_ylim(0.92, 0.98)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("coverage")
    axes.legend(loc="upper center", ncols=4, fontsize=8)


def learned_gain(axes: Axes, results: Path) -> None:
    rows = read(results / "learn_from_log.json")["results"]
    for shift, name, color in ((-0.2, "dr", BLUE), (0.2, "table", ORANGE)):
        found = [row["learners"][name] for row in rows]
        axes.bar(
            [i + shift for i in range(len(rows))],
            [x["mean_gain"] for x in found],
            0.36,
            label=f"train-{name}, mean",
            color=color,
        )
        axes.plot(
            [i + shift for i in range(len(rows))],
            [x["worst_gain"] for x in found],
            "_",
            color="black",
            label="worst trial" if shift > 0 else None,
        )
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(rows)), [f"{row['table']}\n{row['setting']}" for row in rows], fontsize=6)
    axes.set_ylabel("gain over the static table")
    axes.grid(axis="x", visible=False)
    axes.legend()


def cascades(axes: Axes, results: Path) -> None:
    for verifier, color in (([0.95, 0.1], BLUE), ([0.8, 0.3], ORANGE)):
        cells = [cell for cell in folder(results / "cascades") if "pooled" in cell and cell["verifier"][:2] == verifier]
        points = [point for cell in cells for point in cell["pooled"]["learned"].values()]
        label = f"verifier {100 * verifier[0]:g}/{100 * verifier[1]:g}"
        axes.plot(
            [p["cost"] for p in points], [p["quality"] for p in points], "o", markersize=4, color=color, label=label
        )
    axes.axhline(1, color=GREY, linestyle="--", linewidth=1, label="the best single model")
    axes.set_xlabel("cost over the best single model's")
    axes.set_ylabel("quality over its quality")
    axes.legend(loc="lower right")


def local_models(axes: Axes, results: Path) -> None:
    found = read(results / LOCAL)
    single = {name: row for name, row in found["models"]["all"].items() if name != "tasks"}
    kinds = (
        (single, "single model", "s", GREY),
        (found["ladders"], "ladder", "o", ORANGE),
        (found["learned"], "learned cascade", "D", BLUE),
    )
    for rows, label, marker, color in kinds:
        axes.plot(
            [r["cpu_s"] for r in rows.values()], [r["quality"] for r in rows.values()], marker, color=color, label=label
        )
    for name, row in single.items():
        axes.annotate(
            name, (row["cpu_s"], row["quality"]), xytext=(0, -12), textcoords="offset points", fontsize=7, ha="center"
        )
    axes.margins(x=0.15, y=0.15)
    axes.set_xlabel("processor seconds per task")
    axes.set_ylabel("right answers")
    axes.legend(loc="lower right")


def simulator(axes: Axes, results: Path) -> None:
    baselines = read(results / "sim_ppo" / "baselines.json")["scores"]["unseen"]
    bars = {
        name.replace("_", " "): (baselines[name]["normalised"], None)
        for name in ("best_constant", "ochiai", "heuristic")
    }
    for cell in SIM_CELLS:
        scores = [row["normalised"] for row in sampled_scores(cell, results / "sim_ppo")]
        bars["PPO" if cell == "main" else f"PPO, {cell.replace('_', ' ')}"] = (iqm(scores), bootstrap_interval(scores))
    for place, (mean, interval) in enumerate(bars.values()):
        axes.barh(place, mean, color=GREY if interval is None else BLUE)
        if interval is not None:
            axes.plot(interval, [place, place], color="black", linewidth=1.2)
    axes.set_yticks(range(len(bars)), list(bars))
    axes.invert_yaxis()
    axes.set_xlabel("normalised score on unseen tasks, with its interval over seeds")
    axes.grid(axis="y", visible=False)


def ablations(axes: Axes, results: Path) -> None:
    rows = read(results / "ablations" / "llmrouter.json")["ablations"]
    names = [f"{row['factor']}: {row['level']}" for row in rows]
    axes.barh(
        range(len(rows)),
        [row["difference"] for row in rows],
        color=[BLUE if row["as_shipped"] else GREY for row in rows],
    )
    axes.set_yticks(range(len(rows)), names, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("change in quality against the static table (blue: as shipped)")
    axes.grid(axis="y", visible=False)


FIGURES: dict[str, tuple[Callable[[Axes, Path], None], str, float]] = {  # what draws it, from what, height in inches
    "false_promotion": (false_promotion, "gate.json", 2.6),
    "power_by_gain": (power_by_gain, "gate.json", 2.8),
    "coverage": (coverage, "gate.json", 2.6),
    "learned_gain": (learned_gain, "learn_from_log.json", 2.8),
    "cascades": (cascades, "cascades", 2.8),
    "local_models": (local_models, LOCAL, 3.0),
    "simulator": (simulator, "sim_ppo", 2.6),
    "ablations": (ablations, "ablations/llmrouter.json", 3.8),
}


def drawn(name: str, results: Path, **kind: str | float) -> bytes:
    draw, _, height = FIGURES[name]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, height), layout="constrained")
        draw(figure.add_subplot(), results)
        written = io.BytesIO()
        figure.savefig(written, **({"format": "svg", "metadata": {"Date": None, "Creator": None}} | kind))
    return written.getvalue()


def figures(results: Path) -> dict[str, str]:
    """The text of every SVG file whose results are there."""
    there = [name for name, (_, source, _) in FIGURES.items() if (results / source).exists()]
    return {f"{name}.svg": re.sub(r"[ \t]+$", "", drawn(name, results).decode(), flags=re.MULTILINE) for name in there}
