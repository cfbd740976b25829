"""Standard streams that a shell has closed, or that lead to a full disk: no command fails because of them."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TextIO

OUTPUT_LOST = 3  # exit code of a command that did everything but could not write what it had to say


class UnfailingStream(io.TextIOBase):
    """A text stream around another, that does not raise OSError: after the first failure it drops all text.

    The failure is kept in `failure`.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream = stream
        self.failure: OSError | None = None

    def write(self, text: str, /) -> int:
        if self.failure is None:
            try:
                self.stream.write(text)
            except OSError as error:
                self.give_up(error)
        return len(text)

    def flush(self) -> None:
        if self.failure is None:
            try:
                self.stream.flush()
            except OSError as error:
                self.give_up(error)

    def give_up(self, error: OSError) -> None:
        """Keeps the error and redirects the stream to the null device, so that buffered text does not fail again."""
        self.failure = error
        with suppress(OSError, ValueError):  # a stream in memory has no number
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)
            self.stream.flush()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # pyrefly: ignore  (as in Python's own classes)
        return getattr(self.stream, "encoding", None) or "utf-8"

    @property
    def lost(self) -> OSError | None:
        """Returns the error by which text was not written; None if all was, or if the reader left, as `head` does."""
        return None if isinstance(self.failure, BrokenPipeError) else self.failure


def run_with_streams(command: Callable[[], int], output_lost: int = OUTPUT_LOST) -> int:
    """Runs a command with output streams that do not fail, and returns its exit code.

    Returns `output_lost` if the command succeeds (code 0) but its standard output could not be written.
    """
    with unfailing_streams() as output:
        code = command()
        output.flush()
        if output.lost is None:
            return code
        print(f"error: standard output: {output.lost.strerror}; everything else is done", file=sys.stderr)
        return code or output_lost


@contextmanager
def unfailing_streams() -> Iterator[UnfailingStream]:
    """Replaces `sys.stdout` and `sys.stderr`, inside the `with` block, by streams that do not fail; yields the first.

    A standard stream that the shell closed leads to the null device meanwhile.
    """
    before = sys.stdout, sys.stderr
    with closed_streams_replaced():
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # learning curves, where Windows writes to a file
        output, errors = UnfailingStream(sys.stdout), UnfailingStream(sys.stderr)
        sys.stdout, sys.stderr = output, errors
        try:
            yield output
        finally:
            output.flush()
            errors.flush()
            sys.stdout, sys.stderr = before


@contextmanager
def closed_streams_replaced() -> Iterator[None]:
    """Opens the null device for standard streams that the shell closed (None in `sys`), inside the `with` block.

    Otherwise a file of the run would get their number, and what libraries write to it.
    """
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    with ExitStack() as opened:
        for name in closed:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, opened.enter_context(Path(os.devnull).open(mode, encoding="utf-8")))
        try:
            yield
        finally:
            for name in closed:
                setattr(sys, name, None)
