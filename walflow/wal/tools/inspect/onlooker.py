"""A disk to look at a directory: it reads what another disk has, and writes nothing."""

import errno
import os
import stat
from collections.abc import Sequence
from typing import Final

from walflow import world
from walflow.disk import DirectoryEntry, Disk, Landed, Stat

NOTHING: Final = ""  # the place of a file that is made anew: it has no bytes
NO_FILE: Final = -1  # its descriptor


class Onlooker:
    """Reads, from `disk`. It only notes what it should write, move or remove."""

    preallocates = False

    def __init__(self, disk: Disk | None = None) -> None:
        self._disk: Disk = disk or world.disk()
        self._moved: dict[str, str | None] = {}  # where the bytes of a name are; None: as if it were gone

    def _place(self, path: str) -> str | None:
        return self._moved.get(path, path)

    def _there(self, path: str) -> Stat | None:
        """What has this name on the disk, also a link. Raises OSError where that cannot be told."""
        try:
            return self._disk.status(path, follow_links=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def makedir(self, path: str, mode: int = 0o700) -> None:
        found = self._there(path)
        if found is not None and not stat.S_ISDIR(self._disk.status(path).mode):
            raise _error(errno.EEXIST, path)

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        place = self._place(path)
        if place == NOTHING:
            if exclusive:
                raise _error(errno.EEXIST, path)
            return NO_FILE
        found = None if place is None else self._there(place)
        if found is None or place is None:
            if not (create or exclusive):
                raise _error(errno.ENOENT, path)
            self._moved[path] = NOTHING
            return NO_FILE
        if exclusive:
            raise _error(errno.EEXIST, path)
        for kind, number in ((stat.S_ISLNK, errno.ELOOP), (stat.S_ISDIR, errno.EISDIR)):
            if kind(found.mode):
                raise _error(number, path)
        return self._disk.open_to_read(place)

    def open_to_read(self, path: str) -> int:
        place = self._place(path)
        if place is None:
            raise _error(errno.ENOENT, path)
        return NO_FILE if place == NOTHING else self._disk.open_to_read(place)

    def close(self, fd: int) -> None:
        if fd != NO_FILE:
            self._disk.close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return b"" if fd == NO_FILE else self._disk.read(fd, size, offset)

    def cached(self, fd: int, size: int, offset: int) -> bool:
        return fd == NO_FILE or self._disk.cached(fd, size, offset)

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        pass

    def append(self, fd: int, parts: Sequence[bytes]) -> Landed:
        size = self.stat(fd).size
        return Landed(size, size)

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass

    def hold_directory(self, path: str) -> int:
        return self._disk.hold_directory(path)

    def let_go(self, fd: int) -> None:
        self._disk.let_go(fd)

    def allocate(self, fd: int, size: int) -> None:
        pass

    def truncate(self, fd: int, size: int) -> None:
        pass

    def rename(self, source: str, target: str) -> None:
        place = self._place(source)
        if place != NOTHING or not self.is_file(target):  # a file written anew has what stands there already
            self._moved[target] = place
        self._moved[source] = None

    def unlink(self, path: str) -> None:
        self._moved[path] = None

    def remove_directory(self, path: str) -> None:
        pass

    def names(self, path: str) -> list[str]:
        try:
            names = set(self._disk.names(path))
        except (FileNotFoundError, NotADirectoryError):
            names = set[str]()
        for moved, place in self._moved.items():
            folder, name = os.path.split(moved)
            if folder == path:
                (names.discard if place is None else names.add)(name)
        return sorted(names)

    def entries(self, path: str) -> list[DirectoryEntry]:
        return [one for one in self._disk.entries(path) if self._place(os.path.join(path, one.name)) is not None]

    def stat(self, fd: int) -> Stat:
        return Stat(0, (0, 0)) if fd == NO_FILE else self._disk.stat(fd)

    def status(self, path: str, *, follow_links: bool = True) -> Stat:
        place = self._place(path)
        if place is None:
            raise _error(errno.ENOENT, path)
        return Stat(0, (0, 0)) if place == NOTHING else self._disk.status(place, follow_links=follow_links)

    def look(self, path: str) -> Stat | None:
        place = self._place(path)
        return None if place is None else Stat(0, (0, 0)) if place == NOTHING else self._disk.look(place)

    def identity(self, path: str) -> tuple[int, int] | None:
        place = self._place(path)
        return None if place is None else (0, 0) if place == NOTHING else self._disk.identity(place)

    def is_file(self, path: str) -> bool:
        place = self._place(path)
        return place == NOTHING or (place is not None and self._disk.is_file(place))

    def lock(self, fd: int) -> bool:
        return True

    def filesystem(self, path: str) -> str:
        return self._disk.filesystem(path)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
