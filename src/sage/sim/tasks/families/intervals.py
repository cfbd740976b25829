"""Sets of integers as sorted half-open intervals that do not touch."""

from __future__ import annotations

import random

CHOICES = {"SHORTEST": (1, 2, 3)}
SHORTEST = 1


def normalise(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted, without empty intervals, with overlapping and touching ones joined."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def normalise__counting(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted, without empty intervals, with overlapping and touching ones joined."""
    changes: dict[int, int] = {}
    for start, end in intervals:
        if start < end:
            changes[start] = changes.get(start, 0) + 1
            changes[end] = changes.get(end, 0) - 1
    joined, depth, begun = [], 0, 0
    for place in sorted(changes):
        if depth == 0 and changes[place] > 0:
            begun = place
        depth += changes[place]
        if depth == 0 and changes[place] < 0:
            joined.append((begun, place))
    return joined


def contains(intervals: list[tuple[int, int]], value: int) -> bool:
    """Whether a value lies in a normalised set."""
    low, high = 0, len(intervals)
    while low < high:
        middle = (low + high) // 2
        start, end = intervals[middle]
        if value < start:
            high = middle
        elif value >= end:
            low = middle + 1
        else:
            return True
    return False


def contains__scan(intervals: list[tuple[int, int]], value: int) -> bool:
    """Whether a value lies in a normalised set."""
    for start, end in intervals:
        if value < start:
            return False
        if value < end:
            return True
    return False


def intersect(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What two sets share."""
    left, right = normalise(left), normalise(right)
    shared, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        start = max(left[i][0], right[j][0])
        end = min(left[i][1], right[j][1])
        if start < end:
            shared.append((start, end))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return shared


def subtract(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is in the first set and not in the second."""
    kept = []
    for start, end in normalise(left):
        for cut_start, cut_end in normalise(right):
            if cut_end <= start or cut_start >= end:
                continue
            if cut_start > start:
                kept.append((start, cut_start))
            start = cut_end
            if start >= end:
                break
        if start < end:
            kept.append((start, end))
    return kept


def gaps(intervals: list[tuple[int, int]], first: int, last: int) -> list[tuple[int, int]]:
    """The intervals between first and last, of at least SHORTEST values, that a set leaves free."""
    free, place = [], first
    for start, end in normalise(intervals):
        if end <= first or start >= last:
            continue
        if start - place >= SHORTEST:
            free.append((place, start))
        place = max(place, end)
    if last - place >= SHORTEST:
        free.append((place, last))
    return free


def gaps__subtracting(intervals: list[tuple[int, int]], first: int, last: int) -> list[tuple[int, int]]:
    """The intervals between first and last, of at least SHORTEST values, that a set leaves free."""
    free = subtract([(first, last)], intervals)
    return [(start, end) for start, end in free if end - start >= SHORTEST]


def total(intervals: list[tuple[int, int]]) -> int:
    """How many values a set has."""
    count = 0
    for start, end in normalise(intervals):
        count += end - start
    return count


def deepest(intervals: list[tuple[int, int]]) -> int:
    """The largest number of intervals that share a value."""
    changes = [(start, 1) for start, end in intervals if start < end]
    changes += [(end, -1) for start, end in intervals if start < end]
    depth = most = 0
    for _, change in sorted(changes):
        depth += change
        most = max(most, depth)
    return most


def arguments_normalise(rng: random.Random) -> tuple:
    return ([(start, start + rng.randint(-1, 6)) for start in rng.choices(range(20), k=rng.randint(0, 6))],)


def arguments_contains(rng: random.Random) -> tuple:
    return normalise(*arguments_normalise(rng)), rng.randint(-1, 22)


def arguments_intersect(rng: random.Random) -> tuple:
    return *arguments_normalise(rng), *arguments_normalise(rng)


def arguments_subtract(rng: random.Random) -> tuple:
    return arguments_intersect(rng)


def arguments_gaps(rng: random.Random) -> tuple:
    first = rng.randint(-2, 8)
    return *arguments_normalise(rng), first, first + rng.randint(0, 16)


def arguments_total(rng: random.Random) -> tuple:
    return arguments_normalise(rng)


def arguments_deepest(rng: random.Random) -> tuple:
    return arguments_normalise(rng)
