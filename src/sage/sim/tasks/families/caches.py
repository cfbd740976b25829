"""Caches with a limited number of entries."""

from __future__ import annotations

import random
from collections import OrderedDict

CHOICES = {"LIFETIME": (3, 4, 6)}
LIFETIME = 4


class RecentCache:
    """Keeps the entries that were used last."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError("a cache has at least one entry")
        self.size = size
        self.entries: OrderedDict[str, int] = OrderedDict()
        self.hits = 0

    def get(self, key: str) -> int | None:
        if key not in self.entries:
            return None
        self.hits += 1
        self.entries.move_to_end(key)
        return self.entries[key]

    def put(self, key: str, value: int) -> None:
        if key in self.entries:
            self.entries.move_to_end(key)
        self.entries[key] = value
        while len(self.entries) > self.size:
            self.entries.popitem(last=False)

    def keys(self) -> list[str]:
        return list(self.entries)


class RecentCache__counted:  # noqa: N801
    """Keeps the entries that were used last."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError("a cache has at least one entry")
        self.size = size
        self.values: dict[str, int] = {}
        self.used: dict[str, int] = {}
        self.clock = 0
        self.hits = 0

    def touch(self, key: str) -> None:
        self.clock += 1
        self.used[key] = self.clock

    def get(self, key: str) -> int | None:
        if key not in self.values:
            return None
        self.hits += 1
        self.touch(key)
        return self.values[key]

    def put(self, key: str, value: int) -> None:
        if key not in self.values and len(self.values) >= self.size:
            oldest = min(self.used, key=lambda name: self.used[name])
            del self.values[oldest], self.used[oldest]
        self.values[key] = value
        self.touch(key)

    def keys(self) -> list[str]:
        return sorted(self.used, key=lambda name: self.used[name])


class FrequentCache:
    """Keeps the entries that were used most; of equals, the one that was used last."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.values: dict[str, int] = {}
        self.counts: dict[str, tuple[int, int]] = {}
        self.clock = 0

    def use(self, key: str) -> None:
        self.clock += 1
        count, _ = self.counts.get(key, (0, 0))
        self.counts[key] = (count + 1, self.clock)

    def get(self, key: str) -> int | None:
        if key in self.values:
            self.use(key)
            return self.values[key]
        return None

    def put(self, key: str, value: int) -> None:
        if self.size <= 0:
            return
        if key not in self.values and len(self.values) == self.size:
            rarest = min(self.counts, key=lambda name: self.counts[name])
            del self.values[rarest]
            del self.counts[rarest]
        self.values[key] = value
        self.use(key)

    def keys(self) -> list[str]:
        return sorted(self.values)


class AgingCache:
    """Forgets entries LIFETIME steps after they were put."""

    def __init__(self) -> None:
        self.now = 0
        self.entries: dict[str, tuple[int, int]] = {}

    def step(self, count: int) -> int:
        self.now += count
        gone = [key for key, (_, until) in self.entries.items() if until <= self.now]
        for key in gone:
            del self.entries[key]
        return len(gone)

    def put(self, key: str, value: int) -> None:
        self.entries[key] = (value, self.now + LIFETIME)

    def get(self, key: str) -> int | None:
        value, until = self.entries.get(key, (None, 0))
        return value if until > self.now else None

    def left(self, key: str) -> int:
        if key not in self.entries:
            raise KeyError(key)
        return self.entries[key][1] - self.now


def hit_rate(keys: list[str], size: int) -> float:
    """The share of requests that a cache of the recent ones answers, in percent."""
    if not keys:
        return 0.0
    cache = RecentCache(size)
    for key in keys:
        if cache.get(key) is None:
            cache.put(key, len(key))
    return round(100 * cache.hits / len(keys), 1)


def operations(rng: random.Random, names: str, count: int) -> list[tuple]:
    found: list[tuple] = []
    for step in range(count):
        key = rng.choice(names)
        found.append(("put", key, step + 1) if rng.random() < 0.5 else ("get", key))
    return [*found, ("keys",)]


def arguments_RecentCache(rng: random.Random) -> tuple:  # noqa: N802
    return (rng.choice([0, 1, 2, 2, 3, 3]),), operations(rng, "abcde", rng.randint(5, 14))


def arguments_FrequentCache(rng: random.Random) -> tuple:  # noqa: N802
    return (rng.choice([0, 1, 2, 2, 3]),), operations(rng, "abcd", rng.randint(6, 16))


def arguments_AgingCache(rng: random.Random) -> tuple:  # noqa: N802
    found: list[tuple] = []
    for step in range(rng.randint(5, 12)):
        key = rng.choice("abc")
        found.append(rng.choice([("put", key, step), ("get", key), ("step", rng.randint(1, 3)), ("left", key)]))
    return (), found


def arguments_hit_rate(rng: random.Random) -> tuple:
    return rng.choices("abcdef", k=rng.randint(0, 14)), rng.randint(1, 4)
