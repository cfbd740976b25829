"""One SQLite file that several processes and threads write to."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from sage.process_lock import ProcessLock

log = logging.getLogger(__name__)
FORMAT = 7  # PRAGMA user_version of files that this sage writes
READABLE = (1, 2, 3, 4, 5, 6, FORMAT)
APPLICATION = 0x53414745  # 'SAGE'
PATIENCE_S = 10.0  # with whoever writes; then the log cannot be used, and a router answers without it
IMPATIENCE_S = 0.05  # the same, once patience was lost and until the file can be written again
IDENTITY = """
CREATE TABLE IF NOT EXISTS file_identity (id TEXT NOT NULL) STRICT;
INSERT INTO file_identity SELECT '{}' WHERE NOT EXISTS (SELECT 1 FROM file_identity);
"""
CHECKPOINT_PAGES = 8000  # 32 MB of log before a writer has to wait for the disk


class DatabaseError(ValueError):
    """Error about a file that cannot be opened, read or written; the message names the file and the fix."""


class WrongFileError(DatabaseError):
    """Error about a path that cannot be the log, whatever the state of the disk, such as another program's database."""


class ReplacedFileError(WrongFileError):
    """Error about a file that was deleted, replaced or cut while it was in use: logged records are not in it."""


class Identity(NamedTuple):
    """The identity of the file that a process opened first: its place on the disk, its id, and its progress."""

    device: int
    inode: int
    id: str
    progress: int


class SharedFile:
    """An SQLite file with short write transactions, one at a time over all processes; readers never wait for them.

    It is opened on first use, and again on the next use after an error, as the disk may have been repaired. Every use
    raises ReplacedFileError once another file has taken the place of the one opened first.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        upgrade: Callable[[sqlite3.Connection, int], None] | None = None,
        *,
        progress: str = "SELECT 0",
        identity: Identity | None = None,
    ) -> None:
        self.path = path
        self.schema = schema
        self.upgrade = upgrade  # makes a file of an older format, which it is given, one of this format
        self.progress = progress  # a query for a number that only grows
        self.identity = identity  # which file this is, known from its first use on, or from an earlier process
        self._seen = (0, 0)  # when the file was written, and its size
        self._beside: list[tuple[int, int]] = []  # the places of the connection's -wal and -shm
        self._impatient = False
        self._lock = threading.RLock()
        self._turn = ProcessLock(path.with_name(path.name + "-lock"))
        self._process = -1
        self._inherited: list[sqlite3.Connection] = []

    def open(self) -> None:
        """Connects now, so that an unusable file raises DatabaseError here instead of on first use."""
        with self.connection():
            pass

    def _open_here(self) -> None:
        """Connects if this process has no connection; a forked process neither uses nor closes that of its parent."""
        if self._process == os.getpid():
            return
        if self._process != -1:
            self._inherited.append(self._connection)
            self._turn.close()
            self._process = -1
        if not self.path.parent.is_dir():
            raise WrongFileError(f"{self.path}: there is no folder {self.path.parent}: make it or choose another path")
        with suppress(FileExistsError):  # SQLite gives the files beside it the same mode
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        self._connection = self._connect()
        close_to_others(self.path, *self._files_beside())
        try:
            self._turn.open()
            if self.identity is not None:
                self._check_same(self._connection)
        except (OSError, sqlite3.Error, DatabaseError):
            self._connection.close()
            raise
        self._process = os.getpid()
        with self._alone() as connection:
            for statement in statements(IDENTITY.format(uuid.uuid4().hex)):
                connection.execute(statement)
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            for statement in statements(self.schema):
                connection.execute(statement)
            if self.upgrade is not None and version in READABLE[:-1]:
                self.upgrade(connection, version)
            if version == 0 or (self.upgrade is not None and version != FORMAT):
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
        found = os.stat(self.path)
        self._seen, self._beside = (found.st_mtime_ns, found.st_size), list(map(place_of, self._files_beside()))
        if self.identity is None:
            file_id, progress = self._id_and_progress(self._connection)
            self.identity = Identity(found.st_dev, found.st_ino, file_id, progress)

    def _files_beside(self) -> list[Path]:
        return [self.path.with_name(self.path.name + ending) for ending in ("-wal", "-shm")]

    def _id_and_progress(self, connection: sqlite3.Connection) -> tuple[str, int]:
        """Returns the id stored in the file, and its progress: the number that only grows."""
        file_id = connection.execute("SELECT id FROM file_identity").fetchone()[0]
        return file_id, connection.execute(self.progress).fetchone()[0]

    def _check_identity(self) -> None:
        """Raises ReplacedFileError if the path leads to another file than the first one; takes a few microseconds."""
        if self.identity is None:
            return
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            raise ReplacedFileError(self._replaced("was deleted")) from None
        if (found.st_dev, found.st_ino) != self.identity[:2]:
            raise ReplacedFileError(self._replaced("was replaced by another file"))
        if found.st_size == 0:
            raise ReplacedFileError(self._replaced("was emptied"))
        if self._process != os.getpid():
            return
        if self._beside != list(map(place_of, self._files_beside())):
            raise ReplacedFileError(self._replaced("lost its -wal or -shm file"))
        if self._seen != (found.st_mtime_ns, found.st_size):  # by a checkpoint of SQLite, or by somebody else
            with closing(self._plain_connection()) as connection:
                self._check_same(connection)
            self._seen = (found.st_mtime_ns, found.st_size)

    def _check_same(self, connection: sqlite3.Connection) -> None:
        """Raises ReplacedFileError if the content belongs to another file, or is an old copy with less progress."""
        assert self.identity is not None
        try:
            file_id, progress = self._id_and_progress(connection)
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):  # locked, say
                raise
            file_id, progress = "", 0
        except (sqlite3.DatabaseError, TypeError):  # not a database any more
            file_id, progress = "", 0
        if file_id != self.identity.id or progress < self.identity.progress:
            raise ReplacedFileError(self._replaced("was overwritten with another file or an old copy"))

    def _replaced(self, how: str) -> str:
        return (
            f"{self.path} {how} while it was in use, and what was logged and spent is not there: stop sage, put the file back "
            "with its -wal and -shm (or a backup without them), and start again"
        )

    def _plain_connection(self) -> sqlite3.Connection:
        patience_s = IMPATIENCE_S if self._impatient else PATIENCE_S
        return sqlite3.connect(self.path, patience_s, isolation_level=None, check_same_thread=False)

    def _connect(self) -> sqlite3.Connection:
        connection = self._plain_connection()
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
        """Returns the file's format number, 0 if it is empty; raises WrongFileError if this sage cannot read it."""
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
        """Yields a connection in a write transaction: committed at the end of the block, rolled back if it fails."""
        with self._held(), self._alone() as connection:
            yield connection

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Yields the connection that all threads share, for a short read."""
        with self._held():
            yield self._connection

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Reserves the connection for one thread; closes it after an error, because its state is not known then."""
        with self._lock, self._explained():
            try:
                self._check_identity()
                self._open_here()
                yield
            except (sqlite3.Error, OSError) as error:
                self._impatient = self._impatient or is_locked(error)
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
                self._written()
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _written(self) -> None:
        if self._impatient:
            self._impatient = False
            self._connection.execute(f"PRAGMA busy_timeout = {int(PATIENCE_S * 1000)}")
        if self.identity is not None:
            progress = self._connection.execute(self.progress).fetchone()[0]
            self.identity = self.identity._replace(progress=max(progress, self.identity.progress))

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yields a connection of its own for a long read: it sees the file as it is now, and no writer waits for it."""
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
        """Returns a read-only connection to a file whose folder cannot be written.

        Other processes' writes are seen only if a -wal file is there; otherwise the file is taken to be immutable.
        Raises WrongFileError if the file has an older format.
        """
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
            raise DatabaseError(f"{self.path} cannot be used as a log ({error}): {remedy(error)}") from error

    def close(self) -> None:
        with self._lock:
            if self._process == os.getpid():
                self._process = -1
                self._turn.close()
                self._connection.close()


def close_to_others(*paths: Path) -> None:
    """Removes other users' access to the files, and the group's unless the group may write, as in a shared log.

    Logs a warning if the mode of a file changed; does nothing on Windows and for files of other users.
    """
    closed = {}
    for path in paths if os.name == "posix" else ():
        with suppress(OSError):  # it is not there, or belongs to another user
            mode = os.stat(path).st_mode & 0o777
            private = mode & (0o770 if mode & 0o020 else 0o700)
            if private != mode:
                os.chmod(path, private)
                closed[path] = f"its mode was {mode:o} and is {private:o} now"
    for path, change in list(closed.items())[:1]:  # the others are SQLite's, beside it
        log.warning(f"{path} could be read by others: {change}")


def place_of(path: Path) -> tuple[int, int]:
    """Returns the device and inode of a file; (0, 0) if there is no such file."""
    with suppress(FileNotFoundError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return 0, 0


def is_locked(error: Exception) -> bool:
    """Returns True if the error means that another process holds the file."""
    return isinstance(error, TimeoutError) or "locked" in str(error)


def remedy(error: Exception) -> str:
    if is_locked(error):
        return "another program holds it; find that with `fuser`, and end its transaction"
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return "no file descriptor is left; raise the limit (`ulimit -n`, LimitNOFILE= of systemd)"
    if isinstance(error, sqlite3.OperationalError) and "unable to open" in str(error):
        try:  # SQLite does not say why
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as cause:
            return remedy(cause)
    return "check the path, its permissions and the disk"


def statements(script: str) -> Iterator[str]:
    """Yields the SQL statements of a script; `executescript` would commit the transaction around them."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
