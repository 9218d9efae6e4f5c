"""Disks in memory.

`MemoryDisk` is one on which nothing is ever lost. `SimulatedDisk` knows what a power cut may leave of it: of every
file the bytes and the size that were synced, and of each 512-byte sector written since then any of its versions; of
every directory the names that were synced and any of the changes since. `cuts.images` makes images of that.

An image has no LOCK files: they hold a pid, for people, and are written anew when the log is opened.
"""

import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from hashlib import blake2b
from itertools import count
from stat import S_IFDIR, S_IFREG
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from walflow.disk import DirectoryEntry, Landed, Stat
from walflow.handover import NO_LOCKS, HandedLocks

if TYPE_CHECKING:
    from walflow.testing.cuts import Blur

SECTOR: Final = 512
EMPTY: Final = bytes(SECTOR)


def parent(path: str) -> str:
    return path[: path.rfind("/")] or "/"


class PowerCut(BaseException):
    """Nothing that the process does after it reaches the disk."""


class Kept(NamedTuple):
    """What an image has under one name. `data` is None for a directory."""

    data: bytes | None
    number: int


class Image(NamedTuple):
    """What is on a disk when the power comes back. `kind`: what the cut did, one of `cuts.KINDS`."""

    files: Mapping[str, Kept]
    digest: int
    kind: str


class Version(NamedTuple):
    """One writing of a sector: what it then held, and which bytes of it were written."""

    data: bytes
    first: int
    after: int


class Inode:
    """A file, or a directory (`data` is None). `written` and `sizes`, oldest first: what became of it since it was
    last synced. `blur`: what a power cut may make of it, if somebody has asked since it changed."""

    __slots__ = ("blur", "changed_ns", "data", "locked", "number", "sizes", "synced", "written")

    def __init__(self, number: int, data: bytes | None = b"") -> None:
        self.number = number
        self.changed_ns = 0
        self.data: bytes | bytearray | None = data
        self.synced = data or b""
        self.written: dict[int, list[Version]] = {}
        self.sizes: list[int] = []
        self.locked: set[int] = set()  # by these descriptors, all of one open file
        self.blur: Blur | None = None

    def change(self) -> bytearray:
        if not isinstance(self.data, bytearray):
            assert self.data is not None, "is a directory"
            self.data = bytearray(self.data)
        return self.data

    def sync(self) -> None:
        """Writes what is dirty. Clean data is not looked at."""
        assert self.data is not None
        size = len(self.data)
        if self.written or size != len(self.synced):
            data = bytearray(self.synced[:size].ljust(size, b"\0"))
            for sector, versions in self.written.items():
                at = sector * SECTOR
                data[at : at + SECTOR] = versions[-1].data[: max(size - at, 0)]
            self.synced = bytes(data)
        self.forget()

    def forget(self) -> None:
        self.written.clear()
        self.sizes.clear()
        self.blur = None


class Move(dict[str, Inode | None]):
    """Of a directory. The names in it are safe once the names of its old and of its new place are."""

    def __init__(self, source: str, target: str, moved: Mapping[str, Inode]) -> None:
        super().__init__(dict.fromkeys(moved) | {target + path[len(source) :]: moved[path] for path in moved})
        self._roots = (source, target)

    def without(self, rest: Mapping[str, Inode | None]) -> Self:
        """Of it, what is not safe yet."""
        other = copy(self)
        other.clear()
        other.update(rest)
        return other

    def folder(self, path: str) -> str:
        for root in self._roots:
            if path.startswith(f"{root}/"):
                return parent(root)
        return parent(path)


def _folder(change: dict[str, Inode | None], path: str) -> str:
    """Whose sync makes that name safe."""
    return change.folder(path) if isinstance(change, Move) else parent(path)


class MemoryDisk:
    """Of files (`{path: bytes}`) or of an image. `fault` may fail an operation: it gets the operation and the path
    and returns an errno or None; a write that fails so leaves its first half. `cold`: a look at what is cached finds
    nothing."""

    preallocates = False
    cold = False

    def __init__(self, files: Mapping[str, bytes | Kept] | None = None) -> None:
        self.inodes: dict[str, Inode] = {}
        self.fault: Callable[[str, str], int | None] | None = None
        self.bad_from: Mapping[str, int] = {}  # of which files, and from which byte on, nothing can be read
        self.bad_to: Mapping[str, int] = {}  # up to which byte; if nothing is said, to the end
        self.failures = 0  # operations that raised because of it, or because the disk was full
        self.opener: Callable[[], object] = _no_one  # which process opens a file
        self.locks: Callable[[], HandedLocks] = lambda: NO_LOCKS  # of the process that locks one
        self.now_ns: Callable[[], int] = count(1).__next__  # when a file is written to
        self._fds: dict[int, tuple[str, Inode]] = {}
        self._openers: dict[int, object] = {}
        self._last_fd = 1000
        self.become(files or {})

    def become(self, files: Mapping[str, bytes | Kept]) -> None:
        """Another disk's content, all of it durable; nothing is open. Directories of files are there without being
        named."""
        self._fds.clear()
        self.inodes = {}
        for path, kept in files.items():
            if isinstance(kept, Kept):
                self.inodes[path] = Inode(kept.number, kept.data)
        for path, kept in files.items():
            if not isinstance(kept, Kept):
                self.inodes[path] = self._inode(kept)
        for folder in dict.fromkeys(map(parent, self.inodes)):
            self._make_sure_of(folder)

    def _make_sure_of(self, folder: str) -> None:
        while folder not in self.inodes and folder != "/":
            self.inodes[folder] = self._inode(None)
            folder = parent(folder)

    def used(self) -> int:
        return sum(len(inode.data) for inode in self.inodes.values() if inode.data is not None)

    def sizes(self) -> dict[str, int]:
        """Of the files, in bytes."""
        return {path: len(inode.data) for path, inode in self.inodes.items() if inode.data is not None}

    def content(self, path: str) -> bytes:
        return bytes(self.inodes[path].data or b"")

    def open_files(self) -> int:
        return len(self._fds)

    def snapshot(self) -> dict[str, Kept]:
        """As a process would find it now."""
        return {path: Kept(_frozen(inode.data), inode.number) for path, inode in self.inodes.items()}

    # what SimulatedDisk does otherwise

    def _begin(self, operation: str, path: str) -> None:
        if self.fault is not None and (number := self.fault(operation, path)) is not None:
            raise self._failure(number, path)

    def _failure(self, number: int, path: str = "") -> OSError:
        self.failures += 1
        return OSError(number, os.strerror(number), path)

    def _set(self, change: dict[str, Inode | None]) -> None:
        for path, inode in change.items():
            if inode is None:
                self.inodes.pop(path, None)
            else:
                self.inodes[path] = inode

    def _put(self, inode: Inode, data: bytes, offset: int) -> None:
        inode.changed_ns = self.now_ns()
        target = inode.change()
        if offset > len(target):
            target.extend(bytes(offset - len(target)))
        target[offset : offset + len(data)] = data

    def _resize(self, inode: Inode, size: int) -> None:
        inode.changed_ns = self.now_ns()
        data = inode.change()
        data.extend(bytes(max(0, size - len(data))))
        del data[size:]

    def _inode(self, data: bytes | None) -> Inode:
        """With the lowest number that is free, as ext4 has it."""
        taken = {inode.number for inode in self._inodes_in_use()}
        return Inode(next(number for number in count(1) if number not in taken), data)

    def _inodes_in_use(self) -> Iterable[Inode]:
        """Those without a name are in use for as long as they are open."""
        yield from self.inodes.values()
        yield from (inode for _, inode in self._fds.values())

    # walflow.disk.Disk

    def makedir(self, path: str, mode: int = 0o700) -> None:
        if path in self.inodes or path == "/":
            return
        self.makedir(parent(path), mode)
        self._begin("makedir", path)
        self._set({path: self._inode(None)})

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        inode = self.inodes.get(path)
        if inode is None:
            folder = parent(path)
            if not (create or exclusive) or (folder != "/" and folder not in self.inodes):
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            self._begin("create", path)
            inode = self._inode(b"")
            self._set({path: inode})
        elif exclusive:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        elif inode.data is None:
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        elif self.fault is not None:
            MemoryDisk._begin(self, "open", path)
        return self._descriptor(path, inode)

    def open_to_read(self, path: str) -> int:
        inode = self._there(path)
        if self.fault is not None:
            MemoryDisk._begin(self, "open", path)
        return self._descriptor(path, inode)

    def _there(self, path: str) -> Inode:
        inode = self.inodes.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return inode

    def _descriptor(self, path: str, inode: Inode) -> int:
        self._last_fd += 1
        self._fds[self._last_fd] = path, inode
        self._openers[self._last_fd] = self.opener()
        return self._last_fd

    def let_go_of(self, opener: object) -> None:
        """Closes what a process has open that is gone."""
        for fd in [fd for fd, one in self._openers.items() if one is opener and fd in self._fds]:
            self.close(fd)

    def close(self, fd: int) -> None:
        self._openers.pop(fd, None)
        _, inode = self._fds.pop(fd)
        inode.locked.discard(fd)
        self.locks().closed(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        path, inode = self._fds[fd]
        if self.fault is not None:
            MemoryDisk._begin(self, "read", path)
        if (
            self.bad_from
            and offset + size > self.bad_from.get(path, offset + size)
            and offset < self.bad_to.get(path, 1 << 63)
        ):
            raise self._failure(errno.EIO, path)
        assert inode.data is not None
        piece = inode.data[offset : offset + size]
        return piece if type(piece) is bytes else bytes(piece)

    def cached(self, fd: int, size: int, offset: int) -> bool:
        return not self.cold

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        path, inode = self._fds[fd]
        data = b"".join(parts)
        try:
            self._begin("write", path)
        except OSError:
            self._put(inode, data[: len(data) // 2], offset)
            raise
        self._put(inode, data, offset)

    def append(self, fd: int, parts: Sequence[bytes]) -> Landed:
        path, inode = self._fds[fd]
        assert inode.data is not None
        start = len(inode.data)
        try:
            self._begin("append", path)
            self._put(inode, b"".join(parts), start)
        except OSError:
            if len(inode.data) == start:  # of a full disk the space that was left is used
                raise
        return Landed(start, len(inode.data))

    def sync(self, fd: int) -> None:
        self._begin("sync", self._fds[fd][0])

    def sync_directory(self, path: str) -> None:
        self._begin("sync_directory", path)

    def hold_directory(self, path: str) -> int:
        return self.open_to_read(path)

    def let_go(self, fd: int) -> None:
        self.close(fd)

    def allocate(self, fd: int, size: int) -> None:
        path, inode = self._fds[fd]
        assert inode.data is not None
        before = len(inode.data)
        try:
            self._begin("allocate", path)
        except OSError as error:
            if error.errno == errno.ENOSPC and size > before:  # as on ext4, what was found is kept
                self._resize(inode, before + self._room((size - before) // 2))
            raise
        if size > before:
            self._resize(inode, before + self._room(size - before))
        if size > len(inode.data):
            raise self._failure(errno.ENOSPC, path)

    def _room(self, growth: int) -> int:
        """So many bytes of it there is space for."""
        return growth

    def truncate(self, fd: int, size: int) -> None:
        path, inode = self._fds[fd]
        self._begin("truncate", path)
        self._resize(inode, size)

    def rename(self, source: str, target: str) -> None:
        inode = self._there(source)
        self._begin("rename", source)
        if inode.data is None:
            self._move(
                {path: other for path, other in self.inodes.items() if path.startswith(f"{source}/")}, source, target
            )
        else:
            self._set({source: None, target: inode})

    def _move(self, inside: dict[str, Inode], source: str, target: str) -> None:
        self._set(Move(source, target, {source: self.inodes[source], **inside}))

    def unlink(self, path: str) -> None:
        if path in self.inodes:
            self._begin("unlink", path)
            self._set({path: None})

    def remove_directory(self, path: str) -> None:
        self._there(path)
        if self.names(path):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        self._begin("remove_directory", path)
        self._set({path: None})

    def names(self, path: str) -> list[str]:
        end = len(path)
        return sorted([name[end + 1 :] for name in self.inodes if name.rfind("/") == end and name.startswith(path)])

    def stat(self, fd: int) -> Stat:
        return self._stat(self._fds[fd][1])

    def look(self, path: str) -> Stat | None:
        inode = self.inodes.get(path)
        return None if inode is None or inode.data is None else self._stat(inode)

    def identity(self, path: str) -> tuple[int, int] | None:
        if path == "/":
            return 1, 0
        inode = self.inodes.get(path.rstrip("/"))
        return None if inode is None else (1, inode.number)

    def entries(self, path: str) -> list[DirectoryEntry]:
        start = path.rstrip("/") + "/"
        if start != "/" and self._there(start[:-1]).data is not None:
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        if self.fault is not None:
            MemoryDisk._begin(self, "entries", path)
        found = [(name, self.inodes[start + name]) for name in self.names(start[:-1])]
        return [
            DirectoryEntry(name, inode.number, inode.data is not None, is_link=False, is_directory=inode.data is None)
            for name, inode in found
        ]

    def status(self, path: str, *, follow_links: bool = True) -> Stat:
        if self.fault is not None:
            MemoryDisk._begin(self, "status", path)
        return self._stat(self._there(path.rstrip("/")) if path != "/" else Inode(0, None))

    def _stat(self, inode: Inode) -> Stat:
        links = sum([other is inode for other in self.inodes.values()])
        mode = S_IFDIR if inode.data is None else S_IFREG
        return Stat(len(inode.data or b""), (1, inode.number), links, mode, inode.changed_ns)

    def is_file(self, path: str) -> bool:
        inode = self.inodes.get(path)
        return inode is not None and inode.data is not None

    def lock(self, fd: int) -> bool:
        inode = self._fds[fd][1]
        if inode.locked and not self.locks().take(fd):
            return False
        inode.locked.add(fd)
        self.locks().took(fd)
        return True

    def duplicate(self, fd: int, opener: object) -> int:
        """Another descriptor of the same open file, which that process has."""
        path, inode = self._fds[fd]
        other = self._descriptor(path, inode)
        self._openers[other] = opener
        if fd in inode.locked:
            inode.locked.add(other)
        return other

    def filesystem(self, path: str) -> str:
        return "simulated"


class SimulatedDisk(MemoryDisk):
    """`before` is called ahead of each operation that changes something, so with the disk as a power cut at that
    moment finds it.

    It can be a worse disk than the log is made for, to see that this is noticed. `lies`: of "sync" and
    "sync_directory", those that return and have done nothing. `spoils_neighbours`: a sector that was just being
    written may come back with other bytes changed than those that were (no "powersafe overwrite", as SQLite's
    documentation calls it)."""

    def __init__(self, files: Mapping[str, bytes | Kept] | None = None) -> None:
        self.changes: list[dict[str, Inode | None]] = []  # of names, not synced
        self.durable: dict[str, Inode] = {}
        self.before: Callable[[], None] | None = None
        self.operations = 0
        self.operations_left = -1  # before the power is cut
        self.capacity: int | None = None  # in bytes: behind it, the disk is full
        self.lies: frozenset[str] = frozenset()
        self.spoils_neighbours = False
        super().__init__(files)

    def become(self, files: Mapping[str, bytes | Kept]) -> None:
        self.changes = []
        self.durable = {}
        super().become(files)
        self.durable = dict(self.inodes)
        self.operations_left = -1

    def like_this(self, files: Mapping[str, bytes | Kept]) -> "SimulatedDisk":
        """Another disk of the same make."""
        disk = SimulatedDisk(files)
        disk.preallocates = self.preallocates
        disk.lies = self.lies
        disk.spoils_neighbours = self.spoils_neighbours
        return disk

    def after_kill(self, *, writeback_fails: bool) -> None:
        """The process is gone, the page cache is not. A page that could not be written back is marked clean."""
        self._fds.clear()
        for inode in self.inodes.values():
            inode.locked.clear()
            if writeback_fails:
                inode.forget()
        self.operations_left = -1

    def _begin(self, operation: str, path: str) -> None:
        if self.operations_left == 0:
            raise PowerCut
        self.operations_left -= 1
        self.operations += 1
        if self.before is not None:
            self.before()
        super()._begin(operation, path)

    def _set(self, change: dict[str, Inode | None]) -> None:
        self.changes.append(change)
        super()._set(change)

    def _inodes_in_use(self) -> Iterable[Inode]:
        """Also those that a power cut may bring back."""
        yield from super()._inodes_in_use()
        yield from self.durable.values()
        yield from (inode for change in self.changes for inode in change.values() if inode is not None)

    def _move(self, inside: dict[str, Inode], source: str, target: str) -> None:
        """What was not safe in it before is not safe afterwards, and may be missing in its new place."""
        safe = {path: inode for path, inode in inside.items() if self.durable.get(path) is inode}
        super()._move(safe, source, target)
        for path in inside.keys() - safe.keys():
            del self.inodes[path]
            self._set({target + path[len(source) :]: inside[path]})

    def _put(self, inode: Inode, data: bytes, offset: int) -> None:
        assert inode.data is not None
        size = len(inode.data)
        missing = self._missing(offset + len(data) - size)
        data = data[: max(0, len(data) - missing)]
        super()._put(inode, data, offset)
        self._touch(inode, min(offset, size), offset + len(data))
        self._resized(inode, size)
        if missing:
            raise self._failure(errno.ENOSPC)

    def _resize(self, inode: Inode, size: int) -> None:
        assert inode.data is not None
        before = len(inode.data)
        if self._missing(size - before):
            raise self._failure(errno.ENOSPC)
        super()._resize(inode, size)
        if size < before:  # the rest of the sector that the file now ends in is zeroed
            self._touch(inode, size, min(before, -(-size // SECTOR) * SECTOR))
        else:  # behind what was synced there are zeros anyway
            self._touch(inode, before, min(size, len(inode.synced)))
        self._resized(inode, before)

    def _room(self, growth: int) -> int:
        return growth - self._missing(growth)

    def _missing(self, growth: int) -> int:
        """How many bytes of it there is no space for."""
        if self.capacity is None or growth <= 0:
            return 0
        return min(growth, max(0, self.used() + growth - self.capacity))

    def _resized(self, inode: Inode, before: int) -> None:
        assert inode.data is not None
        if len(inode.data) != before:
            inode.sizes.append(len(inode.data))
            inode.blur = None

    def _touch(self, inode: Inode, start: int, end: int) -> None:
        data = inode.data
        assert data is not None
        inode.blur = None
        for sector in range(start // SECTOR, (end + SECTOR - 1) // SECTOR):
            at = sector * SECTOR
            version = Version(
                bytes(data[at : at + SECTOR]).ljust(SECTOR, b"\0"), max(start - at, 0), min(end - at, SECTOR)
            )
            inode.written.setdefault(sector, []).append(version)

    def sync(self, fd: int) -> None:
        super().sync(fd)
        if "sync" not in self.lies:
            self._fds[fd][1].sync()

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        if "sync_directory" in self.lies:
            return
        rest: list[dict[str, Inode | None]] = []
        for change in self.changes:
            others: dict[str, Inode | None] = {}
            for name, inode in change.items():
                if _folder(change, name) != path:
                    others[name] = inode
                elif inode is None:
                    self.durable.pop(name, None)
                else:
                    self.durable[name] = inode
            if others:
                rest.append(change.without(others) if isinstance(change, Move) else others)
        self.changes = rest


def _no_one() -> object:
    return None


def _frozen(data: bytes | bytearray | None) -> bytes | None:
    return None if data is None else bytes(data)


def digest(files: Iterable[tuple[str, bytes]]) -> int:
    """64 bits of names and contents."""
    return whole_digest([part for path, data in files for part in (path.encode(), part_digest(data))])


def whole_digest(parts: Iterable[bytes]) -> int:
    """Of the name of each file and the digest of its content."""
    return int.from_bytes(blake2b(b"".join(parts), digest_size=8).digest(), "little")


@lru_cache(maxsize=1 << 10)  # each holds a whole file: with 1 << 14 a process of the soak grew to a gigabyte
def part_digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
