"""The file descriptors of a process: without one no connection is accepted, no upstream asked and no log opened."""

from __future__ import annotations

import asyncio
import logging
import os

log = logging.getLogger(__name__)


class Descriptors:
    """Looks whether one is left, and says once when none is and once when there is again."""

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
