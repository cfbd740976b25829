"""Cells: pairs of role and category, within which decisions are treated as alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sage.policies.policy import Contexts


@dataclass(frozen=True)
class Cells:
    """The pairs of role and category that occur in the training data, in a fixed order."""

    pairs: tuple[tuple[str, str], ...]  # role, category

    @classmethod
    def of(cls, contexts: Contexts) -> Cells:
        """Returns the sorted pairs of role and category that occur in the contexts."""
        return cls(tuple(sorted(set(zip(contexts.role.tolist(), contexts.category.tolist(), strict=True)))))

    @cached_property
    def roles(self) -> tuple[str, ...]:
        return tuple(sorted({role for role, _ in self.pairs}))

    @cached_property
    def role_of_pair(self) -> np.ndarray:
        return np.array([self.roles.index(role) for role, _ in self.pairs], np.int64)

    def __len__(self) -> int:
        return len(self.pairs)

    @cached_property
    def lookup(self) -> dict[tuple[str, str], int]:
        return {pair: index for index, pair in enumerate(self.pairs)}

    @cached_property
    def spare(self) -> dict[str, int]:
        return {role: len(self.pairs) + index for index, role in enumerate(self.roles)}

    def index(self, contexts: Contexts) -> np.ndarray:
        """Returns int64 [n]: each row's position in `pairs`.

        A known role with an unknown category gets `len(self)` plus the role's position in `roles`; an unknown role gets
        -1.
        """
        pairs = zip(contexts.role.tolist(), contexts.category.tolist(), strict=True)
        return np.array([self.lookup.get(pair, self.spare.get(pair[0], -1)) for pair in pairs], np.int64)
