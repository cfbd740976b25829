"""Splits of tasks; whole packages, whole operators and a whole family are never trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

SPLITS = ("train", "val", "test_iid", "test_pkg", "test_op", "test_family")
TEST_FAMILY = "logs"
TEST_OPERATORS = frozenset({"boundary", "lost_accumulation", "loop_control", "omitted_check", "misspelt_key"})
TEST_PACKAGES = 0.15  # share of packages and families
VALIDATION, TEST_IID = 0.1, 0.1  # shares of functions


def share_of(text: str) -> float:
    """Returns a number from 0 to 1 that depends on the text only."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) / 2**64


def split_of(row: Mapping) -> str:
    """Returns the split of a task's row: by family, package and operators, then by the function that is broken."""
    if row["package"] == TEST_FAMILY:
        return "test_family"
    if share_of(f"package {row['package']}") < TEST_PACKAGES:
        return "test_pkg"
    if any(step["operator"] in TEST_OPERATORS for step in row["steps"]):
        return "test_op"
    share = share_of(f"function {row['package']} {row['steps'][0]['path']} {row['function']}")
    if share < VALIDATION:
        return "val"
    return "test_iid" if share < VALIDATION + TEST_IID else "train"
