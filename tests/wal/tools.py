"""What the log's tests share: its three phases in a row, and a disk that can be told to fail."""

import errno
import os
import shutil
import sys
from collections.abc import Callable, Sequence

from walflow.disk import RealDisk, RecordingDisk
from walflow.wal import Log, Record

EVERYTHING = 1 << 40


def commit(log: Log) -> None:
    """All that was appended."""
    while (one := log.commit()) is not None:
        one.flush()
        log.committed(one)


def checkpoint(log: Log, *, force: bool = False) -> None:
    one = log.checkpoint(force=force)
    if one is not None:
        one.flush()
        log.checkpointed(one)


def put(log: Log, *payloads: bytes, count: int = 1, tag: bytes = b"") -> list[int]:
    """Appended and durable; their first positions."""
    positions = [log.append(tag, payload, count, 7) for payload in payloads]
    commit(log)
    return positions


def read(log: Log) -> list[Record]:
    """All that is not acked, as a new reader finds it."""
    reader = log.reader()
    records = reader.read(EVERYTHING)
    reader.close()
    return records


def payloads(log: Log) -> list[bytes]:
    return [record.payload for record in read(log)]


def works(log: Log) -> None:
    """Append, read, ack, checkpoint: after any damage a log must go on."""
    if not log.fits(0, 5):
        for first, last in log.unacked(1, log.durable):
            log.ack(first, last)
        checkpoint(log)
    (position,) = put(log, b"again")
    assert read(log)[-1][:4] == (position, 1, b"", b"again")
    log.ack(position, position)
    checkpoint(log)
    assert log.unacked(position, position) == []


def on_disk(path: str) -> int:
    """Bytes of chunks and spares."""
    names = [name for name in os.listdir(path) if name.endswith(".wal") or name.startswith("spare.")]
    return sum(os.stat(os.path.join(path, name)).st_size for name in names)


def chunk_files(path: str) -> list[str]:
    return sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(".wal"))


class BadDisk(RealDisk):
    """Cannot read one file from `first` to before `end`, by whatever name."""

    def __init__(self, path: str, first: int, end: int = sys.maxsize) -> None:
        self._inode, self._first, self._end = os.stat(path).st_ino, first, end

    def heal(self) -> None:
        self._first = self._end

    def read(self, fd: int, size: int, offset: int) -> bytes:
        if offset + size > self._first and offset < self._end and os.fstat(fd).st_ino == self._inode:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(fd, size, offset)


class FaultyDisk(RecordingDisk):
    """Fails where `fault` returns an errno for (operation, path, offset or 0). A failed write leaves a part."""

    def __init__(self, *, preallocates: bool = True) -> None:
        super().__init__()
        self.preallocates = preallocates
        self.fault: Callable[[str, str], int | None] = lambda operation, path: None

    def _maybe(self, operation: str, path: str) -> None:
        number = self.fault(operation, path)
        if number is not None:
            raise OSError(number, os.strerror(number), path)

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        self._maybe("create" if exclusive else "open", path)
        return super().open(path, create=create, exclusive=exclusive, mode=mode)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self._maybe("read", self._paths.get(fd, ""))
        return super().read(fd, size, offset)

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        path = self._paths[fd]
        try:
            self._maybe("write", path)
        except OSError:
            half = b"".join(parts)
            RealDisk.write(self, fd, [half[: len(half) // 2]], offset)
            raise
        super().write(fd, parts, offset)

    def sync(self, fd: int) -> None:
        self._maybe("sync", self._paths[fd])
        super().sync(fd)

    def sync_directory(self, path: str) -> None:
        self._maybe("sync_directory", path)
        super().sync_directory(path)

    def hold_directory(self, path: str) -> int:
        self._maybe("open", path)
        return super().hold_directory(path)

    def allocate(self, fd: int, size: int) -> None:
        self._maybe("allocate", self._paths[fd])
        super().allocate(fd, size)

    def truncate(self, fd: int, size: int) -> None:
        self._maybe("truncate", self._paths[fd])
        super().truncate(fd, size)

    def rename(self, source: str, target: str) -> None:
        self._maybe("rename", target)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._maybe("unlink", path)
        super().unlink(path)


class QuickDisk(RealDisk):
    """Syncs nothing: for tests that open a log ten thousand times and never cut the power."""

    preallocates = False

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass

    def filesystem(self, path: str) -> str:
        return "ext4"


def files_of(path: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in os.listdir(path):
        with open(os.path.join(path, name), "rb") as file:
            found[name] = file.read()
    return found


def restore(path: str, files: dict[str, bytes]) -> None:
    """Makes the directory hold exactly these files."""
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    for name, data in files.items():
        with open(os.path.join(path, name), "wb") as file:
            file.write(data)
