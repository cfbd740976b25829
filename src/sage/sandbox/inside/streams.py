"""The output of a command, kept within limits."""

from __future__ import annotations

import contextlib
import os


class KeptOutput:
    """The beginning and the end of a stream, at most `most` bytes together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.head, self.tail, self.length = bytearray(), bytearray(), 0

    def add(self, part: bytes) -> None:
        self.length += len(part)
        room = self.most // 2 - len(self.head)
        if room > 0:
            self.head += part[:room]
            part = part[room:]
        self.tail += part
        if len(self.tail) > self.most:  # twice what is kept, so that it is cut rarely
            del self.tail[: -(self.most - self.most // 2)]

    @property
    def truncated(self) -> bool:
        return self.length > self.most

    def content(self) -> bytes:
        end = self.tail[-(self.most - self.most // 2) :] if self.truncated else self.tail
        return bytes(self.head + end)


def read_some(descriptor: int, kept: KeptOutput) -> bool:
    """Reads once from the descriptor and adds it to `kept`; returns False at the end of the stream."""
    try:
        part = os.read(descriptor, 2**16)
    except BlockingIOError:
        return True
    kept.add(part)
    return bool(part)


def drain(descriptor: int, kept: KeptOutput) -> None:
    with contextlib.suppress(BlockingIOError):
        while part := os.read(descriptor, 2**16):
            kept.add(part)
    os.close(descriptor)
