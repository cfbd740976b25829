"""Samplers in processes of this machine, which share memory with the learner."""

from __future__ import annotations

import itertools
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from types import ModuleType
from typing import Any

from gymnasium.vector.utils import CloudpickleWrapper

from rl_training.core import tree_map
from rl_training.distributed.engine import Engine, SamplerLostError
from rl_training.distributed.messages import Assignment, Block, Request
from rl_training.distributed.process_memory import Memory, Published
from rl_training.distributed.sampler_process import GONE, Raised, serve
from rl_training.distributed.sent_trees import unwrap_tensors, wrap_tensors
from rl_training.envs.failure import describe_exit

METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
PRELOADED = ["rl_training.distributed.sampler_process"]
LOOK_S = 0.2  # between looks at whether a sampler still steps
MARGIN_S = 5.0  # beyond env.timeout_s, in which a sampler reports by itself that an environment hangs
START_S = 300.0  # for a process to start, to build environments and, at the first steps, to compile
END_S = 5.0  # for a process to end by itself


class Processes(Engine):
    """An engine with one process per sampler; a process ends when the learner closes its pipe or has ended."""

    def __init__(
        self,
        assignments: Sequence[Assignment],
        request: Request,
        block: Block,
        *,
        slots: int,
        fragment: int,
        timeout_s: float | None,
    ) -> None:
        self.assignments, self.timeout_s = assignments, timeout_s
        self.context: Any = multiprocessing.get_context(METHOD)
        if METHOD == "forkserver":
            self.context.set_forkserver_preload(PRELOADED)
        self.memory = Memory(self.context, request, block, [one.rows for one in assignments], slots, fragment)
        self.capacity = self.memory.capacity
        self.slots, self.beats = self.memory.slots, self.memory.beats
        self.next_slot = itertools.cycle(range(slots))
        self.processes: list[BaseProcess | None] = [None] * len(assignments)
        self.pipes: list[Connection | None] = [None] * len(assignments)
        self.posted: list[list[tuple]] = [[] for _ in assignments]  # what was asked and not answered yet
        self.has_stepped = [False] * len(assignments)
        self.finalizer = Finalize(self, end_all, (self.processes, self.pipes), exitpriority=100)

    def launch(self, index: int) -> None:
        self.end(index)
        self.posted[index], self.has_stepped[index] = [("launch", ())], False
        self.pipes[index], theirs = self.context.Pipe()
        wrapped = CloudpickleWrapper(self.assignments[index])  # pyrefly: ignore[bad-argument-type]  (it wraps anything)
        arguments = (wrapped, theirs, self.memory)
        process = self.context.Process(target=serve, args=arguments, name=f"sampler {index}")
        with main_module_hidden():
            process.start()
        self.processes[index] = process
        theirs.close()

    def publish(self, request: Request) -> Published:
        number = next(self.next_slot)
        slot = self.slots[number]
        if request.weights:
            for shared, value in zip(slot.weights, request.weights, strict=True):
                shared.copy_(value)
        slot.random.copy_(request.random)
        return Published(number, request.sampling)

    def post(self, index: int, method: str, *arguments: Any) -> None:
        pipe = self.pipes[index]
        assert pipe is not None
        self.posted[index].append((method, arguments))
        with suppress(*GONE):  # `receive` finds out how it ended
            pipe.send((method, wrap_tensors(arguments)))

    def receive(self, index: int) -> Any:
        method, arguments = self.posted[index].pop(0)
        answer = self.answer(index)
        if isinstance(answer, Raised):
            raise SamplerLostError(f"raised {answer.said}", answer.trace)
        answer = unwrap_tensors(answer)
        return self.read_block(index, arguments[0], *answer) if method == "collect" else answer

    def read_block(self, index: int, request: Published, *sent: Any) -> Block:
        """Returns the answer that sampler `index` wrote to shared memory for a request, completed by `sent`.

        `sent` are the parts that came through the pipe. The tensors are views of that memory, valid until its place is
        used for another request.
        """
        self.has_stepped[index] = True
        written, num_steps = self.slots[request.slot].blocks[index], request.sampling.num_steps
        steps = tree_map(lambda x: x[:num_steps], written.steps)
        return Block(steps, written.carry, written.random, *sent)

    def answer(self, index: int) -> Any:
        """Waits for the answer of sampler `index` and returns it as it was sent: with `SentTensor`s, or a `Raised`.

        Raises SamplerLostError if the sampler's process ends or takes no step for too long.
        """
        pipe, process = self.pipes[index], self.processes[index]
        assert pipe is not None
        assert process is not None
        seen, since = -1, time.monotonic()
        for _ in itertools.count():
            try:
                if pipe.poll(LOOK_S):
                    return pipe.recv()
            except GONE:
                process.join(END_S)
                raise SamplerLostError(describe_exit(process.exitcode)) from None
            beats = int(self.beats[index])
            if beats != seen:
                seen, since = beats, time.monotonic()
            waited, limit = time.monotonic() - since, self.patience(index)
            if limit is not None and waited > limit:
                raise SamplerLostError(f"has not taken a step for {waited:.0f} s (env.timeout_s={self.timeout_s:g})")
        raise AssertionError("never reached")

    def patience(self, index: int) -> float | None:
        if self.timeout_s is None:
            return None
        return self.timeout_s + (MARGIN_S if self.has_stepped[index] else START_S)

    def end(self, index: int) -> None:
        """Kills the process of sampler `index` and closes its pipe; does nothing if none was started."""
        pipe, process = self.pipes[index], self.processes[index]
        if process is not None and pipe is not None:
            pipe.close()
            process.kill()
            process.join()

    def close(self) -> None:
        self.finalizer()


def end_all(processes: Sequence[BaseProcess | None], pipes: Sequence[Connection | None]) -> None:
    """Closes the pipes, waits up to `END_S` seconds for the processes to end, and kills those that have not."""
    for pipe in pipes:
        if pipe is not None:
            pipe.close()
    until = time.monotonic() + END_S
    for process in processes:
        if process is not None:
            process.join(max(0.0, until - time.monotonic()))
            process.kill()
            process.join()


@contextmanager
def main_module_hidden() -> Iterator[None]:
    """Hides the user's script inside the `with` block: a process started there does not run the script again.

    Objects of the script are then sent by value. Does nothing in a process that multiprocessing started: there the
    script was imported already, and its objects are sent by name.
    """
    script = sys.modules["__main__"]
    if script.__name__ == "__mp_main__":
        yield
        return
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
