"""Names and defaults that the calls and the commands share; imports nothing, so that a parser is built fast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rl_base.evaluation.intervals import Method

MODELS_FILE = Path("models.yaml")  # the static table, if there is one in this folder that has models of the log
DATABASE = Path("sage.db")  # the log that counts the looks at exported rows, if there is one in this folder
PROOF = ".proof.json"  # after the checkpoint's name: evaluation and verdict, as `sage prove` writes them
HOLDOUT = 0.4  # share of the tasks that training leaves for the proof
LEARNERS = {
    "table": "learn the best model of each role and category, with shrunk estimates",
    "dr": "learn a table that leaves the static one only if a lower bound of the gain is above 0",
    "bc": "behaviour cloning: learn a network that imitates the log",
    "cql": "conservative Q-learning: learn a network; values of models hardly tried are lowered",
    "text": "learn to choose by the words of a task, if that was shown to help",
}
NETWORK_LEARNERS = ("bc", "cql")  # which take `updates`, and need PyTorch
CASCADE = "cascade"
CASCADE_METHODS = ("fitted-q", "fitted-q-wide", "dqn")
CASCADE_LEARNERS = (
    CASCADE,
    *(f"{CASCADE}-{method}" for method in CASCADE_METHODS),
)  # the first tries all, and compares
PLANNED = "planned"  # the interval of planned looks
INTERVALS: dict[str, Method] = {"anytime": "anytime", "fixed-n": "t"}
