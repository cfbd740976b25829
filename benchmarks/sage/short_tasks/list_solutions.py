"""Our solutions to the longer list functions, which give the expected values of tests."""

from __future__ import annotations

from bisect import bisect_left

Matrix = list[list[int]]


def turned(rows: Matrix, what: str) -> Matrix:
    if what.startswith("with rows"):
        return [list(column) for column in zip(*rows, strict=True)]
    if "counterclockwise" in what:
        return [list(column) for column in zip(*rows, strict=True)][::-1]
    return [list(column) for column in zip(*rows[::-1], strict=True)]


def spiral(rows: Matrix) -> list[int]:
    found: list[int] = []
    while rows:
        found += rows[0]
        rows = [list(column) for column in zip(*rows[1:], strict=True)][::-1]
    return found


def merged(intervals: Matrix) -> Matrix:
    result: Matrix = []
    for low, high in sorted(intervals):
        if result and low <= result[-1][1]:
            result[-1][1] = max(result[-1][1], high)
        else:
            result.append([low, high])
    return result


def flat(values: list, depth: float) -> list:
    found: list = []
    for value in values:
        found += flat(value, depth - 1) if isinstance(value, list) and depth else [value]
    return found


def longest_run(numbers: list[int], rule: str) -> int:
    best = length = 0
    for place, value in enumerate(numbers):
        follows = place and (value > numbers[place - 1] if "larger" in rule else value == numbers[place - 1])
        length = length + 1 if follows else 1
        best = max(best, length)
    return best


def best_sum(numbers: list[int]) -> int:
    return max(sum(numbers[i:j]) for i in range(len(numbers)) for j in range(i + 1, len(numbers) + 1))


def trapped(heights: list[int]) -> int:
    return sum(min(max(heights[: i + 1]), max(heights[i:])) - h for i, h in enumerate(heights))


def alive_next(cells: list[int]) -> list[int]:
    padded = [0, *cells, 0]
    return [int(padded[i - 1] != padded[i + 1]) for i in range(1, len(padded) - 1)]


def increasing_length(numbers: list[int]) -> int:
    ends: list[int] = []
    for value in numbers:
        place = bisect_left(ends, value)
        ends[place : place + 1] = [value]
    return len(ends)
