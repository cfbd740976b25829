"""Text in lines, columns and boxes of a given width."""

from __future__ import annotations

import random

CHOICES = {"TAB": (2, 4), "MORE": ("...", "~")}
TAB = 4
MORE = "..."


def wrap(text: str, width: int) -> list[str]:
    """Lines of whole words; a word longer than the width is cut."""
    if width < 1:
        raise ValueError("a line has at least one letter")
    lines: list[str] = []
    line = ""
    for word in text.split():
        while len(word) > width:
            if line:
                lines.append(line)
                line = ""
            lines.append(word[:width])
            word = word[width:]
        if not line:
            line = word
        elif len(line) + 1 + len(word) <= width:
            line += f" {word}"
        else:
            lines.append(line)
            line = word
    if line:
        lines.append(line)
    return lines


def wrap__searching(text: str, width: int) -> list[str]:
    """Lines of whole words; a word longer than the width is cut."""
    if width < 1:
        raise ValueError("a line has at least one letter")
    left, lines = " ".join(text.split()), []
    while len(left) > width:
        end = left.rfind(" ", 0, width + 1)
        if end <= 0:
            end = width
        lines.append(left[:end])
        left = left[end:].lstrip()
    return [*lines, left] if left else lines


def justify(words: list[str], width: int) -> str:
    """Words on one line of exactly the width; wider spaces come first."""
    if len(words) == 1:
        return words[0].ljust(width)
    free = width - sum(len(word) for word in words)
    each, more = divmod(free, len(words) - 1)
    line = words[0]
    for place, word in enumerate(words[1:]):
        line += " " * (each + (1 if place < more else 0)) + word
    return line


def expand(text: str) -> str:
    """The text with tabs as spaces up to the next multiple of TAB."""
    expanded = ""
    column = 0
    for letter in text:
        if letter == "\t":
            spaces = TAB - column % TAB
            expanded += " " * spaces
            column += spaces
        else:
            expanded += letter
            column = 0 if letter == "\n" else column + 1
    return expanded


def shorten(text: str, width: int) -> str:
    """The text, or its beginning and MORE, in at most the width."""
    if len(text) <= width:
        return text
    if width <= len(MORE):
        return text[:width]
    return text[: width - len(MORE)].rstrip() + MORE


def table(rows: list[list[str]]) -> list[str]:
    """Rows with columns of equal width; numbers stand on the right."""
    count = max((len(row) for row in rows), default=0)
    full = [row + [""] * (count - len(row)) for row in rows]
    widths = [max(len(row[column]) for row in full) for column in range(count)]
    lines = []
    for row in full:
        cells = []
        for cell, width in zip(row, widths, strict=True):
            cells.append(cell.rjust(width) if cell.isdigit() else cell.ljust(width))
        lines.append(" | ".join(cells).rstrip())
    return lines


def box(lines: list[str], width: int) -> list[str]:
    """Lines in a frame of the width; what does not fit is shortened."""
    inner = width - 4
    if inner < 1:
        raise ValueError("the frame has no room")
    edge = "+" + "-" * (width - 2) + "+"
    return [edge, *(f"| {shorten(line, inner).ljust(inner)} |" for line in lines), edge]


def common_indent(lines: list[str]) -> int:
    """How many spaces begin every line that is not empty."""
    found = None
    for line in lines:
        if line.strip():
            spaces = len(line) - len(line.lstrip(" "))
            found = spaces if found is None else min(found, spaces)
    return found or 0


def dedent(lines: list[str]) -> list[str]:
    """Lines without their common indent; empty ones have no spaces."""
    indent = common_indent(lines)
    return [line[indent:] if line.strip() else "" for line in lines]


def random_words(rng: random.Random, count: int) -> list[str]:
    return ["".join(rng.choices("abcdefg", k=rng.choice([1, 2, 3, 3, 5, 9]))) for _ in range(count)]


def arguments_wrap(rng: random.Random) -> tuple:
    return rng.choice([" ", "  "]).join(random_words(rng, rng.randint(0, 7))), rng.choice([0, 4, 6, 8, 12])


def arguments_justify(rng: random.Random) -> tuple:
    words = random_words(rng, rng.randint(1, 4))
    return words, sum(len(word) for word in words) + len(words) - 1 + rng.randint(0, 5)


def arguments_expand(rng: random.Random) -> tuple:
    return ("".join(rng.choice(["a", "bc", "\t", "\n", "\t\t"]) for _ in range(rng.randint(1, 7))),)


def arguments_shorten(rng: random.Random) -> tuple:
    return " ".join(random_words(rng, rng.randint(1, 4))), rng.randint(1, 14)


def arguments_table(rng: random.Random) -> tuple:
    def cell() -> str:
        return rng.choice(["", "7", "120", *random_words(rng, 2)])

    return ([[cell() for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(0, 3))],)


def arguments_box(rng: random.Random) -> tuple:
    return [" ".join(random_words(rng, 2)) for _ in range(rng.randint(0, 2))], rng.choice([4, 5, 8, 12, 20])


def arguments_common_indent(rng: random.Random) -> tuple:
    return ([" " * rng.randint(0, 4) + rng.choice(["x", "y z", ""]) for _ in range(rng.randint(0, 4))],)


def arguments_dedent(rng: random.Random) -> tuple:
    return ([" " * rng.randint(1, 5) + rng.choice(["x", "y z", ""]) for _ in range(rng.randint(0, 4))],)
