"""Parser of server-sent events, which keeps the bytes of every event."""

from __future__ import annotations

import re
from typing import NamedTuple

BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
LINE_END = re.compile(rb"\r\n|\n|\r")
MOST_BYTES = 16_000_000  # of one event


class StreamError(Exception):
    """Failure of a stream; `event` holds the upstream's own error event, if it sent one."""

    def __init__(
        self, message: str, event: bytes = b"", *, timed_out: bool = False, blames: bool = True, summary: str = ""
    ) -> None:
        super().__init__(message)
        self.summary = summary or message  # for logs: without what the upstream said, which may repeat a prompt
        self.event = event
        self.timed_out = timed_out
        self.blames = blames  # a failure of the upstream, which its breaker counts


class Event(NamedTuple):
    raw: bytes  # with the blank line at its end
    data: bytes  # empty for comments
    name: bytes = b""


class EventParser:
    """An incremental parser that takes bytes in any portions; `rest` keeps an unfinished event."""

    def __init__(self) -> None:
        self.rest = bytearray()

    def feed(self, portion: bytes) -> list[Event]:
        """Returns the events that these bytes complete; raises StreamError if an unfinished event has more than
        MOST_BYTES bytes."""
        start, events, seen = 0, [], max(len(self.rest) - 3, 0)
        self.rest += portion
        for end in BLANK_LINE.finditer(self.rest, seen):
            if end.start() >= start:
                events.append((start, end.end()))
                start = end.end()
        found = [parse_event(bytes(self.rest[first:last])) for first, last in events]
        del self.rest[:start]
        if len(self.rest) > MOST_BYTES:
            raise StreamError(f"an event of more than {MOST_BYTES} bytes")
        return found


def parse_event(raw: bytes) -> Event:
    if raw.startswith(b"data: ") and raw.endswith(b"\n\n") and raw.find(b"\n") == len(raw) - 2 and b"\r" not in raw:
        return Event(raw, raw[6:-2])  # the usual form
    name, data = b"", []
    for line in LINE_END.split(raw.removeprefix(b"\xef\xbb\xbf")):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return Event(raw, b"\n".join(data), name)
