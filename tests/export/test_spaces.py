"""A policy in a file takes and gives what `predict` does, for every kind of space."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl_training import ConfigError
from tests.core.test_policy_decide import ACTIONS, CASES, OBS, REPLAY, ids, make
from tests.export.exports import compare, compare_steps, drawn

GRAPHS = [".onnx", ".pt2"]
CASE_OF = {case[0]: case for case in CASES}
DENSE = [case for case in CASES if case[0] not in ("RecurrentPPO", "IQN") and case[2] != "picture"]
STYLES = [  # what else dense layers can be
    ("PPO", {"activation_fn": name}, "numbers", "choice") for name in ("relu", "elu", "gelu", "silu", "leaky_relu")
] + [
    ("PPO", {"share_features_extractor": True}, "masked", "choice"),
    ("QRDQN", REPLAY, "numbers", "choice"),
    ("DuelingDQN", REPLAY | {"net_arch": [8, 8]}, "masked", "choice"),
    ("PQN", {"net_arch": [8], "layer_norm": True}, "numbers", "choice"),
    ("C51", REPLAY | {"n_atoms": 11}, "numbers", "choice"),
]


@pytest.mark.parametrize("case", DENSE, ids=ids)
def test_numpy_decides_as_predict_does(case: tuple, tmp_path: Path) -> None:
    compare(make(*case), tmp_path / "policy.npz", drawn(case[2], 1000))


@pytest.mark.parametrize("case", STYLES, ids=lambda case: f"{case[0]} {list(case[1].items())[-1]}")
def test_numpy_has_every_kind_of_dense_layer(case: tuple, tmp_path: Path) -> None:
    compare(make(*case), tmp_path / "policy.npz", drawn(case[2], 1000))


@pytest.mark.parametrize("case", [CASE_OF[name] for name in ("RecurrentPPO", "IQN")], ids=ids)
def test_numpy_alone_is_refused_for_other_layers(case: tuple, tmp_path: Path) -> None:
    agent = make(*case)
    with pytest.raises(ConfigError, match=r"more than dense layers, and \.npz holds only these: export to \.onnx"):
        agent.export(tmp_path / "policy.npz")
    assert not list(tmp_path.iterdir())


PAIRS = [(obs, action) for obs in OBS for action in ACTIONS if obs != "masked" or action.endswith("choice")]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", GRAPHS)
@pytest.mark.parametrize(("obs", "action"), PAIRS)
def test_graphs_decide_as_predict_does(obs: str, action: str, suffix: str, tmp_path: Path) -> None:
    compare(make("PPO", {}, obs, action, even=True), tmp_path / f"policy{suffix}", drawn(obs, 1000))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", GRAPHS)
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize(("obs", "action"), [("numbers", "choices"), ("masked", "choice"), ("table", "floats")])
def test_memory_is_carried_over_200_steps(obs: str, action: str, cell: str, suffix: str, tmp_path: Path) -> None:
    agent = make("RecurrentPPO", {"lstm_hidden_size": 8, "cell": cell}, obs, action, even=True)
    policy = compare(agent, tmp_path / f"policy{suffix}", drawn(obs, 1000))
    compare_steps(agent, policy, drawn(obs, 1000), np.random.default_rng(0).random((200, 5)) < 0.02)
