"""The command line. Starts without importing torch: every command imports what it needs when it runs."""

from sage.cli.main import main

__all__ = ["main"]
