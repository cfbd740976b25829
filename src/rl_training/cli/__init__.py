"""The command line. Starts without importing torch: every command imports what it needs when it runs."""

from rl_training.cli.main import main

__all__ = ["main"]
