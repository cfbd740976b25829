"""Drawings of the native tasks, made with Pillow: plain shapes on a light ground."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Point = tuple[float, float]  # in units of the task, y upwards
GROUND, INK, MAIN, SECOND, MARK, PALE = "#f7f5ef", "#3a3f4b", "#2f6fb2", "#d9822b", "#3c9d5d", "#d9d5c8"
FINE = 2  # drawn so many times larger and then reduced, which smooths edges


class Canvas:
    """A picture of `width` x `height` pixels, on which shapes are placed in units of the task.

    `center` is the point in the middle, and `scale` the pixels of one unit.
    """

    def __init__(self, width: int, height: int, scale: float, center: Point = (0.0, 0.0)) -> None:
        from PIL import Image, ImageDraw

        self.image = Image.new("RGB", (width * FINE, height * FINE), GROUND)
        self.draw = ImageDraw.Draw(self.image)
        self.scale = scale * FINE
        self.left, self.top = (width * FINE / 2 - center[0] * self.scale, height * FINE / 2 + center[1] * self.scale)

    def pixel(self, point: Point) -> Point:
        return self.left + point[0] * self.scale, self.top - point[1] * self.scale

    def line(self, points: Sequence[Point], width: float, colour: str = INK) -> None:
        """Draws a line through `points`, with round ends; `width` is in units of the task."""
        self.draw.line(
            [self.pixel(point) for point in points], colour, max(1, round(width * self.scale)), joint="curve"
        )
        for end in (points[0], points[-1]):
            self.circle(end, width / 2, colour)

    def polygon(self, points: Sequence[Point], colour: str) -> None:
        self.draw.polygon([self.pixel(point) for point in points], colour)

    def box(self, center: Point, width: float, height: float, colour: str) -> None:
        (x, y), half, tall = center, width / 2, height / 2
        self.polygon([(x - half, y - tall), (x + half, y - tall), (x + half, y + tall), (x - half, y + tall)], colour)

    def circle(self, center: Point, radius: float, colour: str) -> None:
        (x, y), r = self.pixel(center), radius * self.scale
        self.draw.ellipse((x - r, y - r, x + r, y + r), colour)

    def text(self, center: Point, text: str, height: float, colour: str = INK) -> None:
        from PIL import ImageFont

        font = ImageFont.load_default(height * self.scale)
        self.draw.text(self.pixel(center), text, colour, font, anchor="mm")

    def picture(self) -> np.ndarray:
        return np.asarray(self.image.reduce(FINE)).copy()


def rod(start: Point, angle: float, length: float) -> Point:
    """Returns the end of a rod that hangs down at angle 0 and turns counterclockwise."""
    return start[0] + length * math.sin(angle), start[1] - length * math.cos(angle)


def draw_cart_pole(position: float, angle: float, limit: float) -> np.ndarray:
    """Draws a cart on its track, which ends at `limit`, with a pole at `angle` clockwise from upright."""
    canvas = Canvas(480, 320, 90, (0.0, 0.7))
    canvas.line([(-limit, -0.15), (limit, -0.15)], 0.02)
    for end in (-limit, limit):
        canvas.line([(end, -0.25), (end, -0.05)], 0.04)
    for wheel in (-0.16, 0.16):
        canvas.circle((position + wheel, -0.1), 0.06, INK)
    canvas.box((position, 0.05), 0.6, 0.24, MAIN)
    canvas.line([(position, 0.17), rod((position, 0.17), math.pi - angle, 1.0)], 0.09, SECOND)
    canvas.circle((position, 0.17), 0.04, INK)
    return canvas.picture()


def draw_pendulum(angle: float) -> np.ndarray:
    """Draws a pendulum at `angle` counterclockwise from upright."""
    canvas = Canvas(320, 320, 120)
    canvas.circle((0.0, 0.0), 1.06, PALE)
    canvas.circle((0.0, 0.0), 1.03, GROUND)
    canvas.line([(0.0, 0.0), rod((0.0, 0.0), math.pi + angle, 1.0)], 0.16, SECOND)
    canvas.circle((0.0, 0.0), 0.06, INK)
    return canvas.picture()


def draw_acrobot(first: float, second: float) -> np.ndarray:
    """Draws two linked rods: the first at an angle from hanging down, the second at an angle from the first."""
    canvas = Canvas(320, 320, 68)
    canvas.line([(-2.2, 1.0), (2.2, 1.0)], 0.03, MARK)
    joint = rod((0.0, 0.0), first, 1.0)
    canvas.line([(0.0, 0.0), joint], 0.16, MAIN)
    canvas.line([joint, rod(joint, first + second, 1.0)], 0.16, SECOND)
    for point in ((0.0, 0.0), joint):
        canvas.circle(point, 0.06, INK)
    return canvas.picture()


def draw_mountain_car(position: float, goal: float) -> np.ndarray:
    """Draws a car at `position` in its valley, with a flag at `goal`."""

    def height(x: float) -> float:
        return 0.45 * math.sin(3 * x)

    canvas = Canvas(480, 320, 255, (-0.3, 0.02))
    slope = [(x / 100, height(x / 100)) for x in range(-125, 66)]
    canvas.polygon([*slope, (0.65, -0.7), (-1.25, -0.7)], PALE)
    canvas.line(slope, 0.012)
    canvas.line([(goal, height(goal)), (goal, height(goal) + 0.16)], 0.008)
    canvas.polygon([(goal, height(goal) + y) for y in (0.16, 0.1)] + [(goal + 0.07, height(goal) + 0.13)], MARK)
    tilt = math.atan(1.35 * math.cos(3 * position))
    along, up = (math.cos(tilt), math.sin(tilt)), (-math.sin(tilt), math.cos(tilt))

    def place(x: float, y: float) -> Point:
        return position + x * along[0] + y * up[0], height(position) + x * along[1] + y * up[1]

    canvas.polygon([place(x, y) for x, y in ((-0.07, 0.025), (0.07, 0.025), (0.07, 0.055), (-0.07, 0.055))], MAIN)
    canvas.polygon([place(x, y) for x, y in ((-0.04, 0.05), (0.04, 0.05), (0.025, 0.085), (-0.025, 0.085))], MAIN)
    for x in (-0.042, 0.042):
        canvas.circle(place(x, 0.022), 0.02, INK)
    return canvas.picture()


def draw_t_maze(length: int, position: float, right: bool) -> np.ndarray:
    """Draws a corridor with an agent, the goal at one arm of its end, and at its start an arrow that points there."""
    width = length + 3
    canvas = Canvas(32 * width, 160, 32, (length / 2, 0.0))
    canvas.box((length / 2, 0.0), length + 1, 1.0, PALE)
    canvas.box((float(length), 0.0), 1.0, 3.0, PALE)
    side = -1.0 if right else 1.0  # right of the way that leads from left to right
    canvas.box((float(length), side), 0.8, 0.8, MARK)
    canvas.polygon([(x, y * side) for x, y in ((-1.2, 0.3), (-0.8, 0.3), (-1.0, 0.8))], MARK)
    canvas.line([(-1.0, -0.6 * side), (-1.0, 0.3 * side)], 0.12, MARK)
    canvas.circle((position, 0.0), 0.36, MAIN)
    return canvas.picture()


def draw_repeat_previous(shown: int, wanted: int | None, time: int) -> np.ndarray:
    """Draws the symbol that is shown now, large, and the one to be named now, small; None: none yet."""
    canvas = Canvas(320, 240, 40)
    colours = (MAIN, SECOND, MARK, INK)
    canvas.text((0.0, 2.4), f"step {time}", 0.6)
    canvas.box((-1.6, 0.0), 3.0, 3.0, colours[shown])
    canvas.text((-1.6, 0.0), "ABCD"[shown], 2.0, GROUND)
    canvas.text((2.2, 1.2), "to name", 0.5)
    canvas.box((2.2, 0.0), 1.4, 1.4, PALE if wanted is None else colours[wanted])
    canvas.text((2.2, 0.0), "-" if wanted is None else "ABCD"[wanted], 0.9, INK if wanted is None else GROUND)
    return canvas.picture()


def draw_bits(bits: Sequence[bool], goal: Sequence[bool]) -> np.ndarray:
    """Draws bits as a grid of squares, with the goal's bit as a dot in each; wrong ones have a frame."""
    columns = min(len(bits), max(8, math.ceil(math.sqrt(len(bits)))))
    rows = math.ceil(len(bits) / columns)
    size = max(8, min(48, 640 // columns))
    canvas = Canvas(size * columns, size * rows, size, (columns / 2, rows / 2))
    for index, (bit, wanted) in enumerate(zip(bits, goal, strict=True)):
        center = (index % columns + 0.5, rows - index // columns - 0.5)
        canvas.box(center, 0.94, 0.94, GROUND if bit == wanted else SECOND)
        canvas.box(center, 0.78, 0.78, MAIN if bit else PALE)
        canvas.circle(center, 0.16, INK if wanted else GROUND)
    return canvas.picture()


def draw_particles(agents: Sequence[Point], landmarks: Sequence[Point], goal: int | None, radius: float) -> np.ndarray:
    """Draws agents as discs of `radius` and landmarks as small ones in the square from -1.4 to 1.4.

    `goal` is the landmark that has a ring; None: no one.
    """
    canvas = Canvas(320, 320, 110)
    canvas.box((0.0, 0.0), 2.04, 2.04, INK)
    canvas.box((0.0, 0.0), 2.0, 2.0, GROUND)
    if goal is not None:
        canvas.circle(landmarks[goal], 0.1, SECOND)
        canvas.circle(landmarks[goal], 0.08, GROUND)
    for agent in agents:
        canvas.circle(agent, radius, MAIN)
    for landmark in landmarks:
        canvas.circle(landmark, 0.05, MARK)
    return canvas.picture()


def draw_reach(point: Point, goal: Point, threshold: float) -> np.ndarray:
    """Draws a point and, as a disc of radius `threshold`, its goal, in the square from -1 to 1."""
    canvas = Canvas(320, 320, 144)
    canvas.box((0.0, 0.0), 2.12, 2.12, INK)
    canvas.box((0.0, 0.0), 2.08, 2.08, GROUND)
    canvas.circle(goal, max(threshold, 0.02), MARK)
    canvas.circle(point, 0.045, MAIN)
    return canvas.picture()
