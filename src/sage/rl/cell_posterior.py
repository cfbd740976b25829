"""Gains over the incumbent in every cell, shrunk to those of the same role or of the same category in other roles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sage.policies.cells import Cells
from sage.policies.gains import LEAST_VARIANCE, GroupGains, Posterior, between_variance, group_gains, pairs_of
from sage.rl.gain_model import SWEEPS, gain_posterior

FEWEST_TASKS = 5  # of a cell, for its rows to say anything: fewer show no spread


class Incumbents(NamedTuple):
    """The incumbent of every group: its usual model, the variance of its mean reward, and the unit of rewards."""

    usual: np.ndarray  # int64 [groups]
    certain: np.ndarray  # bool [groups, models]: the incumbent of all rows
    variance: np.ndarray  # [groups]
    unit: float  # standard deviation of a reward, or a model's usual gain if that is more
    sweeps: int  # of the sampler


class CellGains(NamedTuple):
    """Estimated gains over the incumbent; rows are the cells, then one per role for categories never seen."""

    mean: np.ndarray  # [cells + roles, models]; NaN: no data
    deviation: np.ndarray  # [cells + roles, models]
    next_tasks: np.ndarray  # [cells + roles, models] how far the mean over as many new tasks scatters around the gain


def cell_posterior(
    values: np.ndarray,
    cells: Cells,
    cell: np.ndarray,
    incumbent: np.ndarray,
    tasks: np.ndarray,
    *,
    sweeps: int = SWEEPS,
) -> CellGains:
    """Returns gains over the incumbent of every row (int64 [n]), from (pseudo-)rewards [n, models].

    Where the incumbent is the same model throughout a cell, its gain is 0 and certain; where it varies, every model's
    gain is measured. New tasks are taken to scatter as the incumbent's rewards do: over the tasks of four outcome
    tables, the variance of a gain is .8 to 1.3 times that. For a category never seen the number of tasks is unknown,
    and this scatter is 0.
    """
    num_models, num_cells = values.shape[1], len(cells)
    is_incumbent = is_only_incumbent(incumbent, cell, num_cells, num_models)
    gain = gains_over(values, incumbent)
    gain[is_incumbent[cell]] = np.nan  # nothing to learn from
    gains = without_small(group_gains(gain, cell, num_cells, tasks), cell, tasks)
    today = incumbents_of(values, incumbent, cell, gains, tasks, sweeps=sweeps)
    mean, deviation = drawn_to_the_role(gains, cells, today)
    peers = peers_of(cells, today.usual)
    has_peer = np.bincount(peers)[peers] > 1
    between = spread_within(gains, peers)
    if has_peer.any() and between <= spread_within(gains, cells.role_of_pair):
        num_groups = len(np.unique(peers))
        pooled = without_small(group_gains(gain, peers[cell], num_groups, tasks), peers[cell], tasks)
        of_groups = incumbents_of(values, incumbent, peers[cell], pooled, tasks, sweeps=sweeps)
        shared = drawn_to_peers(gains, pooled, peers, of_groups, between)
        mean[:num_cells][has_peer], deviation[:num_cells][has_peer] = (part[has_peer] for part in shared)
    certain = np.vstack(
        [is_incumbent, is_only_incumbent(incumbent, cells.role_of_pair[cell], len(cells.roles), num_models)]
    )
    scatter = np.append(np.sqrt(np.nan_to_num(today.variance, posinf=0.0)), np.zeros(len(cells.roles)))
    return CellGains(*(np.where(certain, 0.0, part) for part in (mean, deviation, scatter[:, None])))


def without_small(gains: GroupGains, group: np.ndarray, tasks: np.ndarray) -> GroupGains:
    """Returns the gains with NaN as the mean of groups that have fewer than FEWEST_TASKS tasks.

    `group` (int [n]) and `tasks` [n] are those of the rows.
    """
    few = np.bincount(pairs_of(group, tasks)[0], minlength=len(gains.mean)) < FEWEST_TASKS
    return gains._replace(mean=np.where(few[:, None], np.nan, gains.mean))


def incumbents_of(
    values: np.ndarray, incumbent: np.ndarray, group: np.ndarray, gains: GroupGains, tasks: np.ndarray, *, sweeps: int
) -> Incumbents:
    """Returns the incumbents of groups, with the unit that rewards are measured in.

    Rows have (pseudo-)rewards [n, models], an incumbent and a group (int [n]). The unit is the standard deviation of
    the incumbent's rewards, or the largest usual gain if that is more, since an incumbent that always fails has no
    spread.
    """
    num_groups, num_models = gains.mean.shape
    own = values[np.arange(len(values)), incumbent]
    counts = counts_of(incumbent, group, num_groups, num_models)
    variance = group_gains(own[:, None], group, num_groups, tasks).variance[:, 0]
    unit = max(float(np.nanstd(own)), largest_gain(gains))
    certain = is_only_incumbent(incumbent, group, num_groups, num_models)
    return Incumbents(counts.argmax(axis=1), certain, variance, unit if unit > 0 else 1.0, sweeps)


def largest_gain(gains: GroupGains) -> float:
    """Returns the largest root mean square gain of any model over its groups, noise included."""
    known = np.isfinite(gains.mean) & np.isfinite(gains.variance)
    precision = np.where(known, 1 / np.maximum(np.where(known, gains.variance, 1.0), LEAST_VARIANCE), 0.0)
    squares = np.where(known, gains.mean, 0.0) ** 2
    found = (precision * squares).sum(axis=0) / np.maximum(precision.sum(axis=0), LEAST_VARIANCE)
    return float(np.sqrt(found.max(initial=0.0)))


def drawn_to_the_role(gains: GroupGains, cells: Cells, today: Incumbents) -> tuple[np.ndarray, np.ndarray]:
    """Returns means and deviations [cells + roles, models]; cells are shrunk to the other cells of their role."""
    num_cells, num_models = gains.mean.shape
    mean, deviation = (np.full((num_cells + len(cells.roles), num_models), np.nan) for _ in range(2))
    for role in range(len(cells.roles)):
        here = cells.role_of_pair == role
        found = posterior_of(gains, here, today)
        mean[:num_cells][here], deviation[:num_cells][here] = found.mean, found.deviation
        mean[num_cells + role], deviation[num_cells + role] = found.new_mean, found.new_deviation
    return mean, deviation


def posterior_of(gains: GroupGains, rows: np.ndarray, today: Incumbents) -> Posterior:
    return gain_posterior(
        GroupGains(*(part[rows] for part in gains)),
        today.usual[rows],
        today.variance[rows],
        today.certain[rows],
        unit=today.unit,
        sweeps=today.sweeps,
    )


def peers_of(cells: Cells, usual: np.ndarray) -> np.ndarray:
    """Returns int64 [cells]: a number that cells share if category and incumbent are the same, in whatever role.

    `usual` (int [cells]) is the incumbent's model.
    """
    keys = [(category, int(model)) for (_, category), model in zip(cells.pairs, usual, strict=True)]
    place = {key: index for index, key in enumerate(sorted(set(keys)))}
    return np.array([place[key] for key in keys], np.int64)


def spread_within(gains: GroupGains, group: np.ndarray) -> float:
    """Returns the variance of cells around the means of their groups (int [cells]), without noise, over all models."""
    inside = group[:, None] == np.unique(group)[None]  # [cells, groups]
    known = inside[:, :, None] & (np.isfinite(gains.mean) & np.isfinite(gains.variance))[:, None]
    mean = np.where(known, np.nan_to_num(gains.mean)[:, None], 0.0)
    variance = np.where(known, np.maximum(np.nan_to_num(gains.variance, nan=np.inf), LEAST_VARIANCE)[:, None], np.inf)
    return between_variance(*(part.reshape(len(group), -1) for part in (mean, variance, known)))


def drawn_to_peers(
    gains: GroupGains, pooled: GroupGains, peers: np.ndarray, today: Incumbents, between: float
) -> tuple[np.ndarray, np.ndarray]:
    """Returns means and deviations [cells, models], each cell shrunk to its category's mean over roles.

    That mean is itself shrunk to the model's mean over categories. `between` is the variance of cells within
    categories.
    """
    of_group, sure_of_group = np.full(pooled.mean.shape, np.nan), np.full(pooled.mean.shape, np.nan)
    for model in np.unique(today.usual):
        here = today.usual == model
        found = posterior_of(pooled, here, today)
        of_group[here], sure_of_group[here] = found.mean, found.deviation**2
    prior = of_group[peers]
    prior_variance = sure_of_group[peers] + between / np.bincount(peers)[peers][:, None]
    known = np.isfinite(gains.mean) & np.isfinite(gains.variance)
    variance = np.where(known, np.maximum(gains.variance, LEAST_VARIANCE), np.inf)
    trust = between / (variance + between)
    mean = prior + trust * np.where(known, gains.mean - prior, 0.0)
    between += deviation_of_spread(variance[known], int(known.sum() - len(np.unique(peers)) * known.any(axis=0).sum()))
    trust = between / (variance + between)
    own = trust * np.where(known, variance, 0.0) + (1 - trust) ** 2 * prior_variance
    return mean, np.sqrt(np.where(known, own, between + prior_variance))


def deviation_of_spread(variance: np.ndarray, freedom: int) -> float:
    """Returns the standard error of a variance between cells that is hardly distinguishable from noise.

    `variance` are those of the cells' means, `freedom` is the degrees of freedom. A variance between cells that was
    estimated as 0 may well be as large as the result.
    """
    return float(np.median(variance) * np.sqrt(2 / max(freedom, 1))) if len(variance) else 0.0


def gains_over(values: np.ndarray, incumbent: np.ndarray) -> np.ndarray:
    """Returns [n, models]: the (pseudo-)rewards less that of the row's incumbent (int [n])."""
    return values - values[np.arange(len(values)), incumbent][:, None]


def is_only_incumbent(incumbent: np.ndarray, group: np.ndarray, num_groups: int, num_models: int) -> np.ndarray:
    """Returns bool [groups, models]: True where the incumbent (int [n]) is this model in all rows of a group."""
    counts = counts_of(incumbent, group, num_groups, num_models)
    return (counts == counts.sum(axis=1, keepdims=True)) & (counts > 0)


def counts_of(incumbent: np.ndarray, group: np.ndarray, num_groups: int, num_models: int) -> np.ndarray:
    """Returns [groups, models]: the number of rows in which the incumbent (int [n]) is this model."""
    pairs = np.bincount(group * num_models + incumbent, minlength=num_groups * num_models)
    return pairs.reshape(num_groups, num_models)
