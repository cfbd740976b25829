"""One SQLite file that several processes and threads write to."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sage.turn import Turn

FORMAT = 6  # PRAGMA user_version of files that this sage writes
READABLE = (1, 2, 3, 4, 5, FORMAT)
APPLICATION = 0x53414745  # 'SAGE'
PATIENCE_S = 10.0  # with whoever writes; then the log cannot be used, and a router answers without it
CHECKPOINT_PAGES = 8000  # 32 MB of log before a writer has to wait for the disk


class DatabaseError(ValueError):
    """A file that cannot be opened, read or written; the sentence says which and what to do."""


class WrongFileError(DatabaseError):
    """A path that cannot be the log, whatever the state of the disk: a mistake of whoever gave it."""


class SharedFile:
    """Short write transactions, one at a time over all processes, and readers that never wait for them.

    It is opened on first use, and again on the next use after an error: the disk may have been mended meanwhile.
    """

    def __init__(
        self, path: Path, schema: str, upgrade: Callable[[sqlite3.Connection, int], None] | None = None
    ) -> None:
        self.path = path
        self.schema = schema
        self.upgrade = upgrade  # makes a file of an older format, which it is given, one of this format
        self._lock = threading.RLock()
        self._turn = Turn(path.with_name(path.name + "-lock"))
        self._process = -1
        self._inherited: list[sqlite3.Connection] = []

    def open(self) -> None:
        """Connects now; what is wrong with the file is said here instead of on first use."""
        with self.connection():
            pass

    def _open_here(self) -> None:
        """Connects; again in a process that was forked: a parent's connection is neither used nor closed there."""
        if self._process == os.getpid():
            return
        if self._process != -1:
            self._inherited.append(self._connection)
            self._turn.close()
            self._process = -1
        if not self.path.parent.is_dir():
            raise WrongFileError(f"{self.path}: there is no folder {self.path.parent}: make it or choose another path")
        self._connection = self._connect()
        try:
            self._turn.open()
        except OSError:
            self._connection.close()
            raise
        self._process = os.getpid()
        with self._alone() as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            for statement in statements(self.schema):
                connection.execute(statement)
            if self.upgrade is not None and version in READABLE[:-1]:
                self.upgrade(connection, version)
            if version == 0 or (self.upgrade is not None and version != FORMAT):
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, PATIENCE_S, isolation_level=None, check_same_thread=False)
        try:
            self._check_format(connection)  # before anything is changed
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        except (DatabaseError, sqlite3.Error):
            connection.close()
            raise
        return connection

    def _check_format(self, connection: sqlite3.Connection) -> int:
        """Its number; 0 for an empty file."""
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            return 0
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise WrongFileError(f"{self.path} is a database of another program: choose another file")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in READABLE:
            raise WrongFileError(
                f"{self.path} has format {version}, this sage writes {FORMAT}: use the sage that wrote it, or a new file"
            )
        return version

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: committed at the end of the block, undone if it fails."""
        with self._held(), self._alone() as connection:
            yield connection

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """The shared connection, for a short read."""
        with self._held():
            yield self._connection

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The connection for one thread; closed after an error, as nobody knows what it still holds."""
        with self._lock, self._explained():
            try:
                self._open_here()
                yield
            except (sqlite3.Error, OSError):
                self.close()
                raise

    @contextmanager
    def _alone(self) -> Iterator[sqlite3.Connection]:
        # SQLite's own wait polls with growing pauses; a lock that the kernel hands on keeps many writers quick.
        with self._turn.taken(PATIENCE_S):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own, for a long read: it sees the file as it is now, and nobody waits for it."""
        with self._explained(), closing(self._reader()) as connection:
            yield connection

    def _reader(self) -> sqlite3.Connection:
        try:
            self.open()
            return self._connect()
        except WrongFileError:
            raise
        except DatabaseError:
            if not self.path.is_file():
                raise
        return self._connect_without_writing()

    def _connect_without_writing(self) -> sqlite3.Connection:
        """For a file in a folder that cannot be written, where SQLite can share it only with writers that are there."""
        shared = self.path.with_name(self.path.name + "-wal").exists()
        how = "mode=ro" if shared else "immutable=1"
        connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?{how}", PATIENCE_S, uri=True)
        try:
            version = self._check_format(connection)
            if version != FORMAT:
                raise WrongFileError(
                    f"{self.path} has format {version}, and its folder cannot be written to upgrade it to {FORMAT}: copy it "
                    "into a folder of yours"
                )
        except (DatabaseError, sqlite3.Error):
            connection.close()
            raise
        return connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise DatabaseError(
                f"{self.path} cannot be used as a log ({error}): check the path, its permissions and the disk"
            ) from error

    def close(self) -> None:
        with self._lock:
            if self._process == os.getpid():
                self._process = -1
                self._turn.close()
                self._connection.close()


def statements(script: str) -> Iterator[str]:
    """The statements of a script; `executescript` would commit the transaction around it."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
