"""A learned cascade, as one file keeps it: values of actions by the history of a task."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from sage.policies.cascades.cascade_features import history_codes, summaries
from sage.policies.cascades.cascade_ladder import highest_eligible
from sage.policies.cascades.cascade_policy import CascadeStates
from sage.policies.cells import Cells
from sage.policies.learned_policy import Training, hash_task, own_columns

ARRAYS = ("codes", "values", "weights", "mean_cost")
OTHER = "other_"  # before the names of the other cascade's arrays


@dataclass(eq=False, kw_only=True)
class LearnedCascade:
    """A cascade that takes the eligible action with the highest value, and stops where no action has one.

    A value is a linear function of the state's summary (one for each number of attempts) plus the entry of the state's
    history. Under a limit on quality or cost there may be two such cascades; `share` of the tasks, by hash of their id,
    go to this one and the rest to `other`. Raises ValueError for arrays of the wrong shape.
    """

    kind: ClassVar[str] = "cascade"
    name: str
    models: tuple[str, ...]
    training: Training
    cells: Cells
    price: float  # quality points per dollar that it was learned for
    codes: np.ndarray  # int64 [histories], rising
    values: np.ndarray  # float64 [histories, models + 1]; minus infinity: not known
    weights: np.ndarray  # float64 [attempts + 1, width + 1, models + 1], the last input is 1
    mean_cost: np.ndarray  # float64 [models] USD
    other: LearnedCascade | None = None  # of the same models, for another price
    share: float = 1.0  # of tasks that this one decides, where there is another
    version: str = field(init=False)  # changes with anything that the choices depend on

    def __post_init__(self) -> None:
        size, width = len(self.models), 4 * len(self.models) + 3 + len(self.cells)
        shapes = {
            "values": (len(self.codes), size + 1),
            "weights": (len(self.weights), width + 1, size + 1),
            "mean_cost": (size,),
        }
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} has shape {getattr(self, name).shape} where the cascade needs {shape}")
        digest = hashlib.sha256(json.dumps([self.kind, self.models, self.options()], sort_keys=True).encode())
        for name, values in sorted(self.arrays().items()):
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
        self.version = digest.hexdigest()[:12]

    def arrays(self) -> dict[str, np.ndarray]:
        own = {name: getattr(self, name) for name in ARRAYS}
        return own | ({} if self.other is None else {OTHER + name: getattr(self.other, name) for name in ARRAYS})

    def options(self) -> dict:
        own = {"cells": [list(pair) for pair in self.cells.pairs], "price": self.price}
        return own | ({} if self.other is None else {"other_price": self.other.price, "share": self.share})

    def decides(self, task_ids: np.ndarray) -> np.ndarray:
        """Returns bool [n]: the tasks that this cascade decides; all of them without an `other` one."""
        if self.other is None:
            return np.ones(len(task_ids), bool)
        return np.array([hash_task(task) < self.share * 2.0**64 for task in task_ids.tolist()], bool)

    def step_probabilities(self, states: CascadeStates, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """Returns [n, models + 1] with all probability on the best known eligible action.

        Attempts of models that the cascade does not know are ignored.
        """
        if self.other is not None:
            alone = replace(self, other=None).step_probabilities(states, models, eligible)
            theirs = self.other.step_probabilities(states, models, eligible)
            return np.where(self.decides(states.contexts.task_id)[:, None], alone, theirs)
        own = own_columns(self.models, models)
        here = np.flatnonzero(own >= 0)
        order, verdict = np.zeros((2, len(eligible), len(self.models)), np.int64)
        order[:, own[here]], verdict[:, own[here]] = states.order[:, here], states.verdict[:, here]
        known = self.action_values(states._replace(order=order, verdict=verdict))
        scores = np.full(eligible.shape, -np.inf)
        scores[:, here], scores[:, -1] = known[:, own[here]], known[:, -1]
        return highest_eligible(scores, eligible)

    def action_values(self, states: CascadeStates) -> np.ndarray:
        """Returns [n, models + 1]: the value of every action; minus infinity where it is not known.

        Columns of `states` and of the result are the cascade's own models.
        """
        code = history_codes(states.order, states.verdict)
        place = np.minimum(np.searchsorted(self.codes, code), len(self.codes) - 1)
        found = np.where((self.codes[place] == code)[:, None], self.values[place], -np.inf)
        if not self.weights.any():
            return found
        inputs = np.column_stack([summaries(states, self.cells, self.mean_cost), np.ones(len(code))])
        attempts = np.minimum((states.order > 0).sum(axis=1), len(self.weights) - 1)
        return found + np.einsum("nf,nfa->na", inputs, self.weights[attempts])
