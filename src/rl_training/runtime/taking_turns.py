"""Work that is done turn by turn, so that several runs can take turns in one process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from rl_training.runtime.finite import NonFiniteError

ResultT = TypeVar("ResultT")


def take_all_turns(turns: Generator[None, None, ResultT]) -> ResultT:
    """Takes all turns one after the other, and returns the result."""
    results: list[ResultT] = []

    def keep() -> Generator[None, None, None]:
        results.append((yield from turns))

    deque(keep(), maxlen=0)
    return results[0]


def take_turns(
    members: Sequence[Generator[None, None, ResultT]], ended: Callable[[int], None]
) -> list[ResultT | NonFiniteError]:
    """Takes a turn of each member, then the next of each, and so on until all have ended; returns their results.

    Calls `ended` with the index of each member that does. If a member's numbers are not finite, the others go on, and
    the error stands in place of its result.
    """
    results: dict[int, ResultT | NonFiniteError] = {}
    going = dict(enumerate(members))
    while going:
        for index, turns in list(going.items()):
            try:
                next(turns)
            except StopIteration as end:
                results[index] = end.value
            except NonFiniteError as error:
                results[index] = error
            else:
                continue
            del going[index]
            ended(index)
    return [results[index] for index in range(len(members))]
