"""Planned looks at a growing log: boundaries that share one error rate, most of which is left for the last look."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist

import numpy as np

LARGEST = 7.0  # standard errors: a boundary out there spends 1.3e-12
LEAST_STEP = 1e-3  # of the planned data: a look that adds less cannot reject
FINENESS = 3  # points of the grid per standard deviation of a step
BISECTIONS = 50


def spent(fraction: float, tail: float = 0.025) -> float:
    """Returns the part of the error rate `tail` that is spent when this fraction of the planned data is there.

    It is the function of Lan and DeMets (Biometrika 70, 1983, 659-663) with the shape of O'Brien and Fleming's boundaries:
    early looks spend almost nothing, and from a fraction of 1 on all is spent. Raises ValueError for a fraction not
    above 0, or a tail outside 0 to 1.
    """
    if not fraction > 0:
        raise ValueError(f"fraction={fraction} must be above 0: it is the data of a look over the data of the last one")
    if not 0 < tail < 1:
        raise ValueError(f"tail={tail} must lie between 0 and 1: it is an error rate, as 0.025")
    normal = NormalDist()
    return 2 * normal.cdf(normal.inv_cdf(tail / 2) / math.sqrt(min(fraction, 1.0)))


def spending_boundaries(fractions: Sequence[float], tail: float = 0.025) -> tuple[float, ...]:
    """Returns the standard errors that a value must lie above zero at each look, so that all looks together err in `tail`.

    `fractions` are the data of the looks over the data planned for the last one, increasing; the last look may come with
    more than planned. Means of independent data are sums with independent steps. Where they depend more on each other, as
    where the same tasks come again, the looks together err less. A look that adds less than a thousandth of the planned
    data gets the largest boundary, 7. Raises ValueError if the fractions do not increase.
    """
    if any(not later > earlier for earlier, later in pairwise(fractions)):
        raise ValueError(f"fractions={list(fractions)} must increase: each look has more data than the one before")
    return boundaries_of(tuple(float(fraction) for fraction in fractions), tail)


@lru_cache(maxsize=1024)
def boundaries_of(fractions: tuple[float, ...], tail: float) -> tuple[float, ...]:
    """Returns the boundaries by recursive integration of the sums that stayed below (Armitage and others, 1969)."""
    found: list[float] = []
    sums, density, at, used = np.zeros(1), np.ones(1), 0.0, 0.0  # the sums that went on, their weights, their time
    for fraction in fractions:
        target = spent(fraction, tail)
        if fraction - at < LEAST_STEP:
            found.append(LARGEST)
            continue
        deviation, most = math.sqrt(fraction - at), LARGEST * math.sqrt(fraction)
        low, high = -most, most
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            exceeds = 0.5 * float(density @ complement((middle - sums) / (deviation * math.sqrt(2))))
            low, high = (low, middle) if exceeds <= target - used else (middle, high)
        found.append(high / math.sqrt(fraction))
        used = target if high < most else used
        points = 2 * math.ceil(FINENESS * most / deviation) + 1
        reached, step = np.linspace(-most, high, points, retstep=True)
        arrivals = np.exp(-(((reached[:, None] - sums) / deviation) ** 2) / 2) @ density
        simpson = np.where(np.arange(points) % 2, 4.0, 2.0)
        simpson[[0, -1]] = 1.0
        sums, density = reached, arrivals * simpson * step / (3 * deviation * math.sqrt(2 * math.pi))
        at = fraction
    return tuple(found)


complement = np.vectorize(math.erfc, otypes=[float])
