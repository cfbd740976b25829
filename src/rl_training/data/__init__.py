"""Logged steps: files of several formats in, one checked dataset out."""

from rl_training.data.columns import DatasetError
from rl_training.data.dataset import Dataset
from rl_training.data.episodes import Episodes, NextAction, NStep
from rl_training.data.findings import Finding
from rl_training.data.inspection import convert, info
from rl_training.data.linter import lint
from rl_training.data.metadata import Provenance
from rl_training.data.reference_scores import ReferenceScore
from rl_training.data.statistics import Moments, Statistics

__all__ = [
    "Dataset",
    "DatasetError",
    "Episodes",
    "Finding",
    "Moments",
    "NStep",
    "NextAction",
    "Provenance",
    "ReferenceScore",
    "Statistics",
    "convert",
    "info",
    "lint",
]
