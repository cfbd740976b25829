"""Frames between a sandbox's two sides: a header in JSON and blobs. Runs on both, with the standard library only."""

from __future__ import annotations

import json
import select
import struct
import time
from collections.abc import Callable, Sequence

MAGIC = b"SGF1"
PREFIX = struct.Struct("!4sI")
MOST_HEADER = 8 * 2**20  # bytes; the inner side is not trusted to be brief
Read = Callable[[int], bytes]


class FrameError(ValueError):
    """Error about bytes that are not a frame, or that did not come in time."""


def pack(header: dict, blobs: Sequence[bytes]) -> bytes:
    text = json.dumps(header | {"sizes": [len(blob) for blob in blobs]}).encode()
    return b"".join((PREFIX.pack(MAGIC, len(text)), text, *blobs))


def unpack(read: Read, most: int) -> tuple[dict, list[bytes]]:
    """Reads the next frame and returns its header and blobs; `read` gives exactly the bytes asked for.

    Raises FrameError if the frame is malformed, or if its blobs have more than `most` bytes together.
    """
    magic, length = PREFIX.unpack(read(PREFIX.size))
    if magic != MAGIC or length > MOST_HEADER:
        raise FrameError("this is not a frame")
    try:
        header = json.loads(read(length))
        sizes = header["sizes"]
        if not all(type(size) is int and size >= 0 for size in sizes) or sum(sizes) > most:
            raise FrameError("a frame is larger than it may be")
    except (KeyError, TypeError, RecursionError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FrameError("the header of a frame is broken") from error
    return header, [read(size) for size in sizes]


def exact_reader(receive: Callable[[int], bytes]) -> Read:
    """Returns a function that reads exactly `size` bytes from `receive`, which may give fewer at a time.

    It raises FrameError if `receive` gives none, as at the end of a stream.
    """

    def read(size: int) -> bytes:
        parts = []
        while size > 0:
            part = receive(min(size, 2**20))
            if not part:
                raise FrameError("the other side is gone")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    return read


def until_deadline(deadline: float, descriptor: int, receive: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Returns `receive` with a time limit: it raises FrameError if `descriptor` has nothing to read by `deadline`.

    `deadline` is on the monotonic clock, in seconds.
    """
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)

    def patient(size: int) -> bytes:
        left = deadline - time.monotonic()
        if left <= 0 or not waiting.poll(left * 1000):
            raise FrameError("the other side did not answer in time")
        return receive(size)

    return patient
