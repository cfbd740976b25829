"""The static table: for each role a primary, a fallback and triggers.

Every policy has to beat it, and it is the fallback.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np

from sage.log.records import ROLES
from sage.orchestrator.models_file import Model, ModelsFile, RoleRule
from sage.policies.plausible import PlausibleModels
from sage.policies.policy import Contexts, with_exploration
from sage.policies.serving import GuardRules, serving_distribution


class StaticTable:
    """Policy that chooses by rule.

    A share `exploration` of the calls goes evenly to every eligible model, or to `among`.
    """

    name = "static"

    def __init__(
        self,
        models: dict[str, Model],
        roles: dict[str, RoleRule],
        exploration: float = 0.0,
        among: PlausibleModels | None = None,
        shadow: float = 0.0,
    ) -> None:
        self.models = models
        self.roles = roles
        self.exploration = exploration
        self.among = among  # that exploration goes to; all eligible ones if None
        self.shadow = shadow  # share of calls in which a second one of these is asked
        self.by_price = sorted(models, key=lambda name: (self.typical_cost(name), name))
        self.version = hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()[:12]

    @classmethod
    def from_file(cls, table: ModelsFile) -> Self:
        return cls(
            table.models, table.roles, table.exploration.share, table.exploration.among, table.exploration.shadow
        )

    @classmethod
    def read(cls, path: str | Path) -> Self:
        return cls.from_file(ModelsFile.read(path))

    @classmethod
    def always(cls, model: str, exploration: float = 0.0) -> Self:
        """Returns the table that gives every role the same model."""
        free = Model(input_usd_per_mtok=0.0, output_usd_per_mtok=0.0)
        return cls({model: free}, dict.fromkeys(ROLES, RoleRule(primary=model)), exploration)

    def describe(self) -> dict:
        rules = {
            role: [rule.primary, rule.fallback, [[trigger.when.text, trigger.use] for trigger in rule.triggers]]
            for role, rule in self.roles.items()
        }
        among = {} if self.among is None else {"among": self.among.describe()}
        return {"order": self.by_price, "rules": rules, "exploration": self.exploration} | among

    def typical_cost(self, name: str, input_tokens: float = 1000.0) -> float:
        """Returns the expected cost of a call in USD, with a typical answer of the model."""
        return self.models[name].cost_usd(input_tokens, self.models[name].output_tokens)

    def choices(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """Returns int [n]: the column of the model that the rules give each row, before any exploration."""
        column = {model: k for k, model in enumerate(models)}
        chosen = np.full(len(contexts.role), -1)
        for role in np.unique(contexts.role):
            rows = np.flatnonzero(contexts.role == role)
            for name, applies in self.preferences(str(role), contexts.features[rows]):
                undecided = chosen[rows] < 0
                if not undecided.any():
                    break
                if name in column:
                    chosen[rows[applies & undecided & eligible[rows, column[name]]]] = column[name]
        # A pool without any model of the rules: its first eligible one, so that there is always an answer.
        return np.where(chosen < 0, np.argmax(eligible, axis=1), chosen)

    def preferences(self, role: str, features: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """Yields (model, bool [n]) in the order in which a role's rules try models: True in rows that the rule is for."""
        rule, everywhere = self.roles[role], np.ones(len(features), bool)
        for trigger in rule.triggers:
            yield trigger.use, trigger.when.holds(features)
        for name in (rule.primary, rule.fallback, *self.by_price):
            if name is not None:
                yield name, everywhere

    def why(self, contexts: Contexts) -> str:
        """Returns a sentence about the rule that applies to the first row."""
        rule = self.roles[str(contexts.role[0])]
        for trigger in rule.triggers:
            if trigger.when.holds(contexts.features[:1])[0]:
                return f"static table: {trigger.when.text}, so {trigger.use}"
        return f"static table: {contexts.role[0]} gets {rule.primary}"

    def probabilities(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        guard = GuardRules(0.0, fallback=self, exploration=self)
        return serving_distribution(None, guard, contexts, models, eligible).probabilities

    def explored(
        self, probabilities: np.ndarray, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray
    ) -> np.ndarray:
        """Returns any policy's probabilities with the table's exploration, in rows where it has two models or more."""
        if not self.exploration:
            return probabilities
        some = eligible if self.among is None else self.among.mask(contexts, models, eligible)
        several = some.sum(axis=1, keepdims=True) > 1
        if several.all():
            return with_exploration(probabilities, some, self.exploration)
        explored = with_exploration(probabilities, np.where(several, some, eligible), self.exploration)
        return np.where(several, explored, probabilities)

    def shadows(self, contexts: Contexts, models: tuple[str, ...]) -> np.ndarray | None:
        """Returns float [models, models] for one row: entry [i, j] is the probability to ask j as well if i is chosen.

        All models are eligible in this row. None if no second model is ever asked.
        """
        eligible = np.ones((1, len(models)), bool)
        some = eligible[0] if self.among is None else self.among.mask(contexts, models, eligible)[0]
        if not self.shadow or some.sum() < 2:
            return None
        others = some[None, :] & ~np.eye(len(models), dtype=bool)
        return self.shadow * others / others.sum(axis=1, keepdims=True)

    def confidence(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        return np.ones(len(contexts.role))
