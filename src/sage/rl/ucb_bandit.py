"""A re-export of `sage.policies.bandits.ucb_bandit` under its promised path."""

from sage.policies.bandits.ucb_bandit import UCB1

__all__ = ["UCB1"]
