"""How far each file is acked, on disk: one small file, replaced as a whole, so that after a power cut it is the old
one or the new one."""

import os
from typing import Final, NamedTuple, Self
from urllib.parse import quote

import msgspec

from connectors.file.follow.files_found import Identity
from connectors.file.follow.plain_file import Head
from walflow import Unusable, WalflowError
from walflow.files import Disk, DiskFolder, LockFile, replace

VERSION: Final = 2  # 1 has no `past`, and no bytes before the offset
PAST: Final = 1000  # files that are remembered when they are followed no more


class FileMark(NamedTuple):
    """Of one file: every event before `offset` is acked or rejected. `path`: where it was last, as bytes, for a name
    need not be text. `tail`: the bytes before `offset`, without a length where they are not known. `packed`: of a
    compressed file that was read to its end, its size. `earlier`: of one that is gone, earlier offsets, each with the
    checksum of the bytes before it."""

    path: bytes
    device: int
    inode: int
    offset: int
    head_length: int
    head_crc: int
    tail_length: int = 0
    tail_crc: int = 0
    packed: int = 0
    earlier: tuple[tuple[int, int], ...] = ()

    @property
    def identity(self) -> Identity:
        return self.device, self.inode

    @property
    def head(self) -> Head:
        return Head(self.head_length, self.head_crc)

    @property
    def tail(self) -> Head:
        return Head(self.tail_length, self.tail_crc)


class NoCheckpoint(WalflowError):
    """Its directory cannot be made, or written to."""


class _Saved(msgspec.Struct):
    version: int
    boot: str
    files: list[FileMark]
    past: list[FileMark] = []


class FollowMarks(NamedTuple):
    """`past`: of files that are followed no more, the latest last. Compressed, they may come again."""

    files: list[FileMark]
    past: list[FileMark]


class FollowCheckpoint:
    """The file, held by this process alone."""

    def __init__(self, disk: Disk, directory: str, name: str, lock: LockFile, boot: str) -> None:
        self.path = os.path.join(directory, name)
        self._disk = disk
        self._folder = DiskFolder(disk, directory)
        self._name = name
        self._lock = lock
        self._boot = boot

    def __repr__(self) -> str:
        return f"<FollowCheckpoint {self.path}>"

    @classmethod
    def open(cls, disk: Disk, directory: str, owner: str, boot: str) -> Self:
        """Raises NoCheckpoint, and Unusable where another process has it."""
        name = f"{quote(owner, safe=':')}.json"
        try:
            disk.makedir(directory)
            lock = LockFile.take(disk, os.path.join(directory, f"{name}.lock"))
        except OSError as error:
            raise NoCheckpoint(f"cannot keep a checkpoint in {directory}: {error.strerror}") from error
        if lock is None:
            raise _taken(os.path.join(directory, name))
        return cls(disk, directory, name, lock, boot)

    def load(self) -> FollowMarks | None:
        """None: there is none yet. Raises Unusable."""
        if self._disk.look(self.path) is None:
            return None
        try:
            data = _content(self._disk, self.path)
            saved = msgspec.json.decode(data, type=_Saved)
        except (OSError, msgspec.DecodeError) as error:
            raise Unusable(
                f"{self.path} cannot be read ({error}): it says how far each file was read. "
                "Remove it to read them as on the first start"
            ) from error
        if saved.version > VERSION:
            raise Unusable(f"{self.path} was written by a newer walflow: run that one")
        if saved.boot != self._boot:
            return FollowMarks([_with_device_of_now(self._disk, mark) for mark in saved.files], saved.past)
        return FollowMarks(saved.files, saved.past)

    def save(self, marks: FollowMarks) -> None:
        """Raises OSError: the old ones are on disk, or the new ones. Raises Unusable: the lock file was removed, and
        another process follows the files now, from this checkpoint."""
        if not self._lock.is_in_place() and not self._lock.renew():
            raise _taken(self.path)
        data = msgspec.json.encode(_Saved(VERSION, self._boot, *marks))
        replace(self._folder, self._name, [data])

    def close(self) -> None:
        self._lock.release()


def _taken(path: str) -> Unusable:
    return Unusable(f"another process follows files with the checkpoint {path}")


def _with_device_of_now(disk: Disk, mark: FileMark) -> FileMark:
    """Device numbers are dealt out anew at each boot."""
    try:
        return mark._replace(device=disk.status(os.path.dirname(os.fsdecode(mark.path)) or ".").identity[0])
    except OSError:
        return mark


def _content(disk: Disk, path: str) -> bytes:
    fd = disk.open(path)
    try:
        return disk.read(fd, disk.stat(fd).size, 0)
    finally:
        disk.close(fd)
