"""One stream of an upstream: held back until its first content, then passed on event by event."""

from __future__ import annotations

import asyncio

import aiohttp

from sage.serve.dialects.dialect import StreamReader
from sage.serve.sse import EventParser, StreamError
from sage.serve.upstreams import TRANSPORT_ERRORS, Target, returned_headers

MOST_HELD = 1_000_000  # bytes before the first content
LAST_BYTES_S = 1.0  # for what comes after the end, so that the connection can be used again


class Stream:
    """What an upstream sends, of which only whole and understood events get out."""

    def __init__(self, response: aiohttp.ClientResponse, reader: StreamReader, target: Target) -> None:
        self.response = response
        self.reader = reader
        self.target = target
        self.headers = returned_headers(response)
        self.parser = EventParser()
        self.broken: StreamError | None = None  # comes after what was understood before it

    async def begin(self, portion: bytes) -> bytes:
        """All up to the first content; StreamError if there is none."""
        held = self.take(portion)
        while not self.reader.started and self.broken is None and len(held) < MOST_HELD:
            held += await self.portion()
        if self.broken is not None and not self.reader.started:
            raise self.broken
        return held

    async def portion(self) -> bytes:
        """What comes next, perhaps empty; StreamError where it goes wrong."""
        if self.broken is not None:
            raise self.broken
        try:
            portion = await self.response.content.readany()
        except TRANSPORT_ERRORS as error:
            raise broken_off(error) from error
        if portion:
            return self.take(portion)
        rest = self.take(b"\n\n") if self.parser.rest.strip() else b""
        if self.broken is None:
            try:
                rest += self.reader.at_end()
            except StreamError as error:
                self.broken = error
        return rest

    def take(self, portion: bytes) -> bytes:
        understood = []
        try:
            for event in self.parser.feed(portion):
                understood.append(self.reader.read(event))
                if self.reader.ended:
                    break
        except StreamError as error:
            self.broken = error
        return b"".join(understood)

    async def finish(self) -> None:
        """Gives the connection back, or closes it."""
        if self.reader.ended and not self.response.content.at_eof():
            try:
                async with asyncio.timeout(LAST_BYTES_S):
                    while await self.response.content.readany():
                        pass
            except TRANSPORT_ERRORS:
                pass
        self.response.release()


def broken_off(error: Exception) -> StreamError:
    if isinstance(error, TimeoutError):
        return StreamError("the upstream was silent for too long", timed_out=True)
    return StreamError(f"the upstream broke off: {type(error).__name__}")
