"""A cascade that was learned: the value of every action by the history of a task, as one file keeps it."""

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
    """Takes the action with the highest value; one that has none, or a history without any, is not known: it stops.

    The value is a linear function of the state's summary, one for each number of attempts, plus the entry of its history. A limit
    on quality or cost may lie between two such cascades: then a share of the tasks, by their hash, goes to each.
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
        """bool [n]: whether a task is this cascade's and not the other's."""
        if self.other is None:
            return np.ones(len(task_ids), bool)
        return np.array([hash_task(task) < self.share * 2.0**64 for task in task_ids.tolist()], bool)

    def step_probabilities(self, states: CascadeStates, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """All on the best known action; attempts of models that it does not know are as if they had not been made."""
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
        """[n, models + 1] of states in the cascade's own columns; minus infinity where nothing is known."""
        code = history_codes(states.order, states.verdict)
        place = np.minimum(np.searchsorted(self.codes, code), len(self.codes) - 1)
        found = np.where((self.codes[place] == code)[:, None], self.values[place], -np.inf)
        if not self.weights.any():
            return found
        inputs = np.column_stack([summaries(states, self.cells, self.mean_cost), np.ones(len(code))])
        attempts = np.minimum((states.order > 0).sum(axis=1), len(self.weights) - 1)
        return found + np.einsum("nf,nfa->na", inputs, self.weights[attempts])
