"""Predictions from the earlier rows of a cluster: a task that was hard for one action is harder for all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SHARED = 0.9  # of the variance: outcomes that agree so much whatever was done belong to the cluster, not to its rows
LEAST_REST = 1e-3  # of the variance is a row's own, even where rows of one action always agreed


class Components(NamedTuple):
    """The variance of rewards around their predictions, in three parts by source."""

    cluster: float  # the same for all rows of a cluster: its difficulty
    action: float  # the same for rows of a cluster with one action
    rest: float  # a row's own


def variance_components(
    residuals: np.ndarray, actions: np.ndarray, clusters: np.ndarray, num_actions: int
) -> Components:
    """Estimates the components of variance from products of the residuals of two rows in one cluster, all arrays [n].

    Clusters count by their rows. Where rows of different actions agree almost always (`SHARED`), they may all report
    one outcome of the whole cluster, which depends on the row's own action: then no row says anything about another,
    and `rest` is all of the variance.
    """
    num_clusters = int(clusters.max()) + 1
    sums, counts = action_sums(residuals, actions, clusters, num_clusters, num_actions)
    squares = np.bincount(clusters, residuals**2, num_clusters)
    size = counts.sum(axis=1)
    weight = 1 / np.maximum(size - 1, 1)
    one = weight @ ((sums**2).sum(axis=1) - squares), weight @ (counts * (counts - 1)).sum(axis=1)
    two = (
        weight @ (sums.sum(axis=1) ** 2 - (sums**2).sum(axis=1)),
        weight @ (size**2 - (counts**2).sum(axis=1)),
    )
    total = float(squares.sum() / size.sum())
    shared = max(float(two[0] / two[1]), 0.0) if two[1] > 0 else 0.0
    if shared >= SHARED * total:
        return Components(0.0, 0.0, total)
    repeated = min(max(float(one[0] / one[1]), shared), total) if one[1] > 0 else shared
    return Components(shared, repeated - shared, max(total - repeated, LEAST_REST * total))


def action_sums(
    values: np.ndarray, actions: np.ndarray, clusters: np.ndarray, num_clusters: int, num_actions: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns two arrays [clusters, actions]: the sums and counts of `values` by cluster and action, all [n]."""
    key, shape = clusters * num_actions + actions, (num_clusters, num_actions)
    total = num_clusters * num_actions
    return np.bincount(key, values, total).reshape(shape), np.bincount(key, minlength=total).reshape(shape)


def expected_residuals(
    residuals: np.ndarray,
    actions: np.ndarray,
    rows: np.ndarray,
    first: np.ndarray,
    clusters: np.ndarray,
    num_actions: int,
    components: Components,
) -> np.ndarray:
    """Returns [n, actions] the best linear guess of every action's residual, from the cluster's earlier outcomes.

    Outcomes [m] have a residual, an action, the number of their row, and a bool `first`: known in the row whatever
    action is drawn, so that they count in their own row too. `clusters` [n] are of the rows. Outcomes of later rows
    never count: an outcome that was there before the row's action was drawn leaves a correction by its propensity
    unbiased, even where later rows depend on it (a retry after a failure).
    """
    sums, counts = earlier_sums(residuals, actions, rows, first, clusters, num_actions)
    if components.cluster + components.action == 0:
        return np.zeros_like(sums)
    known = counts > 0
    mean = np.divide(sums, counts, out=np.zeros_like(sums), where=known)
    precision = np.where(known, 1 / (components.action + components.rest / np.maximum(counts, 1)), 0.0)
    gathered = precision.sum(axis=1, keepdims=True)
    of_cluster = (
        components.cluster * (precision * mean).sum(axis=1, keepdims=True) / (1 + components.cluster * gathered)
    )
    return of_cluster + components.action * precision * (mean - of_cluster)


def earlier_sums(
    values: np.ndarray,
    actions: np.ndarray,
    rows: np.ndarray,
    first: np.ndarray,
    clusters: np.ndarray,
    num_actions: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns two arrays [n, actions]: sums and counts of the outcomes in earlier rows of the row's cluster.

    Outcomes [m] have a value, an action and a row number, and `clusters` [n] are of the rows. Outcomes with `first`, a
    bool, count in their own row, too.
    """
    order = np.argsort(clusters, kind="stable")
    is_start = np.diff(clusters[order], prepend=-1) != 0
    start = np.maximum.accumulate(np.where(is_start, np.arange(len(order)), 0))
    found = []
    for column in (values, np.ones(len(values))):
        own = by_row(column, actions, rows, len(clusters), num_actions)[order]
        before = np.cumsum(own, axis=0) - own
        result = np.empty_like(before)
        result[order] = before - before[start]
        found.append(result + by_row(column[first], actions[first], rows[first], len(clusters), num_actions))
    return found[0], np.rint(found[1])


def by_row(values: np.ndarray, actions: np.ndarray, rows: np.ndarray, num_rows: int, num_actions: int) -> np.ndarray:
    """Returns the sums [num_rows, actions] of `values` [m] by their row numbers and actions."""
    return np.bincount(rows * num_actions + actions, values, num_rows * num_actions).reshape(num_rows, num_actions)
