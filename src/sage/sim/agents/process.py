"""An agent in a process of its own, in any language, which reads and writes lines of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from types import TracebackType

from sage.sim.policies import PolicyError
from sage.sim.watched import Watched

LOOK_S = 0.2  # how often the deadline is looked at
FAREWELL_S = 2.0  # that an agent has to end by itself
LONGEST_LINE = 4_000_000  # bytes


class AgentEndedError(Exception):
    """An agent's process that ended, closed its output, or wrote a line that is too long."""


class AgentProcess:
    """A running agent, to be used in a `with` block, at whose end it ends. It has the rights of the user who started
    it; only its tool calls run in a sandbox.

    Its standard error is that of this process. Every process that it started and that stayed in its session ends with
    it.
    """

    def __init__(self, words: Sequence[str]) -> None:
        try:
            self.process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, bufsize=0
            )
        except OSError as error:
            raise PolicyError(
                f"the program {words[0]!r} of the policy cannot be started ({error.strerror}): does it run in a shell?"
            ) from error
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.writing, self.reading = self.process.stdin, self.process.stdout
        os.set_blocking(self.writing.fileno(), False)
        self.rest = b""

    def tell(self, values: Mapping[str, object], watched: Watched) -> None:
        """Writes the values as a line of JSON; raises AgentEndedError if the agent has ended, DeadlineError at the
        deadline."""
        content = json.dumps(values).encode() + b"\n"
        while content:
            try:
                _, ready, _ = select.select([], [self.writing], [], min(LOOK_S, watched.left()))
                if ready:
                    content = content[os.write(self.writing.fileno(), content) :]
            except BrokenPipeError as error:
                raise AgentEndedError(self.how_it_ended()) from error

    def answer(self, watched: Watched) -> str:
        """Returns the agent's next line that is not empty; raises AgentEndedError if none comes, DeadlineError at the
        deadline."""
        while True:
            line, newline, rest = self.rest.partition(b"\n")
            if newline:
                self.rest = rest
                if line.strip():
                    return line.decode(errors="replace")
            elif len(self.rest) > LONGEST_LINE:
                raise AgentEndedError(f"agent: a line of more than {LONGEST_LINE:,} bytes")
            else:
                self.read_more(watched)

    def read_more(self, watched: Watched) -> None:
        while not select.select([self.reading], [], [], min(LOOK_S, watched.left()))[0]:
            pass
        content = os.read(self.reading.fileno(), 2**16)
        if not content:
            raise AgentEndedError(self.how_it_ended())
        self.rest += content

    def how_it_ended(self) -> str:
        try:
            code = self.process.wait(FAREWELL_S)
        except subprocess.TimeoutExpired:
            return "agent closed its output"
        return f"agent ended with code {code}"

    def __enter__(self) -> AgentProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writing.close()
        if kind is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(FAREWELL_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.reading.close()
