"""Logged decisions and episodes, checked once: what every off-policy estimator takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

SUM_TOLERANCE = 1e-4  # probabilities that were stored in single precision still pass


class Tries(NamedTuple):
    """Tried actions and their rewards, at most one per row; `made` is True in rows that have one."""

    made: np.ndarray  # bool [n]: rows that have one
    actions: np.ndarray  # [n]
    rewards: np.ndarray  # [n]

    def of(self, values: np.ndarray) -> np.ndarray:
        """Returns [n] each row's entry of an array [n, actions] for the tried action, or 0 in rows without one."""
        return np.where(self.made, values[np.arange(len(self.actions)), self.actions], 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class BanditLog:
    """Logged one-step decisions, one per row, with the probabilities under which the behaviour policy drew them.

    Raises ValueError if columns do not fit together, such as propensities that are no distribution.
    """

    actions: np.ndarray
    """[n] index of the action taken."""
    rewards: np.ndarray
    """[n]"""
    propensities: np.ndarray
    """[n, actions] probabilities under which the action was drawn; NaN where unknown, never for the action taken."""
    features: np.ndarray | None = None
    """[n, d] what the reward model sees."""
    clusters: np.ndarray | None = None
    """[n] task or session of a row; rows of one cluster may depend on each other. None: every row by itself."""
    reward_range: tuple[float, float] | None = None
    """What a reward can be at most and at least, if that is known. Needed by empirical-Bernstein bounds."""
    known_actions: np.ndarray | None = None
    """[n] an action whose reward in this row is known whatever action was drawn, or -1: it was tried besides."""
    known_rewards: np.ndarray | None = None
    """[n] its reward."""
    beside_actions: np.ndarray | None = None
    """[n] an action that chance chose to be tried besides the drawn one, or -1."""
    beside_rewards: np.ndarray | None = None
    """[n] its reward; NaN where nobody saw it, which `fill_missing` or worst-case bounds take care of."""
    seen: np.ndarray | None = None
    """[n, actions] how often an action is tried in a row, in expectation: as the drawn one or besides."""
    sampled: np.ndarray | None = None
    """[n] True in rows whose rewards chance chose to be looked at; rewards of others count nowhere. None: all rows."""
    sampling_rates: np.ndarray | None = None
    """[n] the probability of being chosen, which depends on nothing but earlier rows."""

    def __post_init__(self) -> None:
        rewards = checked_column("rewards", self.rewards)
        propensities = np.asarray(self.propensities, dtype=np.float64)
        if propensities.ndim != 2 or len(propensities) != len(rewards):
            raise ValueError(
                f"propensities has shape {propensities.shape} where rewards has {len(rewards)} rows: give the probability "
                "of every action in every row, shape [rows, actions]"
            )
        actions = checked_actions(self.actions, *propensities.shape)
        check_propensities(propensities, actions)
        low, high = self.reward_range or (rewards.min(), rewards.max())
        if not low <= rewards.min() or not rewards.max() <= high:
            raise ValueError(
                f"rewards run from {rewards.min():g} to {rewards.max():g}, outside reward_range {self.reward_range}: "
                "state a range that holds for every reward, or None"
            )
        fields = {"rewards": rewards, "propensities": propensities, "actions": actions}
        fields["clusters"] = cluster_indices(self.clusters, len(rewards))
        if self.features is not None:
            fields["features"] = checked_features(self.features, len(rewards))
        if (self.known_actions is None) != (self.known_rewards is None):
            raise ValueError("known_actions and known_rewards belong together: give both or none")
        if self.known_actions is not None and self.known_rewards is not None:
            known = checked_column("known_actions", self.known_actions, len(rewards))
            fields["known_actions"] = checked_actions(known + 1, len(rewards), propensities.shape[1] + 1) - 1
            fields["known_rewards"] = checked_column("known_rewards", self.known_rewards, len(rewards))
        fields |= checked_beside(self.beside_actions, self.beside_rewards, self.seen, propensities)
        fields |= checked_sampling(self.sampled, self.sampling_rates, len(rewards))
        if self.sampled is not None and "beside_actions" in fields:
            fields["beside_actions"] = np.where(fields["sampled"], fields["beside_actions"], -1)
            fields["beside_rewards"] = np.where(fields["sampled"], fields["beside_rewards"], 0.0)
        if self.sampled is not None and self.known_actions is not None:
            raise ValueError(
                "known_actions and sampled do not go together: rewards known in every row need no sampling"
            )
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def tries(self) -> list[Tries]:
        """The drawn actions with their rewards, one `Tries` in a list; a second holds any actions tried besides.

        A row that was not sampled has none.
        """
        looked = np.ones(len(self.actions), bool) if self.sampled is None else self.sampled
        every = [Tries(looked, self.actions, self.rewards)]
        if self.beside_actions is not None and self.beside_rewards is not None:
            made = (self.beside_actions >= 0) & looked
            every.append(Tries(made, np.where(made, self.beside_actions, 0), np.where(made, self.beside_rewards, 0.0)))
        return every

    @property
    def chances(self) -> np.ndarray:
        """The expected number of tries of every action in every row, [n, actions]: `seen`, else the propensities.

        Tries whose reward was not to be looked at do not count, so it is multiplied by `sampling_rates`.
        """
        chances = self.propensities if self.seen is None else self.seen
        return chances if self.sampling_rates is None else chances * self.sampling_rates[:, None]

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """The `reward_range` of the log or, without one, its smallest and largest reward: (low, high)."""
        return self.reward_range or (float(self.rewards.min()), float(self.rewards.max()))

    @property
    def cluster_index(self) -> np.ndarray:
        """The numbers [n] of the rows' clusters, counted from 0."""
        assert self.clusters is not None
        return self.clusters

    def taken(self, values: np.ndarray) -> np.ndarray:
        """Returns [n] each row's entry of an array [n, actions] for the action that was taken."""
        return values[np.arange(len(self.actions)), self.actions]


@dataclass(frozen=True, kw_only=True, eq=False)
class EpisodeLog:
    """Logged steps of episodes, one per row, episode after episode and in order of time.

    The value that is estimated is the expected sum of discounted rewards up to where episodes end or were cut. Raises
    ValueError if columns do not fit together.
    """

    episodes: np.ndarray
    """[n] id of the episode of each step; the steps of an episode stand together."""
    rewards: np.ndarray
    """[n]"""
    propensities: np.ndarray
    """[n] probability of the action taken under the policy that took it."""
    gamma: float = 1.0
    clusters: np.ndarray | None = None
    """[n] task of each step's episode; episodes of one task may depend on each other. None: every episode by itself."""
    densities: bool = False
    """Actions are continuous: propensities are densities, which may exceed 1."""
    reward_range: tuple[float, float] | None = None
    """What the last reward of an episode can be at least and at most, if that is known."""

    def __post_init__(self) -> None:
        rewards = checked_column("rewards", self.rewards)
        propensities = np.asarray(self.propensities, dtype=np.float64)
        check_taken("propensities", propensities, len(rewards), densities=self.densities, zero_allowed=False)
        if not 0.0 <= self.gamma <= 1.0:
            raise ValueError(f"gamma is {self.gamma}: the discount lies between 0 and 1")
        episodes = cluster_indices(self.episodes, len(rewards), name="episodes")
        first = np.flatnonzero(np.diff(episodes, prepend=-1))
        if len(first) != episodes.max() + 1:
            raise ValueError(
                f"episodes has {len(first)} runs of equal ids but {episodes.max() + 1} different ids: sort the rows by "
                "episode, then by time, and give every episode an id of its own"
            )
        index = np.repeat(np.arange(len(first)), np.diff(first, append=len(rewards)))  # in order of appearance
        clusters = index if self.clusters is None else cluster_indices(self.clusters, len(rewards))
        if np.any(clusters != clusters[first][index]):
            row = int(np.argmax(clusters != clusters[first][index]))
            raise ValueError(f"clusters changes within an episode at row {row}: an episode belongs to one task")
        fields = {"rewards": rewards, "propensities": propensities, "episodes": index, "clusters": clusters}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def cluster_index(self) -> np.ndarray:
        """The numbers [episodes] of the episodes' clusters, counted from 0."""
        assert self.clusters is not None
        return self.clusters[np.flatnonzero(np.diff(self.episodes, prepend=-1))]

    @property
    def times(self) -> np.ndarray:
        """The number of each step in its episode, from 0: [n]."""
        lengths = np.bincount(self.episodes)
        return np.arange(len(self.episodes)) - np.repeat(np.cumsum(lengths) - lengths, lengths)

    def padded(self, values: np.ndarray, fill: float) -> np.ndarray:
        """Returns values [n] as an array [episodes, longest], one episode per line, with `fill` after its end."""
        lengths = np.bincount(self.episodes)
        matrix = np.full((len(lengths), lengths.max()), fill)
        matrix[self.episodes, self.times] = values
        return matrix

    def discounts(self) -> np.ndarray:
        """Returns [longest] the discount of each step of an episode: gamma to the power 0, 1, 2 ..."""
        return self.gamma ** np.arange(np.bincount(self.episodes).max())


def checked_column(name: str, values: np.ndarray, length: int | None = None) -> np.ndarray:
    """Returns the values as floats [rows]; raises ValueError if there are none or one is not finite.

    Also if their number is not `length` (None: any number). `name` is the column's name in messages.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}: give one number per logged row")
    if not len(array):
        raise ValueError(f"{name} is empty: an estimate needs at least one logged row")
    if length is not None and len(array) != length:
        raise ValueError(f"{name} has {len(array)} rows where rewards has {length}: give one number per logged row")
    if len(bad := np.flatnonzero(~np.isfinite(array))):
        raise ValueError(f"{name}[{bad[0]}] is {array[bad[0]]}: repair or drop rows that are not finite")
    return array


def checked_actions(actions: np.ndarray, num_rows: int, num_actions: int) -> np.ndarray:
    """Returns the actions as integers [num_rows]; raises ValueError unless they are indices below `num_actions`."""
    column = checked_column("actions", actions, num_rows)
    if len(bad := np.flatnonzero((column != np.floor(column)) | (column < 0) | (column >= num_actions))):
        raise ValueError(
            f"actions[{bad[0]}] is {column[bad[0]]:g}: give an index from 0 to {num_actions - 1}, a column of propensities"
        )
    return column.astype(np.int64)


def checked_beside(
    actions: np.ndarray | None, rewards: np.ndarray | None, seen: np.ndarray | None, propensities: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns checked columns of the actions tried besides the drawn ones, by field name; {} if all three are None.

    `actions` and `rewards` are [n], `seen` and `propensities` [n, actions]. Raises ValueError if only some are given,
    or if they do not fit the propensities.
    """
    if actions is None and rewards is None and seen is None:
        return {}
    if actions is None or rewards is None or seen is None:
        raise ValueError("beside_actions, beside_rewards and seen belong together: give all three or none")
    num_rows, num_actions = propensities.shape
    column = checked_actions(checked_column("beside_actions", actions, num_rows) + 1, num_rows, num_actions + 1) - 1
    chances, amounts = np.asarray(seen, dtype=np.float64), np.asarray(rewards, dtype=np.float64)
    if chances.shape != propensities.shape or not np.all(chances >= np.nan_to_num(propensities) - SUM_TOLERANCE):
        raise ValueError("seen must have the shape of propensities and be at least as large: add what is tried besides")
    made = column >= 0
    if len(bad := np.flatnonzero(made & ~(chances[np.arange(num_rows), column] > 0))):
        raise ValueError(
            f"seen[{bad[0]}, {column[bad[0]]}], of the action tried besides, is 0: log the probability it was tried with"
        )
    checked_column("beside_rewards", np.where(made & ~np.isnan(amounts), amounts, 0.0), num_rows)
    return {"beside_actions": column, "beside_rewards": np.where(made, amounts, 0.0), "seen": chances}


def checked_sampling(sampled: np.ndarray | None, rates: np.ndarray | None, length: int) -> dict[str, np.ndarray]:
    """Returns checked columns [length] of the rows that were sampled, and of the rates, by field name; {} for two None."""
    if sampled is None and rates is None:
        return {}
    if sampled is None or rates is None:
        raise ValueError("sampled and sampling_rates belong together: give both or none")
    looked, chances = np.asarray(sampled), checked_column("sampling_rates", rates, length)
    if looked.shape != (length,) or looked.dtype != bool:
        raise ValueError(f"sampled has shape {looked.shape} and type {looked.dtype}: give True or False for each row")
    if len(bad := np.flatnonzero(~((chances > 0) & (chances <= 1)) | (~looked & (chances == 1)))):
        row = bad[0]
        raise ValueError(
            f"sampling_rates[{row}] is {chances[row]:g} and sampled[{row}] is {looked[row]}: a rate is above 0 and at most "
            "1, and a row with rate 1 is sampled"
        )
    return {"sampled": looked, "sampling_rates": chances}


def checked_features(features: np.ndarray, num_rows: int) -> np.ndarray:
    """Returns the features as floats [num_rows, d]; raises ValueError for another shape or numbers not finite."""
    array = np.asarray(features, dtype=np.float64)
    if array.ndim != 2 or len(array) != num_rows:
        raise ValueError(f"features has shape {array.shape} where rewards has {num_rows} rows: give shape [rows, d]")
    if len(bad := np.argwhere(~np.isfinite(array))):
        row, feature = bad[0]
        raise ValueError(
            f"features[{row}, {feature}] is {array[row, feature]}: repair or drop rows that are not finite"
        )
    return array


def cluster_indices(ids: np.ndarray | None, length: int, name: str = "clusters") -> np.ndarray:
    """Returns [length] the number of each row's id, from 0 in sorted order; without ids every row has its own number.

    Raises ValueError if an id is NaN or if their number is not `length`.
    """
    if ids is None:
        return np.arange(length)
    array = np.asarray(ids)
    if array.shape != (length,):
        raise ValueError(f"{name} has shape {array.shape} where rewards has {length} rows: give one id per logged row")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"{name}[{int(np.argmax(np.isnan(array)))}] is nan: give every row an id")
    return np.unique(array, return_inverse=True)[1]


def check_propensities(probabilities: np.ndarray, actions: np.ndarray) -> None:
    """Raises ValueError unless the action taken has a positive known propensity and all known ones form a distribution.

    `probabilities` are [n, actions], NaN where unknown.
    """
    rows = np.arange(len(actions))
    chosen = probabilities[rows, actions]
    if len(bad := np.flatnonzero(~((chosen > 0) & (chosen <= 1)))):
        row = bad[0]
        raise ValueError(
            f"propensities[{row}, {actions[row]}], of the action taken, is {chosen[row]:g}: it must be above 0 and at most "
            "1; log the probability with which the action was drawn, and drop rows without one"
        )
    check_distribution("propensities", probabilities, unknown_allowed=True)


def check_distribution(name: str, probabilities: np.ndarray, *, unknown_allowed: bool) -> None:
    """Raises ValueError unless every row of `probabilities` [n, actions] is a distribution.

    With `unknown_allowed`, NaN may stand for some entries.
    """
    unknown = np.isnan(probabilities)
    inside = (probabilities >= 0) & (probabilities <= 1) | (unknown if unknown_allowed else False)
    if len(bad := np.argwhere(~inside)):
        row, action = bad[0]
        raise ValueError(
            f"{name}[{row}, {action}] is {probabilities[row, action]:g}: give probabilities between 0 and 1"
        )
    excess = np.nansum(probabilities, axis=1) - 1
    wrong = np.where(unknown.any(axis=1), excess > SUM_TOLERANCE, np.abs(excess) > SUM_TOLERANCE)
    if len(bad := np.flatnonzero(wrong)):
        raise ValueError(
            f"{name}[{bad[0]}] sums to {1 + excess[bad[0]]:g} instead of 1: give the probabilities of all actions, "
            "normalised over those that were eligible"
        )


def check_target(log: BanditLog, target: np.ndarray, name: str = "target") -> np.ndarray:
    """Returns the target's probabilities as floats [n, actions]; raises ValueError unless rows are distributions."""
    array = np.asarray(target, dtype=np.float64)
    if array.shape != log.propensities.shape:
        raise ValueError(
            f"{name} has shape {array.shape} where propensities has {log.propensities.shape}: give the probability of every "
            "action in every logged row"
        )
    check_distribution(name, array, unknown_allowed=False)
    return array


def check_taken(name: str, values: np.ndarray, length: int, *, densities: bool, zero_allowed: bool) -> None:
    """Raises ValueError unless `values` are `length` probabilities or, with `densities`, densities of logged actions.

    `name` is the argument's name in the message; 0 is accepted only with `zero_allowed`.
    """
    if values.shape != (length,):
        raise ValueError(f"{name} has shape {values.shape} where rewards has {length} rows: give one number per step")
    positive = values >= 0 if zero_allowed else values > 0
    limit = np.inf if densities else 1.0
    if len(bad := np.flatnonzero(~(positive & (values <= limit) & (values < np.inf)))):
        least = "at least" if zero_allowed else "above"
        most = "" if densities else " and at most 1 (densities of continuous actions need densities=True)"
        raise ValueError(
            f"{name}[{bad[0]}] is {values[bad[0]]:g}: the probability of the action taken is {least} 0{most}; drop episodes "
            "in which it is unknown"
        )
