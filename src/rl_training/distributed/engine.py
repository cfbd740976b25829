"""The interface through which a learner starts its samplers and talks to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from rl_training.distributed.messages import Request

Key = Any  # stands for a published request: what it is depends on the engine


class SamplerLostError(Exception):
    """Error for a sampler that was killed, hangs or raised an error: it will not answer, and must be launched again."""

    def __init__(self, how: str, trace: str = "") -> None:
        super().__init__(how)
        self.trace = trace  # of what it raised


class Engine(ABC):
    """The transport of calls from a learner to its samplers (processes that step environments), and of their answers.

    Samplers are numbered from 0. Every `launch` and every `post` must be followed by one `receive`.
    """

    capacity: int  # steps of every environment that one request may ask for

    @abstractmethod
    def launch(self, index: int) -> None:
        """Starts sampler `index`, without waiting; ends an earlier one with this number.

        The next `receive` returns None when the sampler is ready.
        """

    @abstractmethod
    def publish(self, request: Request) -> Key:
        """Stores a request for steps where every sampler can read it, and returns its key, an argument for `post`.

        May overwrite the oldest request that is stored.
        """

    @abstractmethod
    def post(self, index: int, method: str, *arguments: Any) -> None:
        """Asks sampler `index` to call its method `method`, without waiting; `receive` returns the answer."""

    @abstractmethod
    def receive(self, index: int) -> Any:
        """Waits for the answer of sampler `index` to its oldest open call, and returns it.

        Raises SamplerLostError if there will be none.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends all samplers."""
