"""Deduplication of tasks: no two with the same bug, few of the same shape, few in functions that are alike."""

from __future__ import annotations

import hashlib
import io
import keyword
import tokenize
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

MOST_PER_SHAPE = 3
MOST_PER_FUNCTION = 25
ALIKE = 0.8  # share of token triples (Jaccard)


def masked(lines: Sequence[str]) -> str:
    """Returns changed lines with identifiers, numbers and texts masked; the rest is the shape of a change."""
    shapes = []
    for line in lines:
        words = [line[:1]]
        with suppress(tokenize.TokenError, SyntaxError):  # a line may be a part of a statement
            words += map(mask, tokenize.generate_tokens(io.StringIO(line[1:].strip()).readline))
        shapes.append(" ".join(word for word in words if word))
    return "\n".join(shapes)


def mask(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME:
        return token.string if keyword.iskeyword(token.string) else "n"
    if token.type == tokenize.NUMBER:
        return "0"
    return "s" if token.type == tokenize.STRING else token.string.strip()


def shape_of(lines: Sequence[str]) -> str:
    return hashlib.sha256(masked(lines).encode()).hexdigest()[:16]


def token_triples(source: str) -> frozenset[int]:
    """Returns hashes of every three tokens that follow each other in a function."""
    passed_over = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE)
    try:
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        words = [token.string for token in tokens if token.type not in passed_over]
    except (tokenize.TokenError, SyntaxError):
        words = source.split()
    triples = zip(words, words[1:], words[2:], strict=False)
    return frozenset(
        int.from_bytes(hashlib.blake2b("\0".join(three).encode(), digest_size=6).digest()) for three in triples
    )


class Deduplicator:
    """A filter that decides, task by task in a fixed order, whether there are enough tasks of the same bug, shape,
    function or package."""

    def __init__(self, per_package: int) -> None:
        self.per_package = per_package
        self.broken: set[str] = set()
        self.failing: set[tuple[str, str]] = set()
        self.shapes: Counter[str] = Counter()
        self.functions: Counter[int] = Counter()
        self.packages: Counter[str] = Counter()
        self.known: dict[str, int] = {}
        self.groups: list[frozenset[int]] = []

    def group_of(self, function: str, triples: frozenset[int]) -> int:
        """Returns the number of the group of similar functions to which a function belongs."""
        if function not in self.known:
            alike = (
                place for place, other in enumerate(self.groups) if len(triples & other) > ALIKE * len(triples | other)
            )
            self.known[function] = next(alike, len(self.groups))
            if self.known[function] == len(self.groups):
                self.groups.append(triples)
        return self.known[function]

    def is_full(self, shape: str) -> bool:
        return self.shapes[shape] >= MOST_PER_SHAPE

    def reason(self, row: dict, triples: frozenset[int]) -> str:
        """Returns the code of the reason why a task is left out; '' if it may be kept."""
        function = function_id(row)
        if row["broken_sha256"] in self.broken or (function, row["failing_sha256"]) in self.failing:
            return "duplicate"
        if self.is_full(row["shape"]):
            return "shape"
        if self.functions[self.group_of(function, triples)] >= MOST_PER_FUNCTION:
            return "function"
        if self.packages[row["package"]] >= self.per_package:
            return "package"
        return ""

    def add(self, row: dict, triples: frozenset[int]) -> None:
        """Counts a task that is kept."""
        self.broken.add(row["broken_sha256"])
        self.failing.add((function_id(row), row["failing_sha256"]))
        self.shapes[row["shape"]] += 1
        self.functions[self.group_of(function_id(row), triples)] += 1
        self.packages[row["package"]] += 1


def function_id(row: dict) -> str:
    return f"{row['suite']}:{row['function']}"
