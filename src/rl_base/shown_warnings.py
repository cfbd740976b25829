"""Warnings that libraries log, shown to the user of a command as plain sentences."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Sentences(logging.Handler):
    """A logging handler that prints each record as one line on standard error, for example `warning: ...`."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"{record.levelname.lower()}: {record.getMessage()}", file=sys.stderr)


@contextmanager
def warnings_shown(*packages: str) -> Iterator[None]:
    """Prints warnings that `packages` log inside the `with` block on standard error, as plain sentences.

    From then on, standard output replaces letters that its encoding lacks by `?`.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # learning curves, where Windows writes to a file
    handler = Sentences(logging.WARNING)
    for package in packages:
        logging.getLogger(package).addHandler(handler)
    try:
        yield
    finally:
        for package in packages:
            logging.getLogger(package).removeHandler(handler)
