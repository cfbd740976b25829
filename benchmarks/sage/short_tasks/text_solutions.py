"""Our solutions to the longer text functions, which give the expected values of tests."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, takewhile


def shifted(text: str, k: int) -> str:
    return "".join(
        chr((ord(c) - base + k) % 26 + base) if (base := 97 if c.islower() else 65) and c.isalpha() else c for c in text
    )


def run_lengths(text: str, single: str) -> str:
    runs = [(letter, len(list(group))) for letter, group in groupby(text)]
    return "".join(c if n == 1 and single.startswith("no") else f"{c}{n}" for c, n in runs)


def balanced(text: str, kinds: str) -> bool:
    open_by_close = dict(zip(kinds[1::2], kinds[::2], strict=True))
    waiting: list[str] = []
    for c in text:
        if c in open_by_close.values():
            waiting.append(c)
        elif c in open_by_close and (not waiting or waiting.pop() != open_by_close[c]):
            return False
    return not waiting


def most_frequent(text: str, which: str) -> str:
    counts = Counter(text)
    sign = -1 if which == "most" else 1
    return min(counts, key=lambda c: (sign * counts[c], c))


def without_pairs(text: str) -> str:
    kept: list[str] = []
    for c in text:
        if kept and kept[-1] == c:
            kept.pop()
        else:
            kept.append(c)
    return "".join(kept)


def edit_distance(a: str, b: str, substitution: int) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y) * substitution)
    return row[-1]


def expanded(text: str) -> list[int]:
    found = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        found += range(int(low), int(high or low) + 1)
    return found


def longest_without_repeat(text: str) -> int:
    best = start = 0
    for end in range(len(text)):
        while text[end] in text[start:end]:
            start += 1
        best = max(best, end - start + 1)
    return best


def is_strong(text: str, n: int, needs: str) -> bool:
    tests = {"digit": str.isdigit, "upper-case letter": str.isupper, "lower-case letter": str.islower}
    return len(text) >= n and all(any(map(test, text)) for name, test in tests.items() if name in needs)


def common_end(texts: list[str], end: str) -> str:
    step = 1 if end == "prefix" else -1
    places = [set(place) for place in zip(*(text[::step] for text in texts), strict=False)]
    return "".join(place.pop() for place in takewhile(lambda place: len(place) == 1, places))[::step]
