"""The curve of quality over cost as one SVG, and as one HTML page that needs no other file."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

from sage.dollars import in_usd
from sage.report.report_page import STYLE, SYNTHETIC, table

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1040, 460, 70, 400, 20, 50
NEAR = 9.0  # pixels: marks as near as this share a number's place
LONGEST = 58  # characters of a name in the legend
WIDE_RANGE = 8.0  # costs that differ by more are drawn on a logarithmic scale
HEAD = ("policy", "quality", "95 % interval", "USD per decision", "95 % interval", "USD per task", "other model")
NOTE = (
    "Means over the decisions of the log, estimated from its propensities. Policies on the curve were learned as "
    "<code>sage train</code> does it, on other tasks than those that they are judged on; a dollar counts as more quality "
    "from right to left. Intervals are of the difference to the static table, at one look, each by itself: a point picked "
    "because it looks best is a little worse than it looks. Only <code>sage prove</code> proves."
)
Place = Callable[[float], float]


def render_page(values: dict) -> str:
    """Returns the HTML page of a frontier; every text from the log is escaped."""
    about = f"{values['num_rows']:,} {escape(values['data_source'])} decisions of {values['num_tasks']:,} tasks with quality and cost"
    rows = [row(point) for point in (values["static"], *values["objectives"], *values["models"], *values["curve"])]
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>sage frontier</title><style>{STYLE}</style></head>"
        f"<body>\n<h1>sage: what quality costs</h1><p>{about}</p>\n{'' if values['evidence'] else SYNTHETIC}\n"
        f"{render_svg(values)}\n<p class=note>{NOTE}</p>\n{table(HEAD, rows)}\n</body></html>\n"
    )


def row(point: dict) -> tuple[str, ...]:
    return tuple(escape(cell) for cell in cells(point))


def cells(point: dict) -> tuple[str, ...]:
    """Returns the cells of one line of the table, as plain text."""
    return (
        point["name"],
        f"{point['quality']:.4f}",
        f"{point['quality_low']:.4f} to {point['quality_high']:.4f}",
        in_usd(point["cost_usd"]),
        f"{in_usd(point['cost_low'])} to {in_usd(point['cost_high'])}",
        in_usd(point["usd_per_task"]),
        f"{point['differs']:.1%}",
    )


def render_svg(values: dict) -> str:
    """Returns the curve as SVG: cost to the right, quality upwards, and a band for the interval of quality."""
    curve, marked = values["curve"], [values["static"], *values["models"], *values["objectives"]]
    points = [*curve, *marked]
    height = max(HEIGHT, TOP + 16 * (len(marked) + 2))  # room for the legend
    x, logarithmic = cost_axis([point["cost_usd"] for point in points])
    levels = [point[key] for point in curve for key in ("quality_low", "quality_high")]
    low, high = spread([*levels, *(point["quality"] for point in marked)])
    y = scale(low, high, HEIGHT - BOTTOM, TOP)
    band = [(p["cost_usd"], p["quality_high"]) for p in curve] + [
        (p["cost_usd"], p["quality_low"]) for p in curve[::-1]
    ]
    middle = [(p["cost_usd"], p["quality"]) for p in curve]
    parts = [
        f'<polygon points="{path(band, x, y)}" fill="#4a7dbd" fill-opacity=".18"/>',
        f'<polyline points="{path(middle, x, y)}" fill="none" stroke="#4a7dbd" stroke-width="2"/>',
        *axes(points, x, y, low, high, logarithmic=logarithmic),
        *legend(values, x, y),
    ]
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="system-ui,sans-serif" font-size="11">\n<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>'
    )


def cost_axis(costs: list[float]) -> tuple[Place, bool]:
    positive = [cost for cost in costs if cost > 0]
    if len(positive) == len(costs) and max(costs) > WIDE_RANGE * min(costs):
        low, high = spread([math.log10(cost) for cost in costs])
        place = scale(low, high, LEFT, WIDTH - RIGHT)
        return lambda cost: place(math.log10(cost)), True
    low, high = spread(costs)
    return scale(low, high, LEFT, WIDTH - RIGHT), False


def spread(values: list[float]) -> tuple[float, float]:
    """Returns the lowest and the highest of the values, with a margin on both sides, as the ends of an axis."""
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def scale(low: float, high: float, start: float, end: float) -> Place:
    return lambda value: start + (value - low) / (high - low) * (end - start)


def path(points: list[tuple[float, float]], x: Place, y: Place) -> str:
    return " ".join(f"{x(cost):.1f},{y(quality):.1f}" for cost, quality in points)


def axes(points: list[dict], x: Place, y: Place, low: float, high: float, *, logarithmic: bool) -> list[str]:
    costs, line = [point["cost_usd"] for point in points], 'stroke="#dde3ea"'
    ends = (min(costs), max(costs))
    shown = [math.log10(end) for end in ends] if logarithmic else ends
    ticks = [shown[0] + (shown[1] - shown[0]) * k / 4 for k in range(5)]
    costs = sorted({10**tick if logarithmic else tick for tick in ticks})
    found = []
    for k in range(5):
        quality = low + (high - low) * (k + 0.5) / 5
        found.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(quality):.1f}" y2="{y(quality):.1f}" {line}/>')
        found.append(f'<text x="{LEFT - 6}" y="{y(quality) + 4:.1f}" text-anchor="end">{quality:.3f}</text>')
    below = HEIGHT - BOTTOM + 16
    found += [f'<text x="{x(cost):.1f}" y="{below}" text-anchor="middle">{in_usd(cost)}</text>' for cost in costs]
    middle, unit = (LEFT + WIDTH - RIGHT) / 2, " (logarithmic)" if logarithmic else ""
    found.append(f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">USD per decision{unit}</text>')
    found.append(
        f'<text x="14" y="{HEIGHT / 2}" transform="rotate(-90 14 {HEIGHT / 2})" text-anchor="middle">quality</text>'
    )
    return found


def legend(values: dict, x: Place, y: Place) -> list[str]:
    """Returns marks with numbers beside them, and on the right the names that the numbers stand for, as SVG."""
    groups = (([values["static"]], "square", "#1c2430"), (values["objectives"], "diamond", "#c0392b"))
    marks = [
        (point, shape, colour)
        for points, shape, colour in (*groups, (values["models"], "circle", "#566"))
        for point in points
    ]
    places: list[tuple[float, float, list[str]]] = []
    found = []
    for number, (point, shape, colour) in enumerate(marks, start=1):
        at, up = x(point["cost_usd"]), y(point["quality"])
        place = next((p for p in places if math.hypot(p[0] - at, p[1] - up) < NEAR), None)
        if place is None:
            places.append(place := (at, up, []))
        place[2].append(str(number))
        name, right, down = escape(shortened(point["name"])), WIDTH - RIGHT + 50, TOP + 16 * number
        found.append(f"<g>{drawn(shape, at, up, colour)}<title>{escape(point['name'])}</title></g>")
        found.append(drawn(shape, right, down - 4, colour))
        found.append(f'<text x="{right + 12}" y="{down}">{number} {name}</text>')
    found += [f'<text x="{at + 9:.1f}" y="{up - 7:.1f}">{",".join(numbers)}</text>' for at, up, numbers in places]
    return found


def shortened(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 3]}..."


def drawn(shape: str, at: float, up: float, colour: str) -> str:
    if shape == "circle":
        return f'<circle cx="{at:.1f}" cy="{up:.1f}" r="4" fill="{colour}"/>'
    if shape == "square":
        return f'<rect x="{at - 5:.1f}" y="{up - 5:.1f}" width="10" height="10" fill="{colour}"/>'
    return f'<path d="M{at:.1f},{up - 6:.1f}l6,6l-6,6l-6,-6z" fill="{colour}"/>'
