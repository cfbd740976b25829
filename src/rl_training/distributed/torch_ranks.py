"""Ranks as processes of `torch.distributed`: each learns from its share, and their parameters stay equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from rl_training.core import Ranks
from rl_training.distributed.packed_trees import pack, unpack
from rl_training.experience import Segment
from rl_training.runtime import Episode

GO_ON, STOP, ASKED, SAVED = range(4)  # what the first tells those that wait for it
PIECE = 2**28  # bytes that are sent at once


class LostRankError(ValueError):
    """Error for another process of a distributed run that ended or does not answer."""


@contextmanager
def lost_rank_errors() -> Iterator[None]:
    """Turns a RuntimeError that torch raises inside the `with` block into a LostRankError: a message failed."""
    try:
        yield
    except RuntimeError as error:
        raise LostRankError(
            "another rank of this run ended, or does not answer: its own output has the reason; resume the run with as many "
            f"ranks ({str(error).strip().partition(chr(10))[0]})"
        ) from error


class TorchRanks(Ranks):
    """The processes of torch's default group as ranks of one run; the first records the run, others wait for it."""

    def __init__(self, on_this_machine: int) -> None:
        self.number, self.rank, self.on_this_machine = dist.get_world_size(), dist.get_rank(), on_this_machine
        self.asked: list[list[Segment]] = []  # by the first: rows of the others in the last state that it has got
        self.given: list[Segment] = []  # of this one

    def sum(self, x: Tensor) -> Tensor:
        return self.reduced(x, dist.ReduceOp.SUM)

    def largest(self, x: Tensor) -> Tensor:
        return self.reduced(x, dist.ReduceOp.MAX)

    def reduced(self, x: Tensor, how: dist.ReduceOp.RedOpType) -> Tensor:
        result = x.clone()
        with lost_rank_errors():
            dist.all_reduce(result, how)
        return result

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            said = tensor.clone()
            with lost_rank_errors():
                dist.broadcast(said, 0)
            tensor.copy_(said)

    def exchange(self, said: list) -> list[list]:
        mine, _ = pack({"said": said})
        sizes = torch.zeros(self.number, dtype=torch.int64)
        sizes[self.rank] = len(mine)
        lengths = self.sum(sizes).tolist()
        padded = torch.zeros(self.number, max(lengths), dtype=torch.uint8)
        padded[self.rank, : len(mine)] = mine
        rows = self.sum(padded)
        return [unpack(row[:length])[0]["said"] for row, length in zip(rows, lengths, strict=True)]

    def exchange_episodes(self, own: list) -> list:
        told = self.exchange([list(episode) for episode in own])
        return sorted((Episode.from_state(one) for part in told for one in part), key=itemgetter(0, 1))

    def synchronize(self, stop: bool, part: Callable[[], dict]) -> bool:
        if self.rank == 0:
            self.tell_what_was_saved()
            self.tell(STOP if stop else GO_ON)
            return stop
        while (command := self.hear()) in (ASKED, SAVED):
            if command == ASKED:
                message, self.given = pack(part())
                self.send(message, 0)
            else:
                self.note_what_was_saved(unpack(self.receive(0))[0]["files"])
        return command == STOP

    def other_parts(self) -> list[dict]:
        self.tell(ASKED)
        answers = [unpack(self.receive(rank)) for rank in range(1, self.number)]
        self.asked = [segments for _, segments in answers]
        return [part for part, _ in answers]

    def tell_what_was_saved(self) -> None:
        """Tells the other processes which of their replay rows are in files by now, so that they are not sent again.

        Called by the first process; does nothing if it has not asked for their states since the last time.
        """
        if not self.asked:
            return
        self.tell(SAVED)
        for rank, segments in enumerate(self.asked, 1):
            files = [[str(one.path), one.sha256] if one.on_disk else None for one in segments]
            self.send(pack({"files": files})[0], rank)
        self.asked = []

    def note_what_was_saved(self, files: list) -> None:
        for segment, file in zip(self.given, files, strict=True):
            if file is not None and Path(file[0]).exists():  # another machine may not see it, and sends them again
                segment.written_to(Path(file[0]), file[1])
        self.given = []

    def tell(self, command: int) -> None:
        with lost_rank_errors():
            dist.broadcast(torch.tensor(command), 0)

    def hear(self) -> int:
        command = torch.tensor(GO_ON)
        with lost_rank_errors():
            dist.broadcast(command, 0)
        return int(command)

    def send(self, message: Tensor, to: int) -> None:
        with lost_rank_errors():
            dist.send(torch.tensor(len(message)), to)
            for piece in message.split(PIECE):
                dist.send(piece, to)

    def receive(self, rank: int) -> Tensor:
        size = torch.tensor(0)
        with lost_rank_errors():
            dist.recv(size, rank)
            message = torch.empty(int(size), dtype=torch.uint8)
            for piece in message.split(PIECE):
                dist.recv(piece, rank)
        return message
