"""Commands that torchrun starts in several processes: all of them train, and the first speaks."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

from rl_training.config import ConfigError
from rl_training.distributed import data_parallel

Command = Callable[[argparse.Namespace], int]


def on_every_rank(command: Command) -> Command:
    """Wraps a command so that its processes, if torchrun started several, train one run together.

    Only the first process writes to standard output. The wrapped command raises ConfigError for flags that ask for
    several runs.
    """

    def run(options: argparse.Namespace) -> int:
        with data_parallel() as ranks:
            if ranks.number > 1:
                check_one_run(options)
            return command(options) if ranks.rank == 0 else silently(command, options, ranks.rank)

    return run


def check_one_run(options: argparse.Namespace) -> None:
    """Raises ConfigError for flags that ask for several runs, --seeds and --verify: torchrun's processes share one."""
    if getattr(options, "seeds", None) is not None:
        raise ConfigError(f"--seeds {options.seeds} are several runs, and torchrun's ranks share one: use --seed")
    if getattr(options, "verify", False):
        raise ConfigError("--verify trains the run a second time, which ranks of torchrun cannot: leave it out")


def silently(command: Command, options: argparse.Namespace, rank: int) -> int:
    """Runs a command without its standard output and warnings, and returns its exit code; sets `options.quiet`.

    If a ValueError or FloatingPointError ends it, writes `rank N: ` to standard error and raises the error again.
    """
    options.quiet = True
    logging.getLogger("rl_training").setLevel(logging.ERROR)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        try:
            return command(options)
        except (ValueError, FloatingPointError):
            print(f"rank {rank}: ", end="", file=sys.stderr)
            raise
