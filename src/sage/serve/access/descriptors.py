"""A watch on file descriptors: without a free one, no connection is accepted, no upstream asked and no log opened."""

from __future__ import annotations

import asyncio
import logging
import os

log = logging.getLogger(__name__)


class Descriptors:
    """A check for a free file descriptor, which logs once when there is none, and once when there is one again."""

    def __init__(self) -> None:
        self.exhausted = False

    def look(self) -> None:
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            if not self.exhausted:
                log.warning(
                    f"no file descriptor is left ({error.strerror}): new connections are refused, and upstreams and the log may "
                    "fail; raise the limit (`ulimit -n`, LimitNOFILE= of systemd), or limit connections in your reverse proxy"
                )
            self.exhausted = True
        else:
            if self.exhausted:
                log.warning("file descriptors are left again")
            self.exhausted = False

    async def watch(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            self.look()
