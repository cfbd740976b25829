"""uvicorn's HTTP with limits on everything that a client can begin: a head that grows or never comes, a body that never
ends, an answer that is not read."""

from __future__ import annotations

import asyncio
import json
from asyncio import TimerHandle

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from sage.serve.access.access import MOST_HEADER_BYTES

HEAD_S = 10.0
BODY_S = 60.0
READ_S = 120.0  # that a client may take to read what waits for it
MOST_HEAD_BYTES = 2 * MOST_HEADER_BYTES  # on the wire, with the address


class GuardedProtocol(HttpToolsProtocol):
    """An HTTP protocol for uvicorn's option `http`, which closes connections that exceed its limits."""

    head_s = HEAD_S
    body_s = BODY_S
    read_s = READ_S
    _in_head = True
    _ended_here = False
    _head_bytes = 0
    _timer: TimerHandle | None = None
    _reading: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyrefly: ignore
        super().connection_made(transport)
        self._expect("head", self.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        self._has_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head and self._timer is None:  # the first bytes after an answer, even if they are only line ends
            self._expect("head", self.head_s)
        self._ended_here = False
        super().data_received(data)
        if self._in_head and not self._ended_here and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self._refuse(431, f"the head of the request is larger than {MOST_HEAD_BYTES} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header of the head; ignores trailers, because access checks ran on the head."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        self._expect("body", self.body_s)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head = self._ended_here = True  # what came with a body's end is no head
        self._expect_nothing()
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading = self.loop.call_later(self.read_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._has_read()
        super().resume_writing()

    def _has_read(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _expect(self, part: str, seconds: float) -> None:
        self._expect_nothing()
        self._timer = self.loop.call_later(
            seconds, self._refuse, 408, f"the {part} of the request took longer than {seconds:g} s"
        )

    def _expect_nothing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, message: str) -> None:
        """Sends an error, unless an answer has begun, and closes the connection."""
        self._expect_nothing()
        if self.transport.is_closing():
            return
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy and self._in_head and status == 408:  # bytes of a next request, for which there is time after this one
            self._expect("head", self.head_s)
            return
        if (self._head_bytes or not self._in_head) and not (busy and self.cycle.response_started):
            body = json.dumps({"error": {"message": message, "type": "invalid_request_error", "code": None}}).encode()
            head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self.transport.close()
