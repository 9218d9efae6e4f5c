"""A disk that only reads. Recovery on it finds what a start would find, and changes nothing."""

import errno
import os
import stat
from collections.abc import Sequence

from walflow import world
from walflow.disk import Disk, RealDisk


class Onlooker(RealDisk):
    """Reads, from `disk`. It only notes what it should write, move or remove."""

    preallocates = False

    def __init__(self, disk: Disk | None = None) -> None:
        self._disk: Disk = disk or world.disk()
        self._moved: dict[str, str | None] = {}  # where the bytes of a name are; None: as if it were gone

    def makedir(self, path: str, mode: int = 0o700) -> None:
        if os.path.lexists(path) and not os.path.isdir(path):
            raise _error(errno.EEXIST, path)

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        there = self._moved.get(path, path)
        missing = there is None or not os.path.lexists(there)
        if exclusive and not missing:
            raise _error(errno.EEXIST, path)
        if missing and not (create or exclusive):
            raise _error(errno.ENOENT, path)
        if missing or there is None:
            there = self._moved[path] = os.devnull
        fd = os.open(there, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        if stat.S_ISDIR(os.fstat(fd).st_mode):  # which only opens for reading
            os.close(fd)
            raise _error(errno.EISDIR, path)
        return fd

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return self._disk.read(fd, size, offset)

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        pass

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass

    def allocate(self, fd: int, size: int) -> None:
        pass

    def truncate(self, fd: int, size: int) -> None:
        pass

    def rename(self, source: str, target: str) -> None:
        there = self._moved.get(source, source)
        if there != os.devnull or not self.is_file(target):  # a file written anew has what stands there already
            self._moved[target] = there
        self._moved[source] = None

    def unlink(self, path: str) -> None:
        self._moved[path] = None

    def names(self, path: str) -> list[str]:
        names = set(os.listdir(path)) if os.path.isdir(path) else set[str]()
        for moved, there in self._moved.items():
            folder, name = os.path.split(moved)
            if folder == path:
                (names.discard if there is None else names.add)(name)
        return sorted(names)

    def is_file(self, path: str) -> bool:
        there = self._moved.get(path, path)
        return there is not None and super().is_file(there)

    def identity(self, path: str) -> tuple[int, int] | None:
        there = self._moved.get(path, path)
        return None if there is None else super().identity(there)

    def lock(self, fd: int) -> bool:
        return True


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
