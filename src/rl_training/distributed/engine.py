"""The interface through which a learner starts its samplers and talks to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from rl_training.distributed.messages import Request

Key = Any  # stands for a published request: what it is depends on the engine


class SamplerLostError(Exception):
    """Error for a sampler that was killed, hangs or raised: it will not answer, and must be launched again."""

    def __init__(self, how: str, trace: str = "") -> None:
        super().__init__(how)
        self.trace = trace  # of what it raised


class Engine(ABC):
    """The transport between a learner and its samplers; every post must be followed by one `receive`."""

    capacity: int  # steps of every environment that one request may ask for

    @abstractmethod
    def launch(self, index: int) -> None:
        """Starts a sampler, replacing an earlier one if there is any; it answers None when it is ready."""

    @abstractmethod
    def publish(self, request: Request) -> Key:
        """Stores a request where every sampler can read it, and returns its key; the oldest may be overwritten."""

    @abstractmethod
    def post(self, index: int, method: str, *arguments: Any) -> None:
        """Asks a sampler to call one of its methods."""

    @abstractmethod
    def receive(self, index: int) -> Any:
        """Waits for the oldest pending answer and returns it; raises SamplerLostError if there will be none."""

    @abstractmethod
    def close(self) -> None:
        """Ends all samplers."""
