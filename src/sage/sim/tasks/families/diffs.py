"""Differences of lists of lines: common parts, edits, patches and merges."""

from __future__ import annotations

import random

CHOICES = {"CONTEXT": (0, 1, 2)}
CONTEXT = 1


def longest_common(left: list[str], right: list[str]) -> list[str]:
    """A longest list of lines that both have in this order; earlier lines of the left are preferred."""
    rows, columns = len(left), len(right)
    lengths = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            if left[i] == right[j]:
                lengths[i][j] = lengths[i + 1][j + 1] + 1
            else:
                lengths[i][j] = max(lengths[i + 1][j], lengths[i][j + 1])
    common, i, j = [], 0, 0
    while i < rows and j < columns:
        if left[i] == right[j]:
            common.append(left[i])
            i, j = i + 1, j + 1
        elif lengths[i][j + 1] >= lengths[i + 1][j]:
            j += 1
        else:
            i += 1
    return common


def edit_script(left: list[str], right: list[str]) -> list[str]:
    """Lines with "-", "+" or " " before them that lead from the left to the right."""
    script, i, j = [], 0, 0
    for line in [*longest_common(left, right), None]:
        while i < len(left) and left[i] != line:
            script.append("-" + left[i])
            i += 1
        while j < len(right) and right[j] != line:
            script.append("+" + right[j])
            j += 1
        if line is not None:
            script.append(" " + line)
            i, j = i + 1, j + 1
    return script


def apply_script(lines: list[str], script: list[str]) -> list[str]:
    """The lines after an edit script; lines that do not fit are refused."""
    result, place = [], 0
    for step in script:
        mark, line = step[0], step[1:]
        if mark == "+":
            result.append(line)
            continue
        if place >= len(lines) or lines[place] != line:
            raise ValueError(f"{line!r} is not there")
        if mark == " ":
            result.append(line)
        place += 1
    return result + lines[place:]


def reverse_script(script: list[str]) -> list[str]:
    """The script that undoes another."""
    swapped = {"+": "-", "-": "+", " ": " "}
    return [swapped[step[0]] + step[1:] for step in script]


def hunks(script: list[str]) -> list[tuple[int, int]]:
    """Ranges of the script that hold all changes with CONTEXT lines around them; touching ones are one."""
    found: list[tuple[int, int]] = []
    for place, step in enumerate(script):
        if step[0] == " ":
            continue
        start, end = max(0, place - CONTEXT), min(len(script), place + CONTEXT + 1)
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def distance(left: str, right: str) -> int:
    """How many letters must be put in, taken out or replaced."""
    before = list(range(len(right) + 1))
    for i, letter in enumerate(left, start=1):
        row = [i]
        for j, other in enumerate(right, start=1):
            cost = 0 if letter == other else 1
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + cost))
        before = row
    return before[-1]


def distance__memory(left: str, right: str) -> int:
    """How many letters must be put in, taken out or replaced."""
    known: dict[tuple[int, int], int] = {}

    def between(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        if (i, j) not in known:
            same = left[i - 1] == right[j - 1]
            replaced = between(i - 1, j - 1) + (0 if same else 1)
            known[i, j] = min(replaced, between(i - 1, j) + 1, between(i, j - 1) + 1)
        return known[i, j]

    return between(len(left), len(right))


def merge_fields(
    base: dict[str, int], ours: dict[str, int], theirs: dict[str, int]
) -> tuple[dict[str, int], list[str]]:
    """Both changes of a record, and the names that both changed differently, which keep our value."""
    merged, conflicts = {}, []
    for name in sorted(base.keys() | ours.keys() | theirs.keys()):
        old, one, other = base.get(name), ours.get(name), theirs.get(name)
        value = one
        if one == old:
            value = other
        elif other not in (old, one):
            conflicts.append(name)
        if value is not None:
            merged[name] = value
    return merged, conflicts


def moved(left: list[str], right: list[str]) -> list[str]:
    """Lines that both have once, at another place among those lines, sorted."""
    both = [line for line in left if left.count(line) == 1 and right.count(line) == 1]
    order = [line for line in right if line in both]
    return sorted(line for place, line in enumerate(both) if order[place] != line)


def random_lines(rng: random.Random) -> list[str]:
    return rng.choices("abcde", k=rng.randint(0, 6))


def arguments_longest_common(rng: random.Random) -> tuple:
    return random_lines(rng), random_lines(rng)


def arguments_edit_script(rng: random.Random) -> tuple:
    return random_lines(rng), random_lines(rng)


def arguments_apply_script(rng: random.Random) -> tuple:
    left = random_lines(rng)
    script = edit_script(left, random_lines(rng))
    return left[1:] if rng.random() < 0.2 else left, script


def arguments_reverse_script(rng: random.Random) -> tuple:
    return (edit_script(random_lines(rng), random_lines(rng)),)


def arguments_hunks(rng: random.Random) -> tuple:
    return ([rng.choice(" " * 5 + "+-") + rng.choice("ab") for _ in range(rng.randint(0, 9))],)


def arguments_distance(rng: random.Random) -> tuple:
    return "".join(random_lines(rng)), "".join(random_lines(rng))


def arguments_merge_fields(rng: random.Random) -> tuple:
    def record() -> dict[str, int]:
        return {name: rng.randint(1, 2) for name in "abcd" if rng.random() < 0.7}

    return record(), record(), record()


def arguments_moved(rng: random.Random) -> tuple:
    lines = rng.sample("abcdef", rng.randint(1, 5))
    return lines, rng.sample(lines, len(lines)) + rng.choices("ax", k=rng.randint(0, 2))
