"""A file that is written at its end, batch by batch; each batch is written completely or not at all. All functions
here may block: they run on the sink's thread."""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from walflow import Block, WalflowError, WrittenPositions
from walflow.files import Disk, Landed
from walflow.world import monotonic, sleep

MODE: Final = 0o666  # less the umask, as any program's output
ATTEMPTS: Final = 3  # to write a batch that another process takes away
MOMENT: Final = 0.01  # seconds: a write that another process has begun is over by then
GRACE: Final = 1.0  # seconds: logrotate makes the new file right after the rename, and wants no other one there


class CannotWrite(WalflowError):
    """The file cannot be written now; later it may be."""


@dataclass(slots=True)
class FileBatch:
    """Blocks that are written together. `separator`: what stands between them and an unended line before them,
    empty where their framing has none. `adds`: their positions;
    `acked_below`: per log, what will not be asked for again."""

    blocks: list[Block] = field(default_factory=list[Block])
    parts: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    separator: bytes = b""
    adds: WrittenPositions = field(default_factory=WrittenPositions)
    acked_below: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, block: Block, *, remember: bool) -> None:
        data = block.frames.data
        if not self.blocks and block.frames.framing.name == "separate":
            self.separator = block.frames.framing.join([b""])
        self.blocks.append(block)
        self.parts.append(data)
        self.size += len(data)
        if remember and (origin := block.origin) is not None:
            self.acked_below[origin.log] = origin.acked_below
            # of a block that lost events on its way, which positions it still holds is not known
            if block.frames.count == origin.last - origin.first + 1:
                self.adds.add(origin.part, origin.first, origin.last)


class Output:
    """The modes that keep no memory: `truncate`, here.

    `size` is where the next batch goes. Other processes may write to the file too: all writes are at its end, so what
    they append is kept, and what they cut is gone. They may also rename it, replace it or remove it: before a batch
    is written and after it was synced, the path must still name this file, or else the file must have another name. A
    batch that went to a file without a name, or was cut off, is written again before it is acked. `notes` are
    messages for the log.
    """

    remembers = False

    def __init__(
        self, path: str, disk: Disk, *, sync: bool, empty: bool, clock: Callable[[], float] = monotonic
    ) -> None:
        self.path = path
        self.size = 0
        self.emptied = not empty
        self.known = WrittenPositions()  # what need not be written again, read at `open`
        self.notes: list[str] = []
        self._disk = disk
        self._sync = sync
        self._clock = clock
        self._fd: int | None = None
        self._identity = (0, 0)
        self._last = b""  # the byte before `size`, where it may be the end of an unended line
        self._grew = False  # what stands before `size` was appended by another process, a moment ago
        self._torn: Landed | None = None  # where bytes of a failed batch may be
        self._renamed_at: float | None = None  # since when the path names no file, and this one has another name
        self._told_of_others = False

    def __repr__(self) -> str:
        state = f"{self.size} bytes" if self._fd is not None else "closed"
        return f"<{type(self).__name__} {self.path} {state}>"

    def open(self) -> None:
        """Raises CannotWrite or OSError, with nothing left open; call it again."""
        if self._fd is not None:
            return
        fd = open_regular(self._disk, self.path)
        try:
            self._start(fd)
        except BaseException:
            self._disk.close(fd)
            raise
        self._fd = fd

    def write(self, batch: FileBatch) -> None:
        """Raises OSError or CannotWrite: nothing of the batch counts as written; call it again."""
        for _ in range(ATTEMPTS):
            fd, size = self._opened()
            if self._torn is not None:
                self._take_back(fd)
                size = self._disk.stat(fd).size
            self._notice_others(fd, size)
            if self._write(fd, batch):
                return
        raise CannotWrite(f"cannot write {self.path}: another process cuts or replaces it again and again")

    def _write(self, fd: int, batch: FileBatch) -> bool:
        """Writes a batch. False: another process has replaced or cut the file again."""
        parts = batch.parts
        if self._is_unended(fd, batch.separator):
            parts = [batch.separator, *parts]
        try:
            end = self._put(fd, parts, batch)
            if not self._is_kept(fd, end):
                self._take_back(fd)
                return False
        except (OSError, CannotWrite):
            self._try_to_take_back(fd)
            raise
        self._torn = None
        self._last = b""
        self._grew = False
        self.size = end
        self._put_is_done()
        return True

    def _is_unended(self, fd: int, separator: bytes) -> bool:
        """Whether the last line is. One that another process is just writing across pages is seen in parts, so an end
        that is new is looked at again."""
        while separator and self._last and self._last != separator:
            if not self._grew:
                return True
            sleep(MOMENT)
            size = self._disk.stat(fd).size
            self._grew = size != self.size
            self._go_behind(fd, size)
        return False

    def reopen(self) -> None:
        """Opens the path again, which may name another file now. Like `open` if it is not open."""
        old = self._fd
        if old is None:
            self.open()
            return
        # the old file stays open until the new one is: else that may get the inode of one that was removed
        fd = open_regular(self._disk, self.path)
        try:
            if self._disk.stat(fd).identity == self._identity:
                self._disk.close(fd)
                return
            self._take_back(old)
            self._end(old, moved=True)
        except BaseException:
            self._disk.close(fd)
            raise
        try:
            self._start(fd)
        except BaseException:
            self._disk.close(fd)
            raise
        finally:
            self._close()
        self._fd = fd

    def close(self) -> None:
        """Closes everything, even if it raises OSError because the end could not be synced."""
        if self._fd is None:
            return
        try:
            self._take_back(self._fd)
            self._end(self._fd, moved=False)
        finally:
            self._close()

    def _start(self, fd: int) -> None:
        if not self._disk.lock(fd):
            raise CannotWrite(f"cannot write {self.path}: another writer holds it")
        if self._sync:
            self._disk.sync_directory(os.path.dirname(self.path) or ".")
        self._begin(fd)
        self._identity = self._disk.stat(fd).identity
        self._torn = None
        self._renamed_at = None
        self._told_of_others = False

    # what appending and overwriting do otherwise

    def _begin(self, fd: int) -> None:
        if not self.emptied:
            self._disk.truncate(fd, 0)
            self.emptied = True
        self._go_behind(fd, self._disk.stat(fd).size)

    def _put(self, fd: int, parts: Sequence[bytes], batch: FileBatch) -> int:
        """Writes the batch. Returns the offset of its end."""
        landed = self._append(fd, parts)
        if self._sync:
            self._disk.sync(fd)
        return landed.end

    def _put_is_done(self) -> None: ...

    def _taken_back(self) -> None: ...

    def _end(self, fd: int, *, moved: bool) -> None:
        self._disk.sync(fd)

    def _close(self) -> None:
        assert self._fd is not None
        self._disk.close(self._fd)
        self._fd = None

    # other processes at the same path

    def _opened(self) -> tuple[int, int]:
        """The file at the path now, and its size. One that was renamed is written on to until SIGHUP, or until
        another one is at the path, which the process that renamed it may be about to make:
        at the latest for a second."""
        if self._fd is not None:
            there = self._disk.look(self.path)
            if there is not None and there.identity == self._identity:
                self._renamed_at = None
                return self._fd, there.size
            own = self._disk.stat(self._fd)
            if there is None:
                if own.links > 0 and not self._is_overdue():
                    return self._fd, own.size
                self.notes.append(f"{self.path} is no longer there, a new one begins")
            elif own.links == 0:
                self.notes.append(f"{self.path} was replaced by another process, and goes on in the new file")
        self.reopen()
        assert self._fd is not None
        return self._fd, self._disk.stat(self._fd).size

    def _is_overdue(self) -> bool:
        now = self._clock()
        if self._renamed_at is None:
            self._renamed_at = now
        return now - self._renamed_at >= GRACE

    def _is_kept(self, fd: int, end: int) -> bool:
        """Whether the bytes that were just written are still in a file that has a name."""
        there = self._disk.look(self.path)
        if there is None or there.identity != self._identity:
            there = self._disk.stat(fd)
        return there.links > 0 and there.size >= end

    def _notice_others(self, fd: int, size: int) -> None:
        if size < self.size:
            self.notes.append(f"{self.path} was cut from {self.size} to {size} bytes by another process")
            self._go_behind(fd, size)
        elif size > self.size:
            self._others_appended(self.size)
            self._go_behind(fd, size)
            self._grew = True

    def _others_appended(self, behind: int) -> None:
        if not self._told_of_others:
            self._told_of_others = True
            self.notes.append(f"{self.path} has bytes that another process appended behind byte {behind}")

    def _go_behind(self, fd: int, size: int) -> None:
        self.size = size
        self._last = self._disk.read(fd, 1, size - 1) if size else b""

    def _append(self, fd: int, parts: Sequence[bytes]) -> Landed:
        length = sum(map(len, parts))
        landed = self._torn = self._disk.append(fd, parts)
        if landed.start > self.size:  # just now
            self._others_appended(self.size)
        while rest := length - (landed.end - landed.start):
            more = self._disk.append(fd, [b"".join(parts)[-rest:]])
            if more.start != landed.end:
                self._torn = more
                raise CannotWrite(
                    f"cannot write {self.path}: another process wrote into the middle of a batch, so a torn line "
                    f"ends at byte {landed.end}"
                )
            landed = self._torn = Landed(landed.start, more.end)
        return landed

    # a failed batch

    def _try_to_take_back(self, fd: int) -> None:
        try:
            self._take_back(fd)
        except OSError:
            pass  # `_torn` stands, so it comes first next time

    def _take_back(self, fd: int) -> None:
        if self._torn is None:
            return
        start, end = self._torn
        size = self._disk.stat(fd).size
        if size > end:  # what stands behind it is another process's, and is not cut
            self.notes.append(
                f"{self.path} has {size - start} bytes from byte {start} on that may begin with a torn line: "
                "another process appended to it while a write failed"
            )
            self._go_behind(fd, size)
        elif size > start:
            self._disk.truncate(fd, start)
            if self._sync:  # else a power cut may put it back, and by then the file may have another name
                self._disk.sync(fd)
        self._torn = None
        self._taken_back()


def open_regular(disk: Disk, path: str) -> int:
    """Raises CannotWrite, with the reason."""
    try:
        if not disk.is_file(path) and (kind := _kind(disk, path)):
            raise CannotWrite(f"cannot write {path}: it is {kind}")
        return disk.open(path, create=True, mode=MODE)
    except OSError as error:
        raise CannotWrite(explain(path, error)) from error


def explain(path: str, error: OSError) -> str:
    directory = os.path.dirname(path)
    match error.errno:
        case errno.ENOENT if directory:
            return f"cannot write {path}: its directory {directory} does not exist"
        case errno.ENOTDIR:
            return f"cannot write {path}: {directory} is not a directory"
        case errno.EACCES | errno.EPERM:
            return f"cannot write {path}: permission denied for user {os.geteuid()}"
        case errno.ELOOP:
            return f"cannot write {path}: it is a symbolic link, name the file it points to"
        case _:
            reason = error.strerror or str(error)
            return f"cannot write {path}: {reason[:1].lower()}{reason[1:]}"


KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link, name the file it points to"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def _kind(disk: Disk, path: str) -> str | None:
    """The kind of a file that is no regular one; None: it does not exist."""
    try:
        mode = disk.status(path, follow_links=False).mode
    except FileNotFoundError:
        return None
    return next((name for test, name in KINDS if test(mode)), None)
