"""Every algorithm's policy leaves as a graph and decides as `predict` does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conformance.cases import CASES, Case
from tests.export.exports import compare, compare_steps


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_algorithm_leaves(case: Case, suffix: str, tmp_path: Path) -> None:
    agent = case.agent(case.home, **case.normalised)
    agent.learn(264, progress=False)
    size = agent.spec.obs.shape[0]
    obs = np.random.default_rng(0).normal(size=(1000, size)).astype(np.float32)
    policy = compare(agent, tmp_path / f"policy{suffix}", obs)
    if policy.memory:
        compare_steps(agent, policy, obs, np.random.default_rng(1).random((200, 5)) < 0.02)
