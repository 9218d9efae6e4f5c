"""Replace a file so that the new one is there after a power cut: whenever the power goes, the name has all of the old
bytes or all of the new ones.

Four steps, in this order. Write the bytes to another name; sync them; rename; sync the directory. A rename before the
sync could leave the name with half of the bytes, and without the last step the name may have the old ones again.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from walflow.disk import Disk
from walflow.errors import WalflowError


class Folder(Protocol):
    """A directory, its files by their names. The errors are its own: `walflow.wal` has one that tells a full disk
    from a failed sync."""

    def unlink(self, name: str, /) -> None:
        """No error if it is gone."""
        ...

    def create(self, name: str, /) -> int:
        """Its descriptor. An error if it is there."""
        ...

    def write(self, name: str, fd: int, parts: Sequence[bytes], offset: int, /) -> None: ...
    def sync(self, name: str, fd: int, /) -> None: ...
    def close(self, fd: int, /) -> None: ...
    def rename(self, source: str, target: str, /) -> None: ...
    def sync_names(self) -> None: ...


class DiskFolder:
    """Its errors are the disk's: OSError."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path

    def unlink(self, name: str) -> None:
        self._disk.unlink(self._file(name))

    def create(self, name: str) -> int:
        return self._disk.open(self._file(name), exclusive=True)

    def write(self, name: str, fd: int, parts: Sequence[bytes], offset: int) -> None:
        self._disk.write(fd, parts, offset)

    def sync(self, name: str, fd: int) -> None:
        self._disk.sync(fd)

    def close(self, fd: int) -> None:
        self._disk.close(fd)

    def rename(self, source: str, target: str) -> None:
        self._disk.rename(self._file(source), self._file(target))

    def sync_names(self) -> None:
        self._disk.sync_directory(self._path)

    def _file(self, name: str) -> str:
        return os.path.join(self._path, name)


def replace(folder: Folder, name: str, pieces: Iterable[bytes], *, temporary: str | None = None) -> None:
    """Durable when it returns. When it raises, the name has the old bytes or the new ones, and either may be gone at
    the next power cut: replace it again. `temporary` (by default `<name>.tmp`) is removed then: on a full disk
    it would keep what was left. A crash may leave it behind, and the next call with the same one removes it."""
    folder.close(replace_and_keep(folder, name, pieces, temporary=temporary))


def replace_and_keep(folder: Folder, name: str, pieces: Iterable[bytes], *, temporary: str | None = None) -> int:
    """As `replace`, and the descriptor of the new file is the caller's to close."""
    temporary = temporary or f"{name}.tmp"
    folder.unlink(temporary)
    fd = folder.create(temporary)
    try:
        offset = 0
        for piece in pieces:
            folder.write(temporary, fd, [piece], offset)
            offset += len(piece)
        folder.sync(temporary, fd)
        folder.rename(temporary, name)
        folder.sync_names()
    except BaseException:
        folder.close(fd)
        with suppress(OSError, WalflowError):
            folder.unlink(temporary)
        raise
    return fd
