"""Which keys (tasks, categories) go to which side of a split: by hash, so that the order of rows plays no part."""

from __future__ import annotations

import hashlib

import numpy as np


def in_first_part(keys: np.ndarray, fraction: float, seed: int, *, of: str = "tasks") -> np.ndarray:
    """True for the rows whose key is among the `fraction` of distinct keys that come first; all rows of a key agree."""
    if not 0 < fraction < 1:
        raise ValueError(f"fraction={fraction} must lie between 0 and 1, both left out")
    distinct, row_key = np.unique(keys, return_inverse=True)
    num_first = round(fraction * len(distinct))
    if not 0 < num_first < len(distinct):
        raise ValueError(
            f"there are {len(distinct)} different {of}, too few to set {1 - fraction:.2g} of them apart: add more {of}"
            + (
                " (rows with the same task_id, or the same first words of the user, are one task)"
                if of == "tasks"
                else ""
            )
        )
    digests = np.array([hashlib.sha256(f"{seed}:{key}".encode()).hexdigest() for key in distinct])
    first = np.zeros(len(distinct), bool)
    first[np.argsort(digests)[:num_first]] = True
    return first[row_key]
