"""Writes docs/learning_curves.svg from the stored runs; `--check` only says whether the file is up to date.

Usage: python scripts/draw_learning_curves.py [--check]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "learning_curves.svg"
RUNS = ROOT / "benchmarks" / "results" / "learning"
WIDTH, HEIGHT = 1100, 345
SIDE, TOP = 290, 220  # of a panel's axes, in points
COLOURS = ("#1f6f8b", "#d1603d", "#4f8a3c", "#7a5195")
FONTS = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"


class Panel(NamedTuple):
    """One environment: its curves by the name of the method, up to some steps and some return."""

    title: str
    cells: dict[str, str]
    steps: int
    highest: int


PANELS = (
    Panel(
        "HalfCheetah-v5 (3 seeds)",
        {
            "CrossQ": "crossq-halfcheetah-100k",
            "SAC": "sac-halfcheetah-100k",
            "TD3": "td3-halfcheetah-100k",
            "REDQ": "redq-halfcheetah-50k",
        },
        100_000,
        10_000,
    ),
    Panel("Hopper-v5 (5 seeds)", {"PPO": "ppo-hopper", "TRPO": "trpo-hopper-300k"}, 1_000_000, 4_000),
    Panel(
        "CartPole-v1 without velocities (5 seeds)",
        {"RecurrentPPO": "recurrent-ppo-cartpole-novel", "PPO": "ppo-cartpole-novel"},
        100_000,
        500,
    ),
)


def curve(cell: str) -> list[tuple[int, float, float, float]]:
    """Steps, and the mean, least and greatest return over seeds, of every evaluation."""
    runs = [json.loads(path.read_text())["evaluations"] for path in sorted((RUNS / cell).glob("seed*.json"))]
    points = []
    for evaluations in zip(*runs, strict=True):
        returns = [value for _, value in evaluations]
        points.append((evaluations[0][0], statistics.fmean(returns), min(returns), max(returns)))
    return points


def text(x: float, y: float, words: str, size: int = 12, anchor: str = "middle", colour: str = "#222222") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def short(number: float) -> str:
    """Such as 100k and 1M."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= unit:
            return f"{number / unit:g}{letter}"
    return f"{number:g}"


def draw_panel(panel: Panel, left: int) -> list[str]:
    bottom = 60 + TOP

    def place(steps: float, value: float) -> str:
        return f"{left + SIDE * steps / panel.steps:.1f},{bottom - TOP * max(value, 0.0) / panel.highest:.1f}"

    lines = [text(left + SIDE / 2, 24, panel.title, 15)]
    for fifth in range(6):
        y = bottom - TOP * fifth / 5
        lines.append(f'<line x1="{left}" y1="{y:g}" x2="{left + SIDE}" y2="{y:g}" stroke="#dddddd"/>')
        lines.append(text(left - 6, y + 4, short(panel.highest * fifth / 5), anchor="end"))
    lines += [text(left + SIDE * half / 2, bottom + 18, short(panel.steps * half / 2)) for half in range(3)]
    for number, (name, cell) in enumerate(panel.cells.items()):
        colour, points = COLOURS[number], curve(cell)
        band = [place(step, high) for step, _, _, high in points]
        band += [place(step, low) for step, _, low, _ in reversed(points)]
        mean = [place(step, middle) for step, middle, _, _ in points]
        lines.append(f'<polygon points="{" ".join(band)}" fill="{colour}" opacity="0.18"/>')
        lines.append(f'<polyline points="{" ".join(mean)}" fill="none" stroke="{colour}" stroke-width="2.2"/>')
        lines.append(text(left + SIDE * (number + 0.5) / len(panel.cells), 48, f"&#9644; {name}", 13, colour=colour))
    return lines


def draw() -> str:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="{FONTS}">',
        "<title>Return over environment steps of stored runs: mean over seeds, and their range</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for number, panel in enumerate(PANELS):
        lines += draw_panel(panel, 55 + number * 360)
    lines.append(text(WIDTH / 2, HEIGHT - 14, "environment steps; line: mean return of evaluations, band: all seeds"))
    return "\n".join([*lines, "</svg>", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check, picture = parser.parse_args().check, draw()
    stale = not PICTURE.exists() or PICTURE.read_text() != picture
    if stale and not check:
        PICTURE.write_text(picture)
    print(f"{PICTURE.relative_to(ROOT)}: {'stale' if stale and check else 'up to date'}")
    return int(stale and check)


if __name__ == "__main__":
    sys.exit(main())
