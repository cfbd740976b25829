"""A warning for observations that leave the bounds of their space."""

from __future__ import annotations

import logging
import math

import torch

from rl_training.core import Box, Dict, Space, Transition, tree_leaves

LOOKED_AT = 2_000  # steps at the start of a run, so that long runs do not pay for it
ROUNDING = 1e-4  # of a bound
log = logging.getLogger(__name__)


class BoundsCheck:
    """A check of a run's first 2,000 observations against their space, which logs one warning if a bound is broken.

    Only float32 boxes are checked; steps on a GPU are skipped, because reading them would wait for the device.
    """

    def __init__(self, space: Space) -> None:
        leaves = space.spaces if isinstance(space, Dict) else {"": space}
        self.bounded = {
            key: (torch.tensor(leaf.low), torch.tensor(leaf.high))
            for key, leaf in leaves.items()
            if isinstance(leaf, Box) and leaf.dtype == "float32" and any(map(math.isfinite, (*leaf.low, *leaf.high)))
        }
        self.limits = {
            key: (low - ROUNDING * (1 + low.abs()), high + ROUNDING * (1 + high.abs()))
            for key, (low, high) in self.bounded.items()
        }
        self.left = LOOKED_AT if self.bounded else 0

    def look(self, steps: Transition) -> None:
        """Logs a warning for the first `next_obs` outside its space, with key, value and bounds; at most once a run."""
        if self.left <= 0 or next(tree_leaves(steps.next_obs)).is_cuda:
            return
        self.left -= steps.reward.numel()
        for key, (low, high) in self.bounded.items():
            leaf = steps.next_obs[key] if isinstance(steps.next_obs, dict) else steps.next_obs
            rows = leaf.reshape(-1, len(low))
            least, most = self.limits[key]
            outside = (rows < least) | (rows > most)
            if outside.any():
                row, place = outside.nonzero()[0].tolist()
                log.warning(
                    f"observation{f'[{key!r}]' if key else ''} holds {rows[row, place]:g} at place {place}, and its space says "
                    f"{low[place]:g} to {high[place]:g}: correct the space or the environment (training goes on; "
                    "rl_training.envs.check lists all)"
                )
                self.left = 0
                return
