"""The samplers of a run: they are asked together, and replaced when they are lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rl_training.distributed.engine import Engine, SamplerLostError
from rl_training.envs.failure import EnvFailedError

log = logging.getLogger(__name__)


class SamplerPool:
    """The samplers of a run, which get the same requests; one that is lost is launched again.

    The attribute `revive` is a function that restores a new sampler's state by its number. More than `restarts` losses
    within `window_s` seconds raise EnvFailedError, because the cause would recur.
    """

    def __init__(self, engine: Engine, rows: Sequence[range], *, restarts: int, window_s: float) -> None:
        self.engine, self.rows = engine, rows
        self.restarts, self.window_s = restarts, window_s
        self.losses: list[float] = []  # when they were noticed
        self.clock = time.monotonic
        self.revive: Callable[[int], None] = lambda index: None
        for index in range(len(rows)):
            engine.launch(index)
        for index in range(len(rows)):
            self.finish(index, lambda: None)

    def ask(self, index: int, method: str, *arguments: Any) -> Any:
        """Calls a method of sampler `index`, waits, and returns its answer; raises SamplerLostError if it is lost."""
        self.engine.post(index, method, *arguments)
        return self.engine.receive(index)

    def ask_all(self, method: str, arguments: Sequence[tuple]) -> list[Any]:
        """Calls a method of every sampler, waits, and returns the answers in order.

        `arguments` has, for each sampler, the tuple of its arguments. Samplers that are lost are replaced and asked
        again.
        """
        for index, own in enumerate(arguments):
            self.engine.post(index, method, *own)
        return [
            self.finish(index, partial(self.engine.post, index, method, *own)) for index, own in enumerate(arguments)
        ]

    def post_all(self, method: str, argument: Any) -> None:
        """Posts a call with the same argument to every sampler, without waiting; `finish_all` returns the answers."""
        for index in range(len(self.rows)):
            self.engine.post(index, method, argument)

    def finish_all(self, method: str, outstanding: Sequence[Any]) -> list[Any]:
        """Waits for every sampler's answer to the oldest open call, and returns them in order; replaces lost samplers.

        A replacement gets all open calls again: `method` with each argument of `outstanding`.
        """

        def again(index: int) -> None:
            for argument in outstanding:
                self.engine.post(index, method, argument)

        return [self.finish(index, partial(again, index)) for index in range(len(self.rows))]

    def finish(self, index: int, again: Callable[[], None]) -> Any:
        """Waits for the answer of sampler `index` and returns it; replaces the sampler if it is lost.

        After a replacement it calls `again`, which must post the lost calls again, and waits for that answer.
        """
        try:
            return self.engine.receive(index)
        except SamplerLostError as lost:
            self.replace(index, lost)
        again()
        return self.finish(index, again)

    def replace(self, index: int, lost: SamplerLostError) -> None:
        """Launches a lost sampler again and restores its state, with a warning in the log.

        Raises EnvFailedError, after it has ended all samplers, if too many were lost.
        """
        rows = self.rows[index]
        who = f"the sampler of environments {rows.start} to {rows.stop - 1} {lost}"
        now = self.clock()
        self.losses = recent = [*(when for when in self.losses if now - when <= self.window_s), now]
        if len(recent) > self.restarts:
            self.engine.close()
            error = EnvFailedError(
                f"{who}; this was loss {len(recent)} within {self.window_s:g} s, and sampling.restarts={self.restarts}: look "
                "for what ends or stops it, or raise sampling.restarts; sampling.workers=1 shows it in this process"
            )
            if lost.trace:
                error.add_note(f"raised in the sampler:\n{lost.trace}")
            raise error
        log.warning(f"{who}; it is replaced ({len(recent)} of {self.restarts} within {self.window_s:g} s)")
        try:
            self.engine.launch(index)
            self.engine.receive(index)
            self.revive(index)
        except SamplerLostError as again:
            self.replace(index, again)

    def close(self) -> None:
        self.engine.close()
