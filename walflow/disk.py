"""Every file operation whose order or durability matters goes through `Disk`, so that a simulated one can stand
in for it and say what a power cut may leave. Synchronous; called from any thread."""

import errno
import fcntl
import os
import shlex
import stat
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from walflow.handover import NO_LOCKS, HandedLocks

IOV_MAX = 1024  # Linux UIO_MAXIOV: more slices than this a writev refuses
LOOKS: Final = (
    128 << 10
)  # bytes between two looks for what the page cache has: as much as Linux reads ahead by default


DENIED: Final = (errno.EACCES, errno.EPERM)


def remedy(error: OSError, path: str, otherwise: str) -> str | None:
    """Advice for an operator if the system does not let this process use `path`, otherwise `otherwise`; None if the
    files themselves are damaged."""
    if error.errno == errno.EROFS:
        return f"the file system is read-only: mount it read-write (dmesg says why it is not), or {otherwise}"
    if error.errno in DENIED:
        user, quoted = os.geteuid(), shlex.quote(path)
        return (
            f"walflow runs as user {user}: make it the owner (chown -R {user} {quoted}) and let it search the "
            f"directories above, or {otherwise}"
        )
    return None


class Stat(NamedTuple):
    """Facts about a file. `identity` is (device, inode); `links`: the number of its names, 0 after it was removed.
    `mode`: its kind and who may use it, as `stat` has it. `changed_ns`: when it was written to last, by the wall
    clock."""

    size: int
    identity: tuple[int, int]
    links: int = 1
    mode: int = stat.S_IFREG
    changed_ns: int = 0

    @property
    def is_file(self) -> bool:
        """A regular one."""
        return stat.S_ISREG(self.mode)

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)


class DirectoryEntry(NamedTuple):
    """Of a directory. `is_directory`: or a link to one."""

    name: str
    inode: int
    is_file: bool
    is_link: bool
    is_directory: bool


class Landed(NamedTuple):
    """The place of appended bytes: from `start` up to `end`."""

    start: int
    end: int


class Disk(Protocol):
    """A file is named by the descriptor that `open` gave, a name by its path."""

    preallocates: bool  # worth calling `allocate`

    def makedir(self, path: str, mode: int = 0o700) -> None:
        """Makes a directory and its parents. No error if it exists."""
        ...

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        """Read and write. `create`: if it is missing; `exclusive`: only if it is missing. Raises ELOOP for a link."""
        ...

    def open_to_read(self, path: str) -> int:
        """What others write. Links are followed, and what is no file is opened, too: `stat` says what it is."""
        ...

    def close(self, fd: int) -> None: ...
    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Shorter only at the end of the file."""
        ...

    def cached(self, fd: int, size: int, offset: int) -> bool:
        """Whether a read of these bytes would wait for no device, from a look at some of them. True as well where the
        file system does not say."""
        ...

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        """Writes all of it, or raises OSError after writing any part of the beginning."""
        ...

    def append(self, fd: int, parts: Sequence[bytes]) -> Landed:
        """One write at the end of the file (O_APPEND), wherever other processes have put that by then. It may be
        short; OSError means that nothing was written. `write` is not for this descriptor any more."""
        ...

    def sync(self, fd: int) -> None:
        """fdatasync: the bytes, and the size as far as reading them back needs it."""
        ...

    def sync_directory(self, path: str) -> None:
        """The names in it."""
        ...

    def hold_directory(self, path: str) -> int:
        """Opens it until `let_go`, so that syncing it needs no descriptor that there may not be then. The descriptor
        is for `lock` and `stat`."""
        ...

    def let_go(self, fd: int) -> None: ...

    def allocate(self, fd: int, size: int) -> None:
        """Reserves space from 0 to `size`; raises ENOSPC now rather than at a sync. Then some of it may be reserved
        all the same, and the file larger (ext4)."""
        ...

    def truncate(self, fd: int, size: int) -> None: ...
    def rename(self, source: str, target: str) -> None:
        """A file, or a directory with all that is in it."""
        ...

    def unlink(self, path: str) -> None:
        """No error if it is gone."""
        ...

    def remove_directory(self, path: str) -> None:
        """An empty one."""
        ...

    def names(self, path: str) -> list[str]: ...
    def entries(self, path: str) -> list[DirectoryEntry]:
        """In no order."""
        ...

    def stat(self, fd: int) -> Stat: ...
    def status(self, path: str, *, follow_links: bool = True) -> Stat:
        """Of what now has this name. Raises OSError."""
        ...

    def look(self, path: str) -> Stat | None:
        """Of the file that now has this name. None: there is none, or it is no regular file."""
        ...

    def identity(self, path: str) -> tuple[int, int] | None:
        """Of the file or directory that now has this name, as `stat` gives it. None: there is none."""
        ...

    def is_file(self, path: str) -> bool:
        """A regular file, not a link to one."""
        ...

    def lock(self, fd: int) -> bool:
        """For this descriptor alone, until it is closed. False: another one has it.
        OSError: this file system cannot."""
        ...

    def filesystem(self, path: str) -> str:
        """What kind of file system `path` lies on ("ext4", "nfs4"); empty where that is unknown."""
        ...


class RealDisk:
    """The operating system's."""

    preallocates = True
    _locks = NO_LOCKS
    _held: Mapping[str, int] = {}  # directories, and the descriptor of each; replaced, never changed

    def __init__(self, locks: HandedLocks = NO_LOCKS) -> None:
        self._locks = locks

    def makedir(self, path: str, mode: int = 0o700) -> None:
        os.makedirs(path, mode=mode, exist_ok=True)

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        if create or exclusive:
            flags |= os.O_CREAT
        if exclusive:
            flags |= os.O_EXCL
        return os.open(path, flags, mode)

    def open_to_read(self, path: str) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)

    def close(self, fd: int) -> None:
        self._locks.closed(fd)
        os.close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        data = os.pread(fd, size, offset)
        while len(data) < size:
            more = os.pread(fd, size - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def cached(self, fd: int, size: int, offset: int) -> bool:
        try:
            for at in (*range(offset, offset + size, LOOKS), offset + size - 1):
                os.preadv(fd, [bytearray(1)], at, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError:  # EOPNOTSUPP: tmpfs, and others that have no such read
            return True
        return True

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        for first in range(0, len(parts), IOV_MAX):
            group = parts[first : first + IOV_MAX]
            wanted = sum(map(len, group))
            written = os.pwritev(fd, group, offset)
            if written < wanted:  # a short write says why only when the rest is tried
                rest = b"".join(group)
                while written < wanted:
                    written += os.pwrite(fd, memoryview(rest)[written:], offset + written)
            offset += wanted

    def append(self, fd: int, parts: Sequence[bytes]) -> Landed:
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)  # not remembered: a number that is closed is given out again
        if not flags & os.O_APPEND:
            fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_APPEND)
        written = os.writev(fd, parts if len(parts) <= IOV_MAX else [b"".join(parts)])
        end = os.lseek(fd, 0, os.SEEK_CUR)  # the descriptor is ours alone, so this is where our bytes end
        return Landed(end - written, end)

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    def sync_directory(self, path: str) -> None:
        held = self._held.get(path)
        if held is not None:
            os.fsync(held)
            return
        fd = _open_directory(path)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def hold_directory(self, path: str) -> int:
        fd = _open_directory(path)
        self._held = {**self._held, path: fd}
        return fd

    def let_go(self, fd: int) -> None:
        self._held = {path: held for path, held in self._held.items() if held != fd}
        self._locks.closed(fd)
        os.close(fd)

    def allocate(self, fd: int, size: int) -> None:
        os.posix_fallocate(fd, 0, size)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def names(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def entries(self, path: str) -> list[DirectoryEntry]:
        with os.scandir(path) as found:
            return [
                DirectoryEntry(
                    one.name,
                    one.inode(),
                    one.is_file(follow_symlinks=False),
                    one.is_symlink(),
                    _leads_to_directory(one),
                )
                for one in found
            ]

    def stat(self, fd: int) -> Stat:
        return _stat(os.fstat(fd))

    def status(self, path: str, *, follow_links: bool = True) -> Stat:
        return _stat(os.stat(path, follow_symlinks=follow_links))

    def look(self, path: str) -> Stat | None:
        try:
            found = self.status(path, follow_links=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found if found.is_file else None

    def identity(self, path: str) -> tuple[int, int] | None:
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_dev, found.st_ino

    def is_file(self, path: str) -> bool:
        try:
            return stat.S_ISREG(os.lstat(path).st_mode)
        except FileNotFoundError:
            return False

    def lock(self, fd: int) -> bool:
        # flock, not lockf: a POSIX lock is silently granted again to the process that has it
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not self._locks.take(fd):
                return False
        self._locks.took(fd)
        return True

    def filesystem(self, path: str) -> str:
        path = os.path.realpath(path)
        found, length = "", -1
        try:
            with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
                for line in mounts:
                    left, _, right = line.partition(" - ")
                    point = left.split(" ")[4].replace("\\040", " ")
                    inside = path == point or path.startswith(point.rstrip("/") + "/")
                    if inside and len(point) >= length:  # of two mounts on one point the later one is seen
                        found, length = right.split(" ")[0], len(point)
        except (OSError, IndexError):
            return ""
        return found


def _stat(found: os.stat_result) -> Stat:
    return Stat(found.st_size, (found.st_dev, found.st_ino), found.st_nlink, found.st_mode, found.st_mtime_ns)


def _leads_to_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link in a circle


def _open_directory(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


class RecordingDisk(RealDisk):
    """The operating system's, keeping (operation, path or None, bytes) in order. For tests of order."""

    def __init__(self) -> None:
        self.operations: list[tuple[str, str | None, int]] = []
        self._paths: dict[int, str] = {}

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        fd = super().open(path, create=create, exclusive=exclusive, mode=mode)
        self._paths[fd] = path
        self.operations.append(("open", path, 0))
        return fd

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        super().write(fd, parts, offset)
        self.operations.append(("write", self._paths.get(fd), sum(map(len, parts))))

    def append(self, fd: int, parts: Sequence[bytes]) -> Landed:
        landed = super().append(fd, parts)
        self.operations.append(("append", self._paths.get(fd), landed.end - landed.start))
        return landed

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.operations.append(("sync", self._paths.get(fd), 0))

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self.operations.append(("sync_directory", path, 0))

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        self.operations.append(("truncate", self._paths.get(fd), size))

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.operations.append(("rename", target, 0))

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self.operations.append(("unlink", path, 0))
