"""How a learner reaches its samplers, wherever they run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from rl_training.distributed.messages import Request

Key = Any  # stands for a published request: what it is depends on the engine


class SamplerLostError(Exception):
    """A sampler was killed, hangs or raised: it will not answer any more, and must be launched again."""

    def __init__(self, how: str, trace: str = "") -> None:
        super().__init__(how)
        self.trace = trace  # of what it raised


class Engine(ABC):
    """Launches samplers and carries what is asked and answered. Every post is followed by one `receive`."""

    capacity: int  # steps of every environment that one request may ask for

    @abstractmethod
    def launch(self, index: int) -> None:
        """Starts a sampler, in the place of an earlier one if there is any; it answers None when it is ready."""

    @abstractmethod
    def publish(self, request: Request) -> Key:
        """Puts what is the same for all samplers where each can read it; the oldest request may be overwritten."""

    @abstractmethod
    def post(self, index: int, method: str, *arguments: Any) -> None:
        """Asks a sampler to call one of its methods."""

    @abstractmethod
    def receive(self, index: int) -> Any:
        """Waits for the oldest answer that is due; raises SamplerLostError if there will be none."""

    @abstractmethod
    def close(self) -> None:
        """Ends all samplers."""
