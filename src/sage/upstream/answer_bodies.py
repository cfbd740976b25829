"""Bodies of answers of upstreams, read and decompressed piece by piece, within the limits of models.yaml."""

from __future__ import annotations

import asyncio
import zlib

import aiohttp

from sage.upstream.upstreams import Target

PIECE = 2**18  # bytes that are decompressed at a time
MOST_BITS = 15  # of zlib's window


class BodyError(Exception):
    """A body that is too large or cannot be decompressed; the message names the setting or the encoding."""


class AnswerBody:
    """The body of one answer; `setting` names the field of `Upstream` that limits its size. Raises BodyError if the
    answer declares a larger size."""

    def __init__(self, response: aiohttp.ClientResponse, target: Target, setting: str = "max_answer_bytes") -> None:
        self.content = response.content
        self.target = target
        self.setting = setting
        self.compressed_setting = "max_compressed_bytes" if setting == "max_answer_bytes" else setting
        self.received = 0
        self.given = 0
        encodings = ",".join(response.headers.getall("content-encoding", [])).lower().split(",")
        self.encodings = [name for name in map(str.strip, encodings) if name not in ("", "identity")]
        self.inflater: zlib._Decompress | None = None
        if not self.encodings and response.content_length is not None:
            self.check(response.content_length, setting)

    async def whole(self) -> bytes:
        """Returns the complete body; raises BodyError if it is too large or cannot be decompressed, and never holds
        more than the limit and one piece."""
        pieces = []
        while piece := await self.piece():
            pieces.append(piece)
        return b"".join(pieces)

    async def piece(self) -> bytes:
        """Returns the next decompressed bytes, b'' at the end; raises BodyError if they exceed the limit or cannot be
        decompressed."""
        found = await (self.inflated() if self.encodings else self.content.readany())
        self.given += len(found)
        self.check(self.given, self.setting)
        return found

    async def inflated(self) -> bytes:
        rest = b"" if self.inflater is None else self.inflater.unconsumed_tail
        while True:
            if self.inflater is not None:
                found = self.inflate(rest)
                if found:
                    await asyncio.sleep(0)  # other requests are served while much is decompressed
                    return found
                if self.inflater.eof:
                    if self.inflater.unused_data or await self.content.readany():
                        raise BodyError("an answer that goes on after the end of what was compressed")
                    return b""
            rest = await self.content.readany()
            if not rest:
                if self.inflater is None:
                    return b""
                raise BodyError("a compressed answer that is not complete")
            self.received += len(rest)
            self.check(self.received, self.compressed_setting)
            if self.inflater is None:
                self.inflater = zlib.decompressobj(self.window_bits(rest[0]))

    def inflate(self, portion: bytes) -> bytes:
        assert self.inflater is not None
        try:
            return self.inflater.decompress(portion, PIECE)
        except zlib.error:
            raise BodyError(f"an answer that is not {self.encodings[0]}, as it claims") from None

    def window_bits(self, first: int) -> int:
        """Returns zlib's window bits for the answer's encoding, given its `first` byte, which tells the two forms of
        deflate apart; raises BodyError for an unknown encoding."""
        if self.encodings in (["gzip"], ["x-gzip"]):
            return MOST_BITS + 16
        if self.encodings == ["deflate"]:
            return MOST_BITS if first & 0x0F == zlib.DEFLATED else -MOST_BITS
        raise BodyError(f"content-encoding {', '.join(self.encodings)!r}, which sage does not ask for and cannot read")

    def check(self, size: int, setting: str) -> None:
        most = getattr(self.target.upstream, setting)
        if size > most:
            what = "compressed bytes" if setting == "max_compressed_bytes" else "bytes"
            raise BodyError(f"an answer of more than {most} {what} (models.{self.target.name}.upstream.{setting})")
