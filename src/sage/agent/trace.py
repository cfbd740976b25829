"""The events of a run as lines of JSON; each is written at once, so that a run which was ended leaves whole lines."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path

from sage.files import FileWriteError
from sage.log.redaction import REMOVED, redact


class Trace:
    """A file of events, or none if `path` is None; known secrets, and texts that look like one, are removed.

    Raises FileWriteError if the file exists already or cannot be written.
    """

    def __init__(
        self, path: Path | None, secrets: Collection[str] = (), clock: Callable[[], float] = time.time
    ) -> None:
        self.path, self.secrets, self.clock = path, [secret for secret in secrets if secret], clock
        self.file: int | None = None
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            except FileExistsError:
                raise FileWriteError(f"--trace {path} is there already: choose another name") from None
            except OSError as error:
                raise FileWriteError(f"--trace {path} could not be written ({error.strerror})") from error

    def add(self, event: str, **values: object) -> None:
        if self.file is None:
            return
        line = json.dumps(
            {"event": event, "time": round(self.clock(), 3)} | {k: self.clean(v) for k, v in values.items()}
        )
        try:
            os.write(self.file, line.encode() + b"\n")
        except OSError as error:
            raise FileWriteError(f"{self.path} could not be written ({error.strerror}): free space") from error

    def clean(self, value: object) -> object:
        if isinstance(value, str):
            for secret in self.secrets:
                value = value.replace(secret, REMOVED)
            return redact(value)
        if isinstance(value, dict):
            return {name: self.clean(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean(item) for item in value]
        return value

    def close(self) -> None:
        if self.file is not None:
            os.fsync(self.file)
            os.close(self.file)
            self.file = None
