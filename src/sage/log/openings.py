"""Openings of tasks (a user's first words) as keyed hashes, which reveal only that two openings are equal.

The key is a file beside the log. Without it, nobody can find out by trying texts what a log, or an export of it, is
about.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)
KEY_BYTES = 32
MOST_CHARACTERS = 65_536  # of an opening that are hashed, so that a long one costs little


class OpeningHasher:
    """Hashes openings with the key of a log, which all its processes share; the first one makes it."""

    def __init__(self, db: Path) -> None:
        self.path = db.with_name(f"{db.name}.task-key")
        self._key: bytes | None = None
        self._warned = False

    @property
    def is_open(self) -> bool:
        """Returns True once the key is known: no file is read any more."""
        return self._key is not None

    def open(self) -> None:
        """Reads or makes the key unless it is known; where that fails, it is a warning and tried again by the next call."""
        if self._key is not None:
            return
        try:
            self._key = read_key(self.path)
        except (OSError, ValueError) as error:
            if not self._warned:
                log.warning(f"{self.path}: {error}; decisions without a task_id are told apart less well until then")
                self._warned = True

    def hash(self, tenant: str, opening: str) -> str:
        """Returns the hash of a tenant's opening as 32 hexadecimal digits; '' for a blank text, or while the key is not known."""
        text = opening[:MOST_CHARACTERS].strip()
        if not text or self._key is None:
            return ""
        said = f"{tenant}\0{text}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(said, key=self._key, digest_size=16).hexdigest()


def read_key(path: Path) -> bytes:
    """Returns the key in a file, which is made if there is none; raises ValueError if the key has a wrong length."""
    if not path.exists():
        make_key(path)
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, and this file {len(key)}: delete it, and another is made")
    return key


def make_key(path: Path) -> None:
    """Writes a new random key that only its owner can read; keeps the key of another process that was faster."""
    temporary = path.with_name(f".{path.name}.tmp-{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()
