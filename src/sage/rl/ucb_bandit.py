"""The promised path of `sage.policies.bandits.ucb_bandit`."""

from sage.policies.bandits.ucb_bandit import UCB1

__all__ = ["UCB1"]
