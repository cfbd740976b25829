"""The units that rewards are learned in: those of the environment, scaled and shifted the same way in data and own steps."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from torch import Tensor

from rl_training.data import Dataset, DatasetError

RETURN_RANGE: Literal["return_range"] = "return_range"
SPREAD = 1_000.0  # of the data's returns, once they are scaled by their range (arXiv:2110.06169, MuJoCo tasks)


class RewardUnits(NamedTuple):
    """A conversion of rewards from the environment's units to those learned in: `scale * reward + shift`."""

    scale: float = 1.0
    shift: float = 0.0

    def of(self, dataset: Dataset) -> Dataset:
        """Returns a dataset with rewards `scale * reward + shift`; the other columns are shared."""
        if self == RAW:
            return dataset
        reward = (dataset.reward * self.scale + self.shift).astype(np.float32)
        return Dataset(dataset.columns._replace(reward=reward), dataset.spec, dataset.provenance)

    def __call__(self, reward: Tensor) -> Tensor:
        return reward if self == RAW else reward * self.scale + self.shift


RAW = RewardUnits()  # the environment's own


def scale_by_returns(dataset: Dataset) -> float:
    """Returns the factor on rewards by which the returns of the best and the worst episode differ by 1,000.

    Raises a DatasetError if all episodes have the same return.
    """
    spread = float(np.ptp(dataset.returns))
    if not spread > 0:
        raise DatasetError(
            f"experience.reward_scale={RETURN_RANGE!r} divides by the range of the data's returns, and all {len(dataset.returns)} "
            f"episodes have the return {dataset.returns[0]:g}: give reward_scale as a number"
        )
    return SPREAD / spread
