"""Charts as SVG that follows the colours of the page, light or dark."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rl_training.experiment.html_page import Html, element
from rl_training.experiment.report.formatting import number, tick

NUM_COLOURS = 8
DASHES = (None, "7 3", "2 3", "9 3 2 3")  # the second sign of a group, for those who cannot tell colours apart
FEW_POINTS = 130  # of a line, that are marked and say their values when pointed at
Array = np.ndarray


class Line(NamedTuple):
    """A line of a chart with the band around it; `group` chooses its colour and dashes."""

    group: int
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None
    notes: Sequence[str] = ()  # of every point, shown when it is pointed at
    faint: bool = False
    stairs: bool = False  # every value holds up to the next x


class Interval(NamedTuple):
    """A row of an interval chart: its name, the point, the interval around it, and single values as dots."""

    group: int
    name: str
    point: float
    low: float
    high: float
    values: Sequence[float] = ()


class Frame:
    """The plotting area of a chart in SVG units, and the scales of both axes."""

    left, right, top, bottom = 52.0, 14.0, 8.0, 36.0

    def __init__(self, size: tuple[int, int], x: tuple[float, float], y: tuple[float, float]) -> None:
        self.width, self.height = size
        self.x_range, self.y_range = x, y

    def across(self, x: Array | float) -> Array:
        low, high = self.x_range
        return self.left + (np.asarray(x) - low) / (high - low) * (self.width - self.left - self.right)

    def up(self, y: Array | float) -> Array:
        low, high = self.y_range
        return self.height - self.bottom - (np.asarray(y) - low) / (high - low) * (self.height - self.top - self.bottom)

    def path(self, x: Array, y: Array) -> str:
        points = zip(self.across(x), self.up(y), strict=True)
        return "M" + "L".join(f"{across:.1f} {up:.1f}" for across, up in points)

    def axes(self, x_name: str) -> Iterator[Html]:
        """Yields grid lines, the numbers of both axes, and the name of the x axis."""
        foot, end = self.height - self.bottom, self.width - self.right
        for value in ticks(*self.y_range, 5 if self.height > 220 else 4):
            up = f"{self.up(value):.1f}"
            yield element("line", x1=f"{self.left:g}", x2=f"{end:g}", y1=up, y2=up, class_="grid")
            yield element("text", tick(value), x=f"{self.left - 6:g}", y=up, dy=".32em", class_="y")
        for value in ticks(*self.x_range, 8 if self.width > 500 else 4):
            across = f"{self.across(value):.1f}"
            yield element("text", tick(value), x=across, y=f"{foot + 15:g}", class_="x")
        yield element("line", x1=f"{self.left:g}", x2=f"{end:g}", y1=f"{foot:g}", y2=f"{foot:g}", class_="axis")
        yield element("text", x_name, x=f"{(self.left + end) / 2:g}", y=f"{self.height - 4:g}", class_="x name")


def line_chart(
    lines: Sequence[Line],
    *,
    label: str,
    x_name: str,
    small: bool = False,
    x_within: tuple[float, ...] = (0.0,),
    y_within: tuple[float, ...] = (),
) -> Html:
    """Returns an SVG of lines with their bands; `label` is what somebody hears who does not see it.

    Expects at least one line with one point, and finite numbers. `x_within` and `y_within` are numbers that the axes
    show in any case.
    """
    shown = [line for line in lines if len(line.x)]
    xs, ys = (np.concatenate(parts) for parts in zip(*(reach(line) for line in shown), strict=True))
    x_range, y_range = padded(np.append(xs, x_within), 0.0), padded(np.append(ys, y_within), 0.04)
    frame = Frame((360, 200) if small else (900, 340), x_range, y_range)
    parts = [*frame.axes(x_name)]
    shown = [stairs_of(line) if line.stairs else line for line in shown]
    for line in shown:
        if line.low is not None and line.high is not None and len(line.x) > 1:
            around = frame.path(np.concatenate([line.x, line.x[::-1]]), np.concatenate([line.low, line.high[::-1]]))
            parts.append(element("path", d=f"{around}Z", class_=f"band g{line.group % NUM_COLOURS}"))
    for line in shown:
        colour = f"g{line.group % NUM_COLOURS}"
        look = f"line {colour} faint" if line.faint else f"line {colour}"
        parts.append(element("path", d=frame.path(line.x, line.y), class_=look, stroke_dasharray=dashes(line.group)))
        if len(line.x) == 1 or (line.notes and len(line.x) <= FEW_POINTS):
            parts += points(frame, line)
    return svg(frame, label, parts)


def points(frame: Frame, line: Line) -> Iterator[Html]:
    notes = line.notes or [""] * len(line.x)
    for across, up, note in zip(frame.across(line.x), frame.up(line.y), notes, strict=True):
        title = element("title", note) if note else None
        look = f"dot g{line.group % NUM_COLOURS}"
        yield element("circle", title, cx=f"{across:.1f}", cy=f"{up:.1f}", r="2.6", class_=look)


def interval_chart(
    rows: Sequence[Interval], *, label: str, x_name: str, reference: float | None = None, within: tuple[float, ...] = ()
) -> Html:
    """Returns an SVG with a row for each interval, its point and its single values, and a line at `reference`.

    `within` are numbers that the x axis shows in any case.
    """
    xs = np.array([x for row in rows for x in (row.low, row.high, row.point, *row.values)] + list(within))
    height = 44 + 30 * len(rows)
    frame = Frame((900, height), padded(xs, 0.03), (0.0, float(len(rows))))
    frame.left = min(440.0, 26.0 + 7.4 * max(len(row.name) for row in rows))
    foot, end = height - frame.bottom, frame.width - frame.right
    parts = []
    for value in ticks(*frame.x_range, 7):
        across = f"{frame.across(value):.1f}"
        parts.append(element("line", x1=across, x2=across, y1=f"{frame.top:g}", y2=f"{foot:g}", class_="grid"))
        parts.append(element("text", tick(value), x=across, y=f"{foot + 15:g}", class_="x"))
    if reference is not None:
        across = f"{frame.across(reference):.1f}"
        parts.append(element("line", x1=across, x2=across, y1=f"{frame.top:g}", y2=f"{foot:g}", class_="axis"))
    for place, row in enumerate(rows):
        up, colour = float(frame.up(len(rows) - place - 0.5)), f"g{row.group % NUM_COLOURS}"
        parts.append(element("text", row.name, x=f"{frame.left - 10:g}", y=f"{up:.1f}", dy=".32em", class_="y row"))
        parts += [
            element("circle", cx=f"{x:.1f}", cy=f"{up:.1f}", r="3", class_=f"value {colour}")
            for x in frame.across(np.array(row.values))
        ]
        low, point, high = frame.across(np.array([row.low, row.point, row.high]))
        title = element("title", f"{row.name}: {number(row.point)} ({number(row.low)} to {number(row.high)})")
        bar = element("line", x1=f"{low:.1f}", x2=f"{high:.1f}", y1=f"{up:.1f}", y2=f"{up:.1f}", class_=f"bar {colour}")
        dot = element("circle", title, cx=f"{point:.1f}", cy=f"{up:.1f}", r="5", class_=f"dot {colour}")
        parts += [bar, dot]
    parts.append(element("text", x_name, x=f"{(frame.left + end) / 2:g}", y=f"{height - 4:g}", class_="x name"))
    return svg(frame, label, parts)


def swatch(group: int) -> Html:
    """Returns a small SVG with the line of a group, for legends."""
    look = f"line g{group % NUM_COLOURS}"
    line = element("path", d="M1 6L29 6", class_=look, stroke_dasharray=dashes(group))
    return element("svg", line, class_="swatch", viewBox="0 0 30 12", width="30", height="12", aria_hidden="true")


def svg(frame: Frame, label: str, parts: Sequence[str]) -> Html:
    box = f"0 0 {frame.width} {frame.height}"
    look = "chart" if frame.width < 500 else "chart big"
    return element("svg", *parts, class_=look, viewBox=box, role="img", aria_label=label)


def dashes(group: int) -> str | None:
    """Returns the dashes of a group; with its colour, they are its own among the first 32."""
    return DASHES[(group + group // NUM_COLOURS) % len(DASHES)]


def stairs_of(line: Line) -> Line:
    """Returns a line with corners between its points, so that every value holds up to the next x."""
    low, high = (band if band is None else np.repeat(band, 2)[:-1] for band in (line.low, line.high))
    return line._replace(x=np.repeat(line.x, 2)[1:], y=np.repeat(line.y, 2)[:-1], low=low, high=high)


def reach(line: Line) -> tuple[Array, Array]:
    """Returns all x and all y of the points of a line and its band."""
    bands = [band for band in (line.low, line.high) if band is not None]
    return np.asarray(line.x, float), np.concatenate([np.asarray(line.y, float), *bands])


def padded(values: Array, share: float) -> tuple[float, float]:
    """Returns the range of the values, wider by a share of it on both sides; never of length zero."""
    low, high = float(values.min()), float(values.max())
    span = high - low
    if span <= 1e-9 * max(abs(low), abs(high)):
        span = max(abs(high) * 0.1, 1e-6)
        return low - span, high + span
    return low - share * span, high + share * span


def ticks(low: float, high: float, wanted: int) -> list[float]:
    """Returns about `wanted` round numbers within the range, evenly spaced."""
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]
