"""An allowance of quality spent where it saves most: shares of decisions for cheaper models, chosen all together.

The saving of all shares x together is `saving . x`. What they use of the allowance is the expected loss of quality plus
errors of its estimate, `-gain . x + sum of width * sqrt(x' covariance x)`. That is a convex problem, of which the
greedy knapsack is the case without errors: with them it pays to spread, as errors of different cells cancel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LOWEST_PRICE, HIGHEST_PRICE = 1e-4, 1e3  # of the whole saving, in uses of the allowance
HALVINGS, STEPS = 16, 200
SMOOTHING = 1e-5  # of the allowance: below it errors count as quadratic
STILL, SMALL = 2e-4, 0.05  # change after which the search stops, of the largest share if that is not small


class Question(NamedTuple):
    """A choice of shares to make: entries are pairs of a cell and a model, and shares of a cell add up to at most 1."""

    saving: np.ndarray  # [entries] of all decisions, if the model got the whole cell
    gain: np.ndarray  # [entries] of quality, of all decisions
    errors: tuple[tuple[float, np.ndarray], ...]  # widths, and covariances [entries, entries] of the gain
    cell: np.ndarray  # int64 [entries]

    def select(self, kept: np.ndarray) -> Question:
        errors = tuple((width, covariance[np.ix_(kept, kept)]) for width, covariance in self.errors)
        return Question(self.saving[kept], self.gain[kept], errors, self.cell[kept])

    def used(self, share: np.ndarray, smoothing: float = 0.0) -> float:
        """Returns how much of the allowance the shares use."""
        spread = sum(width * np.sqrt(share @ covariance @ share + smoothing**2) for width, covariance in self.errors)
        return float(spread - self.gain @ share)

    def used_by_more(self, share: np.ndarray, smoothing: float) -> np.ndarray:
        """Returns [entries]: the derivative of `used`."""
        slope = -self.gain
        for width, covariance in self.errors:
            direction = covariance @ share
            slope = slope + width * direction / np.sqrt(share @ direction + smoothing**2)
        return slope


class Spent(NamedTuple):
    """The shares that save most within an allowance, and the price of quality at which they do."""

    share: np.ndarray  # [entries]
    worth: float  # allowance that the last unit of saving uses


def spend_allowance(question: Question, allowance: float) -> Spent:
    """Returns the shares with the largest saving that use at most the allowance, which is above 0."""
    whole = float(np.abs(question.saving).sum())
    share = np.zeros(len(question.saving))
    if not whole > 0 or not (question.saving > 0).any():
        return Spent(share, 0.0)
    scaled = question._replace(saving=question.saving / whole)
    low, high, beyond = LOWEST_PRICE * allowance, HIGHEST_PRICE, None
    for _ in range(HALVINGS):
        price = float(np.sqrt(low * high))
        found = best_shares(scaled, price, share, SMOOTHING * allowance)
        if scaled.used(found) <= allowance:
            low, share = price, found
        else:
            high, beyond = price, found
    if beyond is None:
        return Spent(share, low / whole)
    # Both are the best for nearly the same price, and so is what lies between them.
    least, most = 0.0, 1.0
    for _ in range(HALVINGS):
        part = (least + most) / 2
        within = scaled.used(share + part * (beyond - share)) <= allowance
        least, most = (part, most) if within else (least, part)
    return Spent(share + least * (beyond - share), low / whole)


def best_shares(question: Question, price: float, start: np.ndarray, smoothing: float) -> np.ndarray:
    """Returns the shares with the largest `price * saving` less what they use (accelerated projected gradient)."""

    def lost(share: np.ndarray) -> float:
        return question.used(share, smoothing) - price * float(question.saving @ share)

    share, ahead, momentum, curvature, before = start, start, 1.0, 1.0, lost(start)
    for _ in range(STEPS):
        slope = question.used_by_more(ahead, smoothing) - price * question.saving
        level = lost(ahead)
        while True:
            found = onto_cells(ahead - slope / curvature, question.cell)
            step = found - ahead
            now = lost(found)
            if now <= level + float(slope @ step) + curvature / 2 * float(step @ step) + 1e-15:
                break
            curvature *= 2
        if now > before:  # momentum went too far
            momentum, ahead, curvature = 1.0, share, curvature * 2
            if curvature > 1e15:
                break
            continue
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = onto_cells(found + (momentum - 1) / following * (found - share), question.cell)
        change = float(np.abs(found - share).max(initial=0.0))
        share, before, momentum, curvature = found, now, following, curvature * 0.7
        if change < STILL * max(float(found.max(initial=0.0)), SMALL):
            break
    return share


def onto_cells(share: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """Returns the nearest shares that are 0 or more and add up to at most 1 in every cell; `cell` is int [entries]."""
    kept = np.maximum(share, 0.0)
    for full in np.flatnonzero(np.bincount(cell, kept) > 1):
        inside = cell == full
        ordered = np.sort(kept[inside])[::-1]
        above = (np.cumsum(ordered) - 1) / np.arange(1, len(ordered) + 1)
        kept[inside] = np.maximum(kept[inside] - above[ordered > above][-1], 0.0)
    return kept
