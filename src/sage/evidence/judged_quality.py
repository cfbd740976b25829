"""Mean quality of logged decisions, where chance may have chosen which outcomes are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sage.log.records import Decision, Outcome


def judged_quality(decision: Decision, outcome: Outcome | None) -> float | None:
    """Returns the quality that counts: 0 for a time-out, None if nobody saw it or if it was not drawn to be reported."""
    if outcome is None or not decision.outcome_wanted:
        return None
    return 0.0 if outcome.timed_out else outcome.quality


def drawn_weight(decision: Decision) -> float:
    """Returns how many decisions the outcome of a drawn one stands for."""
    return 1 / (decision.outcome_probability or 1.0)


def mean_quality(rows: Iterable[tuple[Decision, Outcome | None]]) -> float | None:
    """Returns the mean over all decisions, as far as drawn outcomes tell; None without any."""
    found = [
        (quality, drawn_weight(made)) for made, told in rows if (quality := judged_quality(made, told)) is not None
    ]
    return weighted_mean(*zip(*found, strict=True)) if found else None


def weighted_mean(values: Sequence[float] | np.ndarray, weights: Sequence[float] | np.ndarray) -> float:
    return float(np.average(np.asarray(values, np.float64), weights=np.asarray(weights, np.float64)))
