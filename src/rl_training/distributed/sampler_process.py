"""The main loop of a sampler's process."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import traceback
from functools import partial
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NamedTuple

from gymnasium.vector.utils import CloudpickleWrapper
from torch import Tensor

from rl_training.core import tree_leaves
from rl_training.distributed.messages import Block, Request
from rl_training.distributed.process_memory import Memory, Published, Slot, Written
from rl_training.distributed.sampler import Sampler
from rl_training.distributed.sent_trees import unwrap_tensors, wrap_tensors

log = logging.getLogger(__name__)
GONE = (EOFError, BrokenPipeError, ConnectionResetError)


def serve(wrapped: CloudpickleWrapper, pipe: Connection, memory: Memory) -> None:
    """Runs a sampler's process: builds the sampler and answers the learner's calls until the pipe is closed.

    `wrapped` holds the `Assignment`, the arguments of the sampler; steps are written to `memory`. An error of the
    sampler is sent to the learner as a `Raised`, and ends the process.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to a whole group: the learner decides, and closes the pipe
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=end_with_learner, daemon=True).start()
    with Reported(pipe):
        assignment: Any = wrapped.fn
        slots, beats, index = memory.slots, memory.beats, assignment.index
        sampler = Sampler(assignment, partial(count, beats, index))
        pipe.send(None)
        for method, arguments in iter(partial(next_message, pipe), None):
            if method == "collect":
                answer = collect(sampler, slots, index, *arguments)
            else:
                answer = getattr(sampler, method)(*unwrap_tensors(arguments))
            pipe.send(wrap_tensors(answer))
        sampler.close()


def count(beats: Tensor, index: int) -> None:
    beats[index] += 1


def next_message(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except GONE:
        return None


def collect(sampler: Sampler, slots: list[Slot], index: int, request: Published) -> tuple:
    """Takes the steps of a request and writes them to shared memory, to the slot that the request names.

    Returns the rest of the answer, which is small: values of ended episodes, version of the policy, starts of episodes.
    """
    slot = slots[request.slot]
    block = sampler.collect(Request(request.sampling, slot.weights, slot.random))
    write(block, slot.blocks[index], request.sampling.num_steps)
    return block.columns, block.version, block.starts


def write(block: Block, to: Written, num_steps: int) -> None:
    for shared, leaf in zip(tree_leaves(to.steps), tree_leaves(block.steps), strict=True):
        shared[:num_steps].copy_(leaf)
    for shared, leaf in zip(tree_leaves(to.carry), tree_leaves(block.carry), strict=True):
        shared.copy_(leaf)
    to.random.copy_(block.random)


class Raised(NamedTuple):
    """The message that a sampler sends instead of an answer when it raised an error: the error's text and traceback."""

    said: str
    trace: str


class Reported:
    """A context manager that sends an exception of its `with` block through a pipe to the learner and suppresses it."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        try:
            self.pipe.send(self.message(error))
        except GONE:
            log.debug("the learner is gone: %s", error)
        return True

    def message(self, error: Exception) -> tuple:
        return Raised(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))


def end_with_learner() -> None:
    """Waits until the learner's process has ended, and then ends this one at once; meant for a thread of its own."""
    learner = multiprocessing.parent_process()
    assert learner is not None
    learner.join()
    os._exit(1)
