"""Writes docs/architecture.svg, the picture of the data flow; `--check` only says whether the file is up to date.

Usage: python scripts/draw_architecture.py [--check]
"""

from __future__ import annotations

import argparse
import sys
from html import escape
from pathlib import Path
from typing import NamedTuple

PICTURE = Path(__file__).parent.parent / "docs" / "architecture.svg"
WIDTH, HEIGHT = 1100, 640
TITLE_SIZE, TEXT_SIZE, LABEL_SIZE = 15, 12.5, 12
FONTS = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"
WIDEST = 0.6  # of a letter on average, in its font size: a font that is wider than most
FILLS = {"settings": "#eeeeee", "world": "#dcebf7", "store": "#e1f1dc", "learning": "#fbe6cf", "files": "#eeeeee"}


class Box(NamedTuple):
    kind: str
    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()


class Arrow(NamedTuple):
    """A line through some points, with an arrow at its end."""

    points: tuple[tuple[int, int], ...]
    label: str = ""
    at: tuple[int, int] = (0, 0)  # the middle of the label's base line
    room: int = 0  # for the label


FRAME = Box(
    "", 20, 140, 1060, 335, "Trainer.run takes one phase after the other; an executor runs the iterations of each"
)
BOXES = (
    Box("settings", 30, 24, 190, 72, "what you ask for", ("keywords, a YAML file", "or a preset")),
    Box("settings", 270, 24, 200, 72, "RunConfig", ("one frozen tree, checked", "before a file is written")),
    Box(
        "settings",
        520,
        24,
        240,
        72,
        "api/build.py",
        ("asks the algorithm what it", "declares; wires the run"),
    ),
    Box("settings", 810, 24, 260, 72, "list of Phase", ("each: experience, collector", "or none, budget, methods")),
    Box("world", 40, 190, 160, 86, "VectorEnv", ("steps a batch of", "environments")),
    Box("world", 285, 190, 175, 86, "Collector", ("acts and steps; gives", "[time, env] steps")),
    Box("store", 565, 190, 195, 86, "Experience", ("Rollout, Replay,", "Mixture or LoggedSteps")),
    Box("learning", 860, 190, 200, 86, "Algorithm", ("prepare, then update", "for every batch")),
    Box("world", 40, 345, 160, 72, "outside", ("predict, export,", "your own code")),
    Box("learning", 285, 345, 175, 72, "Policy", ("act and decide; knows", "its spec and device")),
    Box("store", 565, 345, 195, 72, "Dataset", ("logged steps, from a", "file or from memory")),
    Box("files", 30, 545, 320, 72, "one state tree", ("algorithm, stores, collectors,", "progress, random numbers")),
    Box("files", 440, 545, 300, 72, "callbacks", ("logs, evaluation, checkpoints,", "progress bar, your own")),
    Box("files", 830, 545, 240, 72, "Journal", ("keeps metrics on the device", "until they are logged")),
)
ARROWS = (
    Arrow(((220, 60), (270, 60))),
    Arrow(((470, 60), (520, 60))),
    Arrow(((760, 60), (810, 60))),
    Arrow(((940, 96), (940, 140))),
    Arrow(((200, 215), (285, 215)), "EnvStep", (242, 208), 80),
    Arrow(((285, 252), (200, 252)), "action", (242, 269), 80),
    Arrow(((460, 233), (565, 233)), "Transition", (512, 225), 100),
    Arrow(((760, 215), (860, 215)), "batch", (810, 207), 90),
    Arrow(((860, 252), (760, 252)), "rows", (810, 269), 90),
    Arrow(((662, 345), (662, 276)), "LoggedSteps", (715, 316), 100),
    Arrow(((372, 345), (372, 276)), "Act", (392, 316), 40),
    Arrow(((285, 381), (200, 381)), "Decision", (242, 373), 80),
    Arrow(((900, 276), (900, 447), (372, 447), (372, 417)), "parameters, changed in place", (770, 440), 240),
    Arrow(((1000, 276), (1000, 545)), "metrics", (1035, 420), 64),
    Arrow(((830, 581), (740, 581)), "on_log", (785, 573), 80),
    Arrow(((440, 581), (350, 581)), "save", (395, 573), 80),
    Arrow(((190, 475), (190, 545)), "state_dict", (232, 515), 90),
    Arrow(((590, 475), (590, 545)), "on_steps, on_interval, on_switch", (712, 515), 240),
)


def check_room(text: str, size: float, room: int) -> None:
    if len(text) * size * WIDEST > room:
        raise ValueError(f"{text!r} does not fit into {room} pixels: shorten it or make room")


def written(text: str, x: float, y: float, size: float, *, weight: str = "normal", anchor: str = "middle") -> str:
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(text)}</text>'


def drawn_box(box: Box) -> list[str]:
    middle = box.x + box.width / 2
    place = f'x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6"'
    parts = [f'<rect {place} fill="{FILLS[box.kind]}" stroke="#555555"/>']
    for text, size in ((box.title, TITLE_SIZE), *((line, TEXT_SIZE) for line in box.lines)):
        check_room(text, size, box.width - 8)
    parts.append(written(box.title, middle, box.y + 24, TITLE_SIZE, weight="bold"))
    return parts + [written(line, middle, box.y + 44 + 17 * i, TEXT_SIZE) for i, line in enumerate(box.lines)]


def drawn_arrow(arrow: Arrow) -> list[str]:
    points = " ".join(f"{x},{y}" for x, y in arrow.points)
    parts = [f'<polyline points="{points}" fill="none" stroke="#333333" stroke-width="1.6" marker-end="url(#tip)"/>']
    if arrow.label:
        check_room(arrow.label, LABEL_SIZE, arrow.room)
        parts.append(written(arrow.label, *arrow.at, LABEL_SIZE))
    return parts


def draw() -> str:
    """The picture as text."""
    frame = f'x="{FRAME.x}" y="{FRAME.y}" width="{FRAME.width}" height="{FRAME.height}" rx="8"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
        f'<g font-family="{FONTS}" fill="#111111">',
        "<title>Data flow of a run</title>",
        '<marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">',
        '<path d="M0,0 L10,5 L0,10 z" fill="#333333"/></marker>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<rect {frame} fill="none" stroke="#777777" stroke-dasharray="6 4"/>',
        written(FRAME.title, FRAME.x + 16, FRAME.y + 26, TITLE_SIZE, weight="bold", anchor="start"),
    ]
    for box in BOXES:
        parts += drawn_box(box)
    for arrow in ARROWS:
        parts += drawn_arrow(arrow)
    return "\n".join([*parts, "</g></svg>", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes docs/architecture.svg.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is not up to date")
    if not parser.parse_args().check:
        PICTURE.write_text(draw())
        return 0
    if PICTURE.exists() and PICTURE.read_text() == draw():
        return 0
    print("docs/architecture.svg is stale: run python scripts/draw_architecture.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
