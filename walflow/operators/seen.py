"""Keys that were delivered: the last so many, and a file of them.

    seen = header (20 bytes) key*      key = digest (16 bytes) crc32c of it (4 bytes, little endian)

Keys are appended as they are delivered; a file of twice as many as count is written anew. The file opens
with any content: a key with a wrong checksum is left out. The worst result is that an event comes twice.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import google_crc32c

from walflow import world
from walflow.disk import Disk, remedy
from walflow.durable import DiskFolder, replace_and_keep
from walflow.errors import DirectoryLocked, Unusable
from walflow.lock import HeldDirectory, LockFile

HEADER: Final = b"walflow seen keys 1\n"
DIGEST: Final = 16
SIZE: Final = DIGEST + 4

crc32c: Callable[[bytes], int] = google_crc32c.value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class SeenKeys:
    """The last `most` keys, in the order in which they came."""

    def __init__(self, most: int, keys: Iterable[bytes] = ()) -> None:
        self._most = most
        self._keys: OrderedDict[bytes, None] = OrderedDict()  # a dict looks for its oldest longer and longer
        self.add(keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._keys[key] = None
            self._keys.move_to_end(key)
        while len(self._keys) > self._most:
            self._keys.popitem(last=False)

    def keys(self) -> list[bytes]:
        return list(self._keys)


class SeenFile:
    """Of one directory, which is its own. Every call but the constructor may fail with OSError, and with Unusable
    while the directory is not where it was; what was to be written is then to be written again, whole."""

    def __init__(self, directory: str, most: int, disk: Disk | None = None) -> None:
        """Raises DirectoryLocked, and Unusable where there can be no such directory."""
        self._disk = disk = disk or world.disk()
        self._folder = DiskFolder(disk, directory)
        self._directory = directory
        self._path = os.path.join(directory, "seen")
        self._most = most
        self._fd: int | None = None
        try:
            disk.makedir(directory)
            self._place, self._lock = _lock(disk, directory)
            self.keys, self.damage = self._read()
        except OSError as error:
            otherwise = "give qos::dedupe another `dir`"
            what = remedy(error, directory, otherwise) or otherwise
            raise Unusable(f"{directory}: {error.strerror or error}; {what}") from error
        self._stored = 0
        self._sound = False  # the file is what it should be, and its end is known

    def is_due(self, fresh: int) -> bool:
        """Whether so many more are written with all that count, anew."""
        return not self._sound or self._stored + fresh > 2 * self._most

    def write(self, fresh: Sequence[bytes]) -> None:
        """Writes the keys. They are on disk when it returns."""
        assert self._fd is not None
        self._sound = False
        self._check()
        self._disk.write(self._fd, [_packed(fresh)], len(HEADER) + SIZE * self._stored)
        self._disk.sync(self._fd)
        self._stored += len(fresh)
        self._sound = True

    def close(self) -> None:
        if self._fd is not None:
            self._disk.close(self._fd)
        self._lock.release()
        self._place.release()

    def _check(self) -> None:
        if not self._place.is_in_place():
            raise Unusable(f"{self._directory} was moved, replaced or removed while it was in use; move it back")
        if not self._lock.is_in_place() and not self._lock.renew():
            raise Unusable(f"{self._lock.path} was replaced, and another process has locked the new one")

    def write_anew(self, keys: Sequence[bytes]) -> None:
        """These and no others, as `write`."""
        self._check()
        fd = replace_and_keep(self._folder, "seen", [HEADER + _packed(keys)], temporary="seen.new")
        if self._fd is not None:
            self._disk.close(self._fd)
        self._fd, self._stored, self._sound = fd, len(keys), True

    def _read(self) -> tuple[list[bytes], str | None]:
        """What counts of the file, and what is wrong with it. It is written anew at the first write. An unended key
        at the end is no damage: its write was cut off, and nothing was promised for it."""
        if not self._disk.is_file(self._path):
            return [], None
        fd = self._disk.open(self._path)
        try:
            header = self._disk.read(fd, len(HEADER), 0)
            stored = max(0, self._disk.stat(fd).size - len(HEADER)) // SIZE
            read = min(stored, 4 * self._most)  # the newest, for there were more where `max_keys` was larger
            data = self._disk.read(fd, SIZE * read, len(HEADER) + SIZE * (stored - read))
        finally:
            self._disk.close(fd)
        keys, bad = _unpacked(data)
        if header == HEADER and not bad:
            return keys[-self._most :], None
        return keys[-self._most :], f"{self._path} is damaged: {len(keys)} keys of it can be read"


def _lock(disk: Disk, directory: str) -> tuple[HeldDirectory, LockFile]:
    place = HeldDirectory.take(disk, directory)
    if place is not None:
        try:
            lock = LockFile.take(disk, os.path.join(directory, "lock"))
        except BaseException:
            place.release()
            raise
        if lock is not None:
            return place, lock
        place.release()
    raise DirectoryLocked(f"{directory} is in use by another walflow")


def _packed(keys: Iterable[bytes]) -> bytes:
    return b"".join([key + crc32c(key).to_bytes(4, "little") for key in keys])


def _unpacked(data: bytes) -> tuple[list[bytes], int]:
    """The keys that have their checksum, and how many places have not."""
    whole = len(data) // SIZE
    found: list[bytes] = []
    for at in range(0, whole * SIZE, SIZE):
        key = data[at : at + DIGEST]
        if crc32c(key).to_bytes(4, "little") == data[at + DIGEST : at + SIZE]:
            found.append(key)
    return found, whole - len(found)
