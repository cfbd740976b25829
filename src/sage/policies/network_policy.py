"""A policy that scores models with a small network in NumPy; its confidence is measured on held-out tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np

from sage.policies import features
from sage.policies.cells import Cells
from sage.policies.gains import chance_not_worse
from sage.policies.learned_policy import LearnedPolicy
from sage.policies.policy import Contexts


@dataclass(eq=False, kw_only=True)
class NetworkPolicy(LearnedPolicy):
    """A network policy: it takes the model with the highest output.

    Its confidence follows from how far that output is above the incumbent's (bins of margins, as in `margin_bins`).
    """

    kind: ClassVar[str] = "network"
    cells: Cells
    layers: tuple[tuple[np.ndarray, np.ndarray], ...]  # weight [out, in] and bias [out] of each, relu between
    tried: np.ndarray  # bool [models]: models without data are never chosen
    incumbent: np.ndarray  # int64 [cells]: what it takes most often there
    settled: np.ndarray  # bool [cells]: it takes nothing else there
    edges: np.ndarray  # [bins - 1] of the margin over the incumbent
    mean: np.ndarray  # [bins] gain over the incumbent on tasks that the network has not seen; NaN: no data
    deviation: np.ndarray  # [bins]
    spread: float = 1.0

    def scores(self, contexts: Contexts) -> np.ndarray:
        outputs = forward(self.layers, encode(self.cells, contexts))
        return np.where(self.tried, outputs, -np.inf)

    @cached_property
    def chance_of_bin(self) -> np.ndarray:
        return np.nan_to_num(chance_not_worse(self.mean, self.spread * self.deviation), nan=0.0)

    def margins(self, contexts: Contexts, own: np.ndarray) -> np.ndarray:
        """Returns [n]: how far the output of model `own` is above that of the incumbent's model.

        `own` (int [n]) are columns of the policy's models. The result is NaN in cells that were never seen.
        """
        outputs = forward(self.layers, encode(self.cells, contexts))
        cell, rows = self.cells.index(contexts), np.arange(len(own))
        known = (cell >= 0) & (cell < len(self.cells))
        usual = self.incumbent[np.where(known, cell, 0)]
        return np.where(known, outputs[rows, own] - outputs[rows, usual], np.nan)

    def chances(self, contexts: Contexts, own: np.ndarray) -> np.ndarray:
        margins, cell = self.margins(contexts, own), self.cells.index(contexts)
        known = ~np.isnan(margins)
        place = np.where(known, cell, 0)
        same = known & self.settled[place] & (own == self.incumbent[place])
        found = self.chance_of_bin[np.searchsorted(self.edges, np.nan_to_num(margins), side="right")]
        return np.where(same, 1.0, np.where(known, found, 0.0))

    def arrays(self) -> dict[str, np.ndarray]:
        layers = {
            f"{part}{i}": layer[j] for i, layer in enumerate(self.layers) for j, part in enumerate(("weight", "bias"))
        }
        names = ("tried", "incumbent", "settled", "edges", "mean", "deviation")
        return layers | {name: getattr(self, name) for name in names}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        num_models, num_bins = len(self.models), len(self.edges) + 1
        widths = [len(features.NAMES) + len(self.cells), *(len(bias) for _, bias in self.layers[:-1]), num_models]
        needed: dict[str, tuple[int, ...]] = {}
        for index, (into, out) in enumerate(pairwise(widths)):
            needed |= {f"weight{index}": (out, into), f"bias{index}": (out,)}
        rest = {"tried": num_models, "mean": num_bins, "deviation": num_bins}
        rest |= {"incumbent": len(self.cells), "settled": len(self.cells)}
        return needed | {name: (size,) for name, size in rest.items()}

    def options(self) -> dict:
        return {"cells": [list(pair) for pair in self.cells.pairs], "spread": self.spread}


def encode(cells: Cells, contexts: Contexts) -> np.ndarray:
    """Returns the network's inputs, float32 [n, features + cells].

    They are the features and the cell as one-hot, with zeros for an unknown cell.
    """
    one_hot = np.zeros((len(contexts.role), len(cells)), np.float32)
    cell = cells.index(contexts)
    known = np.flatnonzero((cell >= 0) & (cell < len(cells)))
    one_hot[known, cell[known]] = 1.0
    return np.concatenate([np.asarray(contexts.features, np.float32), one_hot], axis=1)


def forward(layers: tuple[tuple[np.ndarray, np.ndarray], ...], inputs: np.ndarray) -> np.ndarray:
    """Returns the network's outputs, float64 [n, outputs]; a relu follows every layer but the last."""
    values = inputs
    for index, (weight, bias) in enumerate(layers):
        values = values @ weight.T + bias
        if index < len(layers) - 1:
            values = np.maximum(values, 0.0)
    return values.astype(np.float64)
