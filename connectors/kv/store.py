"""Keys and values in one SQLite file. Every call blocks; the connector makes them on the scheduler's thread."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from walflow import WalflowError, world
from walflow.files import HeldDirectory

FILE: Final = "kv.sqlite3"
MAGIC: Final = 0x77616C66  # application_id
TABLE: Final = "CREATE TABLE IF NOT EXISTS kv (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"


class CannotStore(WalflowError):
    """The file cannot be used now. The line says why."""


class KeyAndValue(NamedTuple):
    key: bytes
    value: bytes


class KvStore:
    """What `begin` to `commit` surround is in the file whole or not at all."""

    def __init__(self, connection: sqlite3.Connection, place: HeldDirectory) -> None:
        self._connection = connection
        self._place = place
        self._file = Path(place.path) / FILE
        self._identity = _identity(self._file)

    @classmethod
    def open(cls, directory: str) -> Self:
        """Raises CannotStore."""
        try:
            Path(directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            place = HeldDirectory.take(world.disk(), directory)
        except OSError as error:
            raise CannotStore(f"cannot open {directory}/{FILE}: {error}") from error
        if place is None:  # SQLite's lock is the file's: it keeps out nobody who finds another file there, or none
            raise CannotStore(f"cannot open {directory}/{FILE}: the directory is locked, another process has it")
        try:
            return cls(_opened(directory), place)
        except BaseException:
            place.release()
            raise

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Raises CannotStore if the file is not the one at its path any more:
        the next start would not find the values."""
        self._connection.execute("COMMIT")
        if not self._place.is_in_place() or _identity(self._file) != self._identity:
            raise CannotStore(f"{self._file} was moved, replaced or removed while it was in use")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self.rollback()
        self._connection.close()
        self._place.release()

    def get(self, key: bytes) -> bytes | None:
        found = self._connection.execute("SELECT value FROM kv WHERE key = ?", (key,)).fetchone()
        return None if found is None else found[0]

    def put(self, key: bytes, value: bytes) -> None:
        self._connection.execute("INSERT OR REPLACE INTO kv VALUES (?, ?)", (key, value))

    def delete(self, key: bytes) -> None:
        self._connection.execute("DELETE FROM kv WHERE key = ?", (key,))

    def scan(self, start: bytes, end: bytes | None, most: int) -> Sequence[KeyAndValue]:
        """In the order of the keys, from `start` up to but without `end`."""
        below = "" if end is None else " AND key < ?"
        values = (start, most) if end is None else (start, end, most)
        rows = self._connection.execute(
            f"SELECT key, value FROM kv WHERE key >= ?{below} ORDER BY key LIMIT ?", values
        )
        return [KeyAndValue(key, value) for key, value in rows]


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _opened(directory: str) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(Path(directory) / FILE, isolation_level=None, check_same_thread=False, timeout=0)
    except (OSError, sqlite3.Error) as error:
        raise CannotStore(f"cannot open {directory}/{FILE}: {error}") from error
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # a commit is on disk
        connection.execute(TABLE)
        (found,) = connection.execute("PRAGMA application_id").fetchone()
        if found not in (0, MAGIC):
            raise CannotStore(f"{directory}/{FILE} belongs to another program")
        connection.execute(f"PRAGMA application_id = {MAGIC}")
    except sqlite3.Error as error:
        connection.close()
        raise CannotStore(f"cannot open {directory}/{FILE}: {error}") from error
    except CannotStore:
        connection.close()
        raise
    return connection
