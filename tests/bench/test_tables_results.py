"""Results as Markdown: what a table says of rows that are known."""

import runpy
from pathlib import Path

from rl_training.bench.peer_environments import PEERS

TABLES = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "result_tables.py"))


def row(algorithm: str, peer: str, ratio: float) -> dict:
    return {
        "work": {"algorithm": algorithm, "env": "CartPole-v1"},
        "peer": peer,
        "peer_steps_per_second": [1.0, 2.0, 3.0],
        "ratio_median": ratio,
        "ratio_min": ratio - 0.42,
        "ratio_max": ratio + 0.5,
        "versions": {"torch": "2.13", peer: "its loop, re-written" if peer == "cleanrl" else "1.0"},
        "machine": {"cores": 2, "processor": "EPYC"},
        "measured": "2026-11-15T20:44:29+0000",
    }


def test_every_peer_has_a_name_for_tables() -> None:
    assert list(TABLES["PEER_NAMES"]) == list(PEERS)


def test_peers_are_columns_and_tasks_are_lines() -> None:
    missing = {"work": {"algorithm": "DQN", "env": "CartPole-v1"}, "peer": "torchrl", "unavailable": "it failed: x"}
    rows = {"a": row("PPO", "sb3", 2.84), "b": row("PPO", "cleanrl", 3.0), "c": row("DQN", "sb3", 10.0), "d": missing}
    table, note = TABLES["peer_table"](rows).split("\n\n")
    assert table.splitlines() == [
        "|  | Stable-Baselines3 | CleanRL's loop | TorchRL |",
        "|---|---|---|---|",
        "| PPO, CartPole-v1 | 2.8x (2.4-3.3) | 3.0x (2.6-3.5) |  |",
        "| DQN, CartPole-v1 | 10.0x (9.6-10.5) |  | not measured |",
    ]
    assert note == (
        "Our steps per second over theirs, median and range of 3 pairs measured in turn; 2 cores of EPYC; torch 2.13, "
        "sb3 1.0; 2026-11-15. d: it failed: x."
    )
