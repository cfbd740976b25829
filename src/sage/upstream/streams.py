"""One stream of an upstream: held back until its first content, then passed on event by event."""

from __future__ import annotations

import asyncio
import time

import aiohttp

from sage.upstream.answer_bodies import AnswerBody, BodyError
from sage.upstream.dialects.dialect import StreamReader
from sage.upstream.headers import returned_headers, with_type
from sage.upstream.sse import EventParser, StreamError
from sage.upstream.upstreams import TRANSPORT_ERRORS, Target

EVENTS = b"text/event-stream"
MOST_HELD = 1_000_000  # bytes before the first content
LAST_BYTES_S = 1.0  # for what comes after the end, so that the connection can be used again


class Stream:
    """An upstream's stream of events, of which only complete events that the dialect understands are passed on."""

    def __init__(
        self, response: aiohttp.ClientResponse, reader: StreamReader, target: Target, waited_s: float = 0.0
    ) -> None:
        self.response = response
        self.reader = reader
        self.target = target
        self.headers = with_type(returned_headers(response.raw_headers), EVENTS, EVENTS)
        self.body = AnswerBody(response, target, "max_stream_bytes")
        self.parser = EventParser()
        self.broken: StreamError | None = None  # comes after what was understood before it
        self.patience_s = target.upstream.first_content_s - waited_s  # for the next content

    async def begin(self, held: bytes) -> bytes:
        """Returns `held` and the bytes up to the first event with content, or more than MOST_HELD bytes without any;
        raises StreamError if the stream fails before its first content."""
        while not self.reader.started and self.broken is None and len(held) < MOST_HELD:
            held += await self.portion()
        if self.broken is not None and not self.reader.started:
            raise self.broken
        return held

    async def portion(self) -> bytes:
        """Returns the bytes of the next complete events, perhaps none; raises StreamError if the stream fails or ends
        too early."""
        if self.broken is not None:
            raise self.broken
        portion = await self.received()
        if portion:
            return self.take(portion)
        rest = self.take(b"\n\n") if self.parser.rest.strip() else b""
        if self.broken is None:
            try:
                rest += self.reader.at_end()
            except StreamError as error:
                self.broken = error
        return rest

    async def received(self) -> bytes:
        """Returns the next bytes of the body, b'' at its end; raises StreamError if it fails, or if `patience_s`
        seconds of waiting passed without content."""
        began = time.monotonic()
        waiting = asyncio.timeout(self.patience_s)
        try:
            async with waiting:
                return await self.body.piece()
        except BodyError as error:
            raise StreamError(f"the upstream gave {error}") from error
        except TRANSPORT_ERRORS as error:
            if waiting.expired() and isinstance(error, TimeoutError):
                raise self.without_content() from error
            raise broken_off(error) from error
        finally:
            self.patience_s -= time.monotonic() - began

    def without_content(self) -> StreamError:
        setting = "content_gap_s" if self.reader.contents else "first_content_s"
        seconds = getattr(self.target.upstream, setting)
        place = f"models.{self.target.name}.upstream.{setting}"
        return StreamError(f"the upstream sent no content for {seconds:g} s ({place})", timed_out=True)

    def take(self, portion: bytes) -> bytes:
        understood, before = [], self.reader.contents
        try:
            for event in self.parser.feed(portion):
                understood.append(self.reader.read(event))
                if self.reader.ended:
                    break
        except StreamError as error:
            self.broken = error
        if self.reader.contents > before:
            self.patience_s = self.target.upstream.content_gap_s
        return b"".join(understood)

    async def finish(self) -> None:
        """Reads what follows the end of the stream, for at most LAST_BYTES_S seconds, so that the connection can be
        used again, and releases it."""
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
