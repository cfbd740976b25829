"""Agents from files of Stable-Baselines3 and sb3-contrib, which are read without running code from them."""

from rl_training.api.sb3.importing import import_sb3

__all__ = ["import_sb3"]
