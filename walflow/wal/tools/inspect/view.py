"""What the next start would find in a directory, and which process uses it now."""

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from walflow import world
from walflow.disk import Disk
from walflow.errors import Unusable
from walflow.wal.chunk import Chunk, Pages
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.format import SKIP, SLOT, Slot, unpack_slot
from walflow.wal.mark_file import MAGIC, NAME, is_known
from walflow.wal.marks import Marks
from walflow.wal.opening.recovery import Found, recover
from walflow.wal.opening.survey import NUMBERED
from walflow.wal.slot_file import MARKS_SLOT, Stored, newest
from walflow.wal.tools.inspect.onlooker import Onlooker
from walflow.wal.trail import MAGIC as TRAIL_MAGIC, NAME as TRAIL, ToldRanges, tell

TRIES: Final = 20  # a log in use drops chunks while they are being looked at
NO_LOG: Final = "is not a log: it has no meta, no cursor and no chunk"
NOT_THERE: Final = "there is no log there; the path is the `path` of a `wal` in a flow file"


class NoLogYet(Unusable):
    """A directory without a log in it: a start would make one."""


class View(NamedTuple):
    """A directory as the next start would take it.
    `slots`: those of the cursor, None where one is not sound, or of another log.
    `marks`: what single sinks have acked, by the name in the file. `trail`: what is known of its positions."""

    directory: Directory
    found: Found
    slots: list[Slot | None]
    holder: str
    marks: Stored
    trail: Sequence[ToldRanges]
    disk: Disk  # on which it is

    @property
    def chunks(self) -> list[Chunk]:
        return self.found.chunks

    @property
    def hint(self) -> int:
        """The position up to which all is durable, as the cursor says."""
        return max((max(slot.durable, slot.low) for slot in self.slots if slot is not None), default=0)

    def bytes_from(self, first: int, last: int) -> int:
        """The bytes of the chunks that contain any of these positions."""
        return sum(chunk.synced for chunk in self.chunks if chunk.last >= first and chunk.first <= last)

    @property
    def all_names(self) -> list[str]:
        """In the directory, also of what the next start would remove."""
        return self.disk.names(self.directory.path)

    @property
    def to_do(self) -> list[str]:
        """The changes that the next start makes, as recovery reports them."""
        return self.found.recovery.lines(staying=False)


def look(path: str, disk: Disk | None = None) -> View:
    """Raises Unusable as the next start would, and for a directory that holds no log."""
    path = os.path.normpath(path)
    disk = disk or world.disk()
    _expect_log(path, disk)
    for left in range(TRIES, 0, -1):
        directory = Directory(path, Onlooker(disk), gives_up=True)
        try:
            marked = _slots(directory, NAME, MARKS_SLOT)  # before the cursor, which knows what it says
            trail = _slots(directory, TRAIL, MARKS_SLOT)
            slots = slot_bytes(directory)
            found = recover(directory)
        except Unusable:
            if left == 1 or not holder(path):
                raise
            continue
        directory.disk.close(found.cursor)
        directory.release()
        held_by = holder(path)
        if held_by and found.recovery.gaps and left > 1:  # rather deleted between two looks than lost: look again
            continue
        marks = newest(found.uuid, marked, MAGIC, partial(is_known, known=found.known))
        told = tell(newest(found.uuid, trail, TRAIL_MAGIC))
        if held_by and found.skips:
            _as_it_runs(found)
        return View(directory, found, [_slot(data, found.uuid) for data in slots], held_by, marks, told, disk)
    raise AssertionError("unreachable")


def _as_it_runs(found: Found) -> None:
    """A start would skip positions that left no trace; the process that uses the log knows them."""
    found.durable -= SKIP
    acked = up_to(found.acked, found.durable)
    found.acked = Marks(acked.low, acked.ranges)


def up_to(acked: Acked, last: int) -> Acked:
    """The same, of positions up to `last`."""
    ranges = [(first, min(end, last)) for first, end in acked.ranges if first <= last]
    return Acked(min(acked.low, last), ranges)


def _expect_log(path: str, disk: Disk) -> None:
    try:
        names = [one.name for one in disk.entries(path)]
    except NotADirectoryError:
        raise Unusable(f"{path}: is not a log: it is not a directory") from None
    except FileNotFoundError:
        raise Unusable(f"{path}: {NOT_THERE}") from None
    except OSError as error:
        raise Directory(path, Onlooker(disk)).refused("", "read", error) from error
    if not any(name in ("meta", "cursor") or NUMBERED.fullmatch(name) for name in names):
        raise NoLogYet(f"{path}: {NO_LOG}")


def holder(path: str) -> str:
    """The process that has locked it, as text; empty if there is none. Read from /proc/locks: even a short attempt to
    lock could make a daemon that is just starting fail."""
    locked: list[os.stat_result] = []
    for name in ("LOCK", ""):
        with suppress(OSError):  # LOCK may have been removed; the directory is locked as well
            locked.append(os.stat(os.path.join(path, name), follow_symlinks=not name))
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as lines:
            entries = [fields for line in lines if len(fields := line.split()) >= 6 and fields[1] == "FLOCK"]
    except OSError:
        return ""
    for _, _, _, _, pid, file, *_ in entries:
        major, minor, inode = file.split(":")
        device = os.makedev(int(major, 16), int(minor, 16))
        # btrfs and overlays show a device here that stat does not
        of_it = [one for one in locked if one.st_ino == int(inode) and (one.st_dev == device or pid == _pid(path))]
        if of_it:
            return f"process {pid}" if int(pid) > 0 else "another process"
    return ""


def _pid(path: str) -> str:
    try:
        with open(os.path.join(path, "LOCK"), encoding="ascii", errors="replace") as file:
            return file.read(32).strip()
    except OSError:
        return ""


def _slot(data: bytes, uuid: bytes) -> Slot | None:
    """None: not sound, never written, or of another log."""
    found = unpack_slot(data)
    return found[1] if found is not None and found[0] == uuid else None


def slot_bytes(directory: Directory) -> list[bytes]:
    return _slots(directory, "cursor", SLOT)


def _slots(directory: Directory, name: str, size: int) -> list[bytes]:
    try:
        fd = directory.disk.open(directory.file(name))
    except OSError:
        return [b"", b""]
    try:
        pages = Pages(directory, name, fd, 2 * size)
        return [pages.read(0, size), pages.read(size, size)]
    finally:
        directory.disk.close(fd)
