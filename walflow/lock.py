"""What one process may use at a time, and how it is kept from others.

flock locks an inode, not a name. Who removes a lock file, or restores one from a copy, gives the name to another
inode, and the next process locks that. So a directory that belongs to one process is locked itself, which needs no
file. And the holder compares, while it works, the inode behind the name with its own.
"""

from typing import Final, Self

from walflow.disk import Disk

ATTEMPTS: Final = 10  # at a lock file that others remove and make again meanwhile


class HeldDirectory:
    """A directory, open and locked. `locked`: the file system can lock directories, and this one is."""

    def __init__(self, disk: Disk, path: str, fd: int, *, locked: bool) -> None:
        self.path = path
        self.locked = locked
        self._disk = disk
        self._fd = fd
        self._identity = disk.stat(fd).identity

    def __repr__(self) -> str:
        return f"<HeldDirectory {self.path}{'' if self.locked else ', not locked'}>"

    @classmethod
    def take(cls, disk: Disk, path: str) -> Self | None:
        """None: another process has it. Raises OSError if it cannot be opened."""
        fd = disk.hold_directory(path)
        try:
            if not disk.lock(fd):
                disk.let_go(fd)
                return None
        except OSError:  # this file system locks files alone, if it locks at all
            return cls(disk, path, fd, locked=False)
        return cls(disk, path, fd, locked=True)

    def is_in_place(self) -> bool:
        """Whether the path still names this directory. False: it was moved, replaced or removed."""
        return self._disk.identity(self.path) == self._identity

    def release(self) -> None:
        self._disk.let_go(self._fd)


class LockFile:
    """A file that is made to be locked."""

    def __init__(self, disk: Disk, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd
        self._disk = disk
        self._identity = disk.stat(fd).identity

    def __repr__(self) -> str:
        return f"<LockFile {self.path}>"

    @classmethod
    def take(cls, disk: Disk, path: str) -> Self | None:
        """Makes it if it is missing. None: another process has it. Raises OSError."""
        fd = _locked(disk, path)
        return None if fd is None else cls(disk, path, fd)

    def is_in_place(self) -> bool:
        """Whether it is still the file that another process would try to lock."""
        return self._disk.identity(self.path) == self._identity

    def renew(self) -> bool:
        """Locks the file that has its name now, and makes it if there is none. False: another process has that one.
        Raises OSError: the old one is still held."""
        fd = _locked(self._disk, self.path)
        if fd is None:
            return False
        self._disk.close(self.fd)
        self.fd = fd
        self._identity = self._disk.stat(fd).identity
        return True

    def release(self) -> None:
        self._disk.close(self.fd)


def holder(disk: Disk, path: str) -> str:
    """Who has the lock file at `path`, for people: the file says so."""
    try:
        fd = disk.open(path)
    except OSError:
        return "another process"
    try:
        pid = disk.read(fd, 32, 0).strip()
    except OSError:
        return "another process"
    finally:
        disk.close(fd)
    return f"process {pid.decode()}" if pid.isdigit() else "another process"


def _locked(disk: Disk, path: str) -> int | None:
    for _ in range(ATTEMPTS):
        fd = disk.open(path, create=True)
        try:
            if not disk.lock(fd):
                disk.close(fd)
                return None
            if disk.identity(path) == disk.stat(fd).identity:
                return fd
        except BaseException:
            disk.close(fd)
            raise
        disk.close(fd)  # removed between the two: it would lock nothing
    return None
