"""Statistics that Stable-Baselines3's VecNormalize saved, read without running code from the file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rl_training.api.sb3.arrays import array_of, described, number_of
from rl_training.api.sb3.inert_pickle import Call, PickleError, read_pickle
from rl_training.core import Algorithm, Dict, Spec
from rl_training.experiment import CheckpointError
from rl_training.models import ObservationNormalizer
from rl_training.models.normalizer import RunningNorm

PATH = "stable_baselines3.common.vec_env.vec_normalize.VecNormalize"
MOMENTS = "stable_baselines3.common.running_mean_std.RunningMeanStd"
EPSILON = 1e-8  # that is added to variances here
MOST_BYTES = 256 * 2**20
Moments = tuple[np.ndarray, np.ndarray, float]  # mean, variance, count


@dataclass(frozen=True)
class Statistics:
    """Running statistics of observations (by key, "" for an array) and of returns, and the bounds after normalisation."""

    observations: dict[str, Moments]  # empty: observations are not normalised
    returns: Moments | None  # None: rewards are not normalised
    clip_obs: float
    clip_reward: float

    @property
    def keywords(self) -> dict[str, object]:
        """Returns our settings that normalise observations as the file does."""
        if not self.observations:
            return {}
        return {"normalize_observation": True, "clip_observation": self.clip_obs}


def read_statistics(path: Path) -> Statistics:
    """Returns the statistics in a file of VecNormalize.

    Raises CheckpointError if the file cannot be read, holds something else, or was made to run code.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise PickleError(f"has more than {MOST_BYTES:,} bytes")
        record = read_pickle(path.read_bytes()).value
        if not isinstance(record, Call) or record.path != PATH or not isinstance(record.state, dict):
            raise PickleError(f"holds {described(record)} instead of a VecNormalize")
        return statistics_of(record.state)
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read ({error.strerror or error}): give the file that VecNormalize.save wrote"
        ) from error
    except (PickleError, KeyError, AttributeError, TypeError) as error:
        why = str(error) if isinstance(error, PickleError) else f"is damaged: it lacks {error}"
        raise CheckpointError(f"{path} {why}; nothing was imported, and no code of the file ran") from error


def statistics_of(state: dict) -> Statistics:
    more = number_of(state["epsilon"]) - EPSILON  # that it adds to every variance
    moments = state["obs_rms"] if state["norm_obs"] is True else {}
    if isinstance(moments, Call) and moments.path == MOMENTS:
        moments = {"": moments}
    if not isinstance(moments, dict):
        raise PickleError("has statistics of observations that cannot be read")
    return Statistics(
        {str(key): moments_of(record, more) for key, record in moments.items()},
        moments_of(state["ret_rms"], more) if state["norm_reward"] is True else None,
        number_of(state["clip_obs"]),
        number_of(state["clip_reward"]),
    )


def moments_of(record: object, more: float) -> Moments:
    """Returns mean, variance (plus `more`) and count; raises PickleError if they are no finite numbers, or variances below 0."""
    if not isinstance(record, Call) or record.path != MOMENTS or not isinstance(record.state, dict):
        raise PickleError(f"has {described(record)} instead of running statistics")
    mean, var = (array_of(record.state[name]).astype(np.float64) for name in ("mean", "var"))
    count = number_of(record.state["count"])
    var = var + more
    if (
        mean.shape != var.shape
        or not (np.isfinite(mean).all() and np.isfinite(var).all())
        or var.min(initial=0) < 0
        or count < 0
    ):
        raise PickleError("has statistics with numbers that are not finite, or negative")
    return mean, var, count


def copy_statistics(statistics: Statistics, algorithm: Algorithm, spec: Spec, source: Path) -> None:
    """Copies statistics of observations into the normaliser of an algorithm; raises CheckpointError if they do not fit."""
    normalizer = getattr(algorithm.policy, "normalizer", None)
    assert isinstance(normalizer, ObservationNormalizer)
    known = statistics.observations
    keys = {
        name if isinstance(spec.obs, Dict) else "": norm
        for name, norm in zip(normalizer.names, normalizer.norms, strict=True)
    }
    if known.keys() != keys.keys():
        raise CheckpointError(
            f"{source} normalises {sorted(known) or 'nothing'}, and the policy's observations that can be normalised are "
            f"{sorted(keys)}: give the file that was saved with this model"
        )
    for key, norm in keys.items():
        mean, var, count = known[key]
        assert isinstance(norm, RunningNorm)
        if mean.shape != tuple(norm.mean.shape):
            raise CheckpointError(
                f"{source} has statistics of the shape {mean.shape}, and observations have {tuple(norm.mean.shape)}"
            )
        for buffer, value in ((norm.mean, mean), (norm.var, var), (norm.count, count)):
            buffer.copy_(torch.as_tensor(np.array(value)))


def reward_state(returns: Moments) -> dict[str, dict[str, Tensor] | None]:
    """Returns statistics of returns in the form in which a state tree has them, for a new run to begin with."""
    mean, var, count = (torch.tensor(float(part), dtype=torch.float64) for part in returns)
    return {"moments": {"mean": mean, "var": var, "count": count}, "last": None, "first": None}
