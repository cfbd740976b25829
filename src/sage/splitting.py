"""Splits of rows by a hash of their keys (tasks, categories), so that the order of rows has no influence."""

from __future__ import annotations

import hashlib

import numpy as np


def in_first_part(keys: np.ndarray, fraction: float, seed: int, *, of: str = "tasks") -> np.ndarray:
    """Returns bool [rows]: True for rows whose key is in the first part, which gets a `fraction` of the distinct keys.

    Keys are ordered by a hash of `seed` and key; all rows of a key are in the same part. Raises ValueError if
    `fraction` is not between 0 and 1, or if a part would be empty; `of` names the keys in the message.
    """
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
