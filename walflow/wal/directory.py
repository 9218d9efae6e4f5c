"""The log's operations on its directory. Each error of the disk gets a name for its situation here, once.

After a full disk, no event was acked and nothing has to be undone, so the caller may try again. After any other
failed write, and after any failed sync, the content of the disk is unknown: this log is over (`FailStop`), and every
later attempt gets the same error.
"""

import errno
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from walflow.disk import Disk, remedy
from walflow.errors import DirectoryLocked, DiskFull, FailStop, ReadFailed, Unusable
from walflow.lock import HeldDirectory, LockFile, holder

FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
NO_DESCRIPTOR: Final = {errno.EMFILE, errno.ENFILE}
FAILING: Final = {
    errno.EIO,
    errno.ENXIO,
    errno.EUCLEAN,
    errno.EBADMSG,
    errno.ESTALE,
    errno.ETIMEDOUT,
    errno.EREMOTEIO,
}
CANNOT_ALLOCATE: Final = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


class Directory:
    """Its methods may be called from the thread that flushes; they use only descriptors and names. `gives_up`: what
    the disk cannot read counts as lost, because an operator has said so, or only looks.
    Otherwise it is not known, and is read again."""

    def __init__(self, path: str, disk: Disk, *, gives_up: bool = False) -> None:
        self.path = path
        self.disk = disk
        self.gives_up = gives_up
        self.given_up: set[str] = set()  # names of files that could not be read in full
        self._start = os.path.join(path, "")
        self._place: HeldDirectory | None = None
        self._lock: LockFile | None = None
        self._stopped: FailStop | None = None

    def __repr__(self) -> str:
        return f"<Directory {self.path!r}>"

    @property
    def failure(self) -> FailStop | None:
        """The write or sync that failed. Nothing is written after it."""
        return self._stopped

    def file(self, name: str) -> str:
        return self._start + name if name else self.path

    def acquire(self) -> None:
        """Makes the directory if it is missing, and locks it for this process: the directory itself, and LOCK, which
        older versions lock alone."""
        try:
            self.disk.makedir(self.path)
            self._sync_path()
        except OSError as error:
            raise self._no_directory(error) from error
        try:
            self._hold()
            self._take()
        except BaseException:
            self.release()
            raise

    def _sync_path(self) -> None:
        """Syncs the directory and its parents: a process that was killed may have made or removed names and not
        synced them."""
        path = os.path.abspath(self.path)
        try:
            self.disk.sync_directory(path)
            while (parent := os.path.dirname(path)) != path:
                path = parent
                self.disk.sync_directory(path)
        except PermissionError:
            pass  # not ours, so it was there before

    def _hold(self) -> None:
        """Keeps the directory open, so that acked chunks can be deleted even if no descriptor is left."""
        try:
            self._place = HeldDirectory.take(self.disk, self.path)
        except OSError as error:
            raise self.cannot_open("", error) from error
        if self._place is None:
            raise self._locked()

    def _take(self) -> None:
        try:
            self._lock = lock = LockFile.take(self.disk, self.file("LOCK"))
        except OSError as error:
            raise self.cannot_open("LOCK", error) from error
        if lock is None:
            raise self._locked()
        pid = _pid()
        self.write("LOCK", lock.fd, [pid], 0)
        self.truncate("LOCK", lock.fd, len(pid))

    def _locked(self) -> DirectoryLocked:
        return DirectoryLocked(f"{self.path} is in use by {holder(self.disk, self.file('LOCK'))}")

    def release(self) -> None:
        if self._place is not None:
            self._place.release()
            self._place = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def check_place(self) -> None:
        """Raises FailStop if the path names another directory by now, or none: nobody would find what is written. For
        any thread."""
        if self._place is None:
            return
        try:
            there = self._place.is_in_place()
        except OSError as error:
            raise self._stop("stat", "", error) from error
        if not there:
            self._stopped = FailStop(
                f"{self.path} was moved, replaced or removed while the log was in use: the log is where the "
                "directory is now; move it back and start again"
            )
            raise self._stopped

    def check_lock(self) -> None:
        """Locks LOCK again if it was removed or replaced. Raises FailStop if another process has locked the new one.
        One thread at a time."""
        place, lock = self._place, self._lock
        if place is None or lock is None:
            return
        try:
            if lock.is_in_place():
                return
            kept = lock.renew()
        except OSError as error:
            if place.locked:  # that is enough; the next checkpoint may find room for the file
                return
            raise self._failed("create", "LOCK", error) from error
        if not kept:
            who = holder(self.disk, lock.path)
            self._stopped = FailStop(
                f"{lock.path} was replaced while the log was in use, and {who} has locked the new one"
            )
            raise self._stopped
        with suppress(OSError):  # for people
            self.disk.write(lock.fd, [_pid()], 0)
            self.disk.truncate(lock.fd, len(_pid()))

    def unusable(self, name: str, what: str) -> Unusable:
        return Unusable(f"{self.file(name)}: {what}; run: walflow wal repair {shlex.quote(self.path)}")

    def _no_directory(self, error: OSError) -> DiskFull | Unusable:
        """The error for a missing directory: there is nothing to repair."""
        if error.errno in FULL:
            return DiskFull(f"{self.path}: cannot be made: {error.strerror}")
        what = f"cannot be made a directory: {error.strerror}"
        remedy = self._permit(error) or "move away the files there, or give the log another path"
        return Unusable(f"{self.path}: {what}; {remedy}")

    def cannot_open(self, name: str, error: OSError) -> DiskFull | Unusable:
        if error.errno in FULL:
            return DiskFull(f"{self.file(name)}: cannot open: {error.strerror}")
        return self.refused(name, "opened", error)

    def refused(self, name: str, done: str, error: OSError) -> Unusable:
        """The error for a file that the system does not let this process use:
        `repair` would not be allowed to either."""
        what = f"cannot be {done}: {error.strerror}"
        remedy = self._permit(error)
        return Unusable(f"{self.file(name)}: {what}; {remedy}") if remedy else self.unusable(name, what)

    def _permit(self, error: OSError) -> str | None:
        return remedy(error, self.path, "give the log another path")

    def newer(self, name: str) -> Unusable:
        return Unusable(f"{self.file(name)}: written by a newer walflow; run that version on {self.path}")

    def create(self, name: str) -> int:
        self._check()
        try:
            return self.disk.open(self.file(name), exclusive=True)
        except OSError as error:
            raise self._failed("create", name, error) from error

    def open(self, name: str) -> int:
        try:
            return self.disk.open(self.file(name))
        except OSError as error:
            raise self._failed("open", name, error) from error

    def open_to_read(self, name: str) -> int:
        """For any thread. -1: the file is gone, with its records. A file that exists and cannot be opened is not
        lost: raises DiskFull; ReadFailed if the disk fails; or FailStop, because another start may be able to open
        it. The same for one that went with the directory."""
        self.check_place()
        try:
            return self.disk.open(self.file(name))
        except FileNotFoundError:
            return -1
        except OSError as error:
            if error.errno in FULL:
                raise DiskFull(f"{name}: cannot open: {error.strerror}") from error
            if error.errno in FAILING:
                raise self.cannot_read(name, 0, error) from error
            raise FailStop(f"{self.file(name)}: open failed: {error.strerror}") from error

    def read(self, name: str, fd: int, size: int, offset: int) -> bytes:
        """For any thread. Raises ReadFailed. If it gives up, what cannot be read is empty."""
        try:
            return self.disk.read(fd, size, offset)
        except OSError as error:
            if self.gives_up:
                self.given_up.add(name)
                return b""
            raise self.cannot_read(name, offset, error) from error

    def cannot_read(self, name: str, offset: int, error: OSError) -> ReadFailed:
        what = f"{self.file(name)}: the disk cannot read it at byte {offset}: {error.strerror}"
        return ReadFailed(
            f"{what}; if that stays so, stop walflow and run: walflow wal repair {shlex.quote(self.path)}"
        )

    def allocate(self, name: str, fd: int, size: int) -> None:
        """Raises DiskFull: then the file is as it was, for what was reserved would be missing elsewhere."""
        self._check()
        before = self.disk.stat(fd).size
        try:
            self.disk.allocate(fd, size)
        except OSError as error:
            if error.errno in CANNOT_ALLOCATE:  # where it cannot, the space is found at the write or not at all
                return
            failed = self._failed("allocate", name, error)
            if isinstance(failed, DiskFull):
                self.truncate(name, fd, before)
            raise failed from error

    def write(self, name: str, fd: int, parts: Sequence[bytes], offset: int) -> None:
        self._check()
        try:
            self.disk.write(fd, parts, offset)
        except OSError as error:
            raise self._failed("write", name, error) from error

    def truncate(self, name: str, fd: int, size: int) -> None:
        self._check()
        try:
            self.disk.truncate(fd, size)
        except OSError as error:
            raise self._failed("truncate", name, error) from error

    def rename(self, source: str, target: str) -> None:
        self._check()
        try:
            self.disk.rename(self.file(source), self.file(target))
        except OSError as error:
            raise self._failed("rename", source, error) from error

    def unlink(self, name: str) -> None:
        self._check()
        try:
            self.disk.unlink(self.file(name))
        except OSError as error:
            raise self._failed("unlink", name, error) from error

    def sync(self, name: str, fd: int) -> None:
        self._check()
        try:
            self.disk.sync(fd)
        except OSError as error:
            raise self._stop("sync", name, error) from error

    def sync_names(self) -> None:
        self._check()
        try:
            self.disk.sync_directory(self.path)
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:  # it could not even be opened, so no sync has failed
                raise self._failed("open", "", error) from error
            raise self._stop("sync", "", error) from error

    def close(self, fd: int) -> None:
        self.disk.close(fd)

    def _check(self) -> None:
        if self._stopped is not None:
            raise self._stopped

    def _failed(self, what: str, name: str, error: OSError) -> DiskFull | FailStop:
        if error.errno in FULL:
            return DiskFull(f"{self.file(name)}: cannot {what}: {error.strerror}")
        return self._stop(what, name, error)

    def _stop(self, what: str, name: str, error: OSError) -> FailStop:
        said = f"{self.file(name)}: {what} failed: {error.strerror or error}"
        remedy = self._permit(error)
        self._stopped = FailStop(f"{said}; {remedy}" if remedy else said)
        return self._stopped


def _pid() -> bytes:
    return b"%d\n" % os.getpid()
