"""Recovery: finds out what a directory contains when its log is opened, after any kind of end or damage.

Old chunks are trusted by their headers; their records are verified when they are read. Only the tail is read here
(tail.py). The log then continues in a new chunk. Recovery may be interrupted at any point and done again.

A relaxed log, one that acks before it syncs, may have used positions that left no trace. So may any log whose end
cannot be read. These positions must not be used again, because sinks identify events by them. So the log continues
`SKIP` positions higher, and the positions between count as acked.
"""

import uuid
from dataclasses import asdict, dataclass, field
from typing import Final

from walflow.durable import replace
from walflow.errors import ReadFailed, Unusable
from walflow.wal.chunk import Chunk
from walflow.wal.directory import Directory
from walflow.wal.format import (
    INTERVAL,
    META,
    MODES,
    NEVER,
    NO_STAMP,
    SKIP,
    SLOT,
    SYNCED,
    NewerVersion,
    Slot,
    has_history,
    pack_meta,
    unpack_meta,
    unpack_slot,
)
from walflow.wal.marks import Marks
from walflow.wal.opening.note import Note
from walflow.wal.opening.settle import settle
from walflow.wal.opening.survey import Sheet, collect, survey
from walflow.wal.opening.tail import Tail
from walflow.wal.quarantine import Gap, Losses
from walflow.world import monotonic

ODD_FILESYSTEMS: Final = ("nfs", "fuse", "9p", "cifs", "smb", "tmpfs", "ramfs")


@dataclass
class Recovery:
    """The result of recovery: what it found and did."""

    low: int = 0
    durable: int = 0
    backlog: int = 0  # positions that will be delivered
    chunks: int = 0
    torn_bytes: int = 0
    torn_records: int = 0
    gaps: list[Gap] = field(default_factory=list[Gap])
    notes: list[Note] = field(default_factory=list[Note])
    ms: float = 0.0

    def lines(self, *, staying: bool = True) -> list[str]:
        """Lines for a person; none if there is nothing to report.
        `staying`: also what the next start will find again."""
        torn = f"cut {self.torn_records} records, {self.torn_bytes} bytes, that were never synced"
        notes = [str(note) for note in self.notes if staying or not note.stays]
        return [*notes, *([torn] if self.torn_records else []), *map(str, self.gaps)]

    def as_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        return {
            **asdict(self),
            "notes": [str(note) for note in self.notes],
            "gaps": [gap._asdict() for gap in self.gaps],
        }


class Found:
    """The state from which a log continues. `settled`: both slots of the cursor on disk say all of it. `sync`: the
    mode of its last writer, SYNCED if it was closed."""

    def __init__(self, directory: Directory, uuid: bytes, cursor: int, slots: list[Slot]) -> None:
        newest = max(slots, default=Slot(0, 0, 0))
        self.uuid = uuid
        self.history = False  # whether the directory says that it may have one
        self.cursor = cursor  # descriptor
        self.generation = newest.generation
        self.acked = Marks(newest.low, newest.ranges)
        self.losses = Losses(directory, self.acked)
        self.sync = newest.sync
        self.durable = max(newest.durable, newest.low)
        self.known = max(newest.durable, newest.low, newest.written)  # durable, or written, as the cursor says
        self.written = max([newest.written, *(last for _, last in newest.ranges)])
        self.dropped = newest.dropped_events, newest.dropped_bytes
        self.commit = 1  # number of the next one
        self.last_ns = NO_STAMP  # of the records at its end
        self.endless = False  # what stood at its end cannot be read
        self.unsafe_from: int | None = None  # see Log.unsafe_from
        self.chunks: list[Chunk] = []
        self.recovery = Recovery()
        said = [slot[1:] for slot in slots]  # but for the generation
        self.settled = len(said) == 2 and said[0] == said[1] and newest.sync == SYNCED

    @property
    def relaxed(self) -> bool:
        """The log was not closed, and acked events may not have been synced."""
        return self.sync in (INTERVAL, NEVER)

    @property
    def skips(self) -> bool:
        """Positions may have been used that left no trace."""
        return self.relaxed or self.endless


def recover(directory: Directory) -> Found:
    """Runs recovery. The directory is locked from here on, unless this raises."""
    started = monotonic()
    directory.acquire()
    cursor: int | None = None
    try:
        notes = _odd_filesystem(directory)
        said, history = _read_meta(directory)  # before anything is written: a newer walflow's log stays as it is
        sheets = survey(directory, notes)
        cursor, written = _open_cursor(directory)
        identity = said or _identify(directory, sheets, [log for log, _ in written], notes)
        found = Found(directory, identity, cursor, [slot for log, slot in written if log == identity])
        found.history = history
        chunks = collect(directory, identity, sheets, notes)
        _without_cursor(found, chunks, notes)
        _read_tail(directory, found, chunks, _named(sheets, found, chunks))
        found.endless |= _has_lost_its_last(sheets, found)
        if found.relaxed:
            _tell_unsynced(found, notes)
    except BaseException as error:
        if cursor is not None:
            directory.disk.close(cursor)
        directory.release()
        if isinstance(
            error, ReadFailed
        ):  # it may be read at the next start; this one would take what is whole for lost
            raise Unusable(str(error)) from error
        if isinstance(error, OSError):
            raise directory.unusable("", f"recovery failed: {error}") from error
        raise
    found.recovery.notes += notes
    _sum_up(found, started)
    if found.skips:
        _skip(found)
    return found


def _skip(found: Found) -> None:
    found.acked.add(found.durable + 1, found.durable + SKIP)
    found.durable += SKIP
    found.settled = False


def _odd_filesystem(directory: Directory) -> list[Note]:
    kind = directory.disk.filesystem(directory.path)
    if kind.startswith(ODD_FILESYSTEMS):
        what = f"{directory.path} is on {kind}, where a sync may promise less than on a local disk"
        return [Note("", what, damage=False, stays=True)]
    return []


def _open_cursor(directory: Directory) -> tuple[int, list[tuple[bytes, Slot]]]:
    """Makes the cursor's file. It never grows later, so acks can be stored on a full disk."""
    try:
        fd = directory.disk.open(directory.file("cursor"), create=True)
    except OSError as error:
        raise directory.cannot_open("cursor", error) from error
    try:
        if directory.disk.stat(fd).size < 2 * SLOT:
            size = directory.disk.stat(fd).size
            directory.write(
                "cursor", fd, [bytes(2 * SLOT - size)], size
            )  # synced with the first slot that is written
            directory.sync_names()
        slots = [directory.read("cursor", fd, SLOT, offset) for offset in (0, SLOT)]
        found = [slot for slot in map(unpack_slot, slots) if slot is not None]
        if len(found) == 2:
            _keep_newest(directory, fd, slots, found)
        return fd, found
    except BaseException:
        directory.disk.close(fd)
        raise


def _keep_newest(directory: Directory, fd: int, slots: list[bytes], found: list[tuple[bytes, Slot]]) -> None:
    """Writes the newer slot again and syncs it. Its writer may have died before the sync, or the sync may have
    failed. Then only the other slot is on disk, and the next write would overwrite it."""
    newest = 0 if found[0][1] > found[1][1] else 1
    directory.write("cursor", fd, [slots[newest]], newest * SLOT)
    directory.sync("cursor", fd)


def _identify(directory: Directory, sheets: list[Sheet], written: list[bytes], notes: list[Note]) -> bytes:
    """The log's uuid, if the file with it is missing or damaged: all other files still contain it."""
    known = {sheet.uuid for sheet in sheets if sheet.header is not None} | set(written)
    if "meta" in directory.disk.names(directory.path):
        notes.append(Note("meta", "was damaged: written again"))
    elif known:
        notes.append(Note("meta", "was missing: written again"))
    if len(known) > 1:
        raise directory.unusable("meta", f"is not sound, and the files are of {len(known)} different logs")
    identity = known.pop() if known else uuid.uuid4().bytes
    write_meta(directory, identity)
    return identity


def _read_meta(directory: Directory) -> tuple[bytes | None, bool]:
    """The log's uuid, and whether it may have a history. None: the file is missing or damaged. Raises Unusable if a
    newer walflow has written it."""
    if "meta" not in directory.disk.names(directory.path):
        return None, False
    try:
        fd = directory.disk.open(directory.file("meta"))
    except OSError as error:
        raise directory.cannot_open("meta", error) from error
    try:
        data = directory.read("meta", fd, META.size + 4, 0)
        identity = unpack_meta(data)
        return identity, identity is not None and has_history(data)
    except NewerVersion as error:
        raise directory.newer("meta") from error
    finally:
        directory.disk.close(fd)


def write_meta(directory: Directory, identity: bytes, *, history: bool = False) -> None:
    replace(directory, "meta", [pack_meta(identity, history=history)])


def _without_cursor(found: Found, chunks: list[Chunk], notes: list[Note]) -> None:
    if found.generation == 0 and chunks:
        found.acked.add(1, chunks[0].first - 1)  # a chunk goes only after everything in it was acked
        notes.append(Note("", "the cursor is missing: everything in the log is delivered again"))
        if any(chunk.relaxed for chunk in chunks):
            found.sync = NEVER


def _named(sheets: list[Sheet], found: Found, chunks: list[Chunk]) -> int:
    """The position up to which a relaxed log had written, by the names of chunks without a header: a chunk gets its
    name after everything before it was written. A name that is too high is not the log's."""
    top = max([found.durable, *(chunk.first for chunk in chunks)]) + SKIP
    names = [int(sheet.name[:20]) - 1 for sheet in sheets if sheet.header is None]
    return max([name for name in names if name < top], default=0)


def _has_lost_its_last(sheets: list[Sheet], found: Found) -> bool:
    """Whether a file was moved away that has the name of a chunk after all others, and a header that the disk cannot
    read."""
    last = found.chunks[-1].name if found.chunks else ""
    return any(sheet.unreadable and sheet.name > last for sheet in sheets)


def _tell_unsynced(found: Found, notes: list[Note]) -> None:
    mode = next(name for name, sync in MODES.items() if sync == found.sync)
    what = f'it was not closed, and sync was "{mode}": if the power was cut, events acked after position'
    rest = "may be lost without a trace; if only walflow died, none is lost"
    last = found.chunks[-1].last if found.chunks else found.durable
    notes.append(Note("", f"{what} {last} {rest}", damage=False))


def _read_tail(directory: Directory, found: Found, chunks: list[Chunk], named: int) -> None:
    for chunk in chunks:
        found.acked.add(chunk.wanted, chunk.first - 1)
    written = max(found.written, named) if found.relaxed else 0
    tail = Tail.read(directory, chunks, found.acked, found.durable, written=written, relaxed=found.relaxed)
    try:
        for gap, pages in tail.lost:
            for first, last in found.acked.missing(gap.first, gap.last) if pages is None else [(gap.first, gap.last)]:
                found.losses.add(gap._replace(first=first, last=last), pages)
        for first, last in tail.skipped:
            found.acked.add(first, last)
        found.endless = tail.endless and bool(found.losses.gaps)  # at the next start they are known
        found.last_ns = tail.last_ns
        found.settled &= not settle(directory, tail) and not found.losses.gaps
        found.unsafe_from = found.durable + 1 if tail.unsafe else None
    finally:
        tail.close()
    found.chunks = tail.chunks
    found.durable = tail.durable
    found.commit = tail.commit
    found.recovery.torn_bytes = tail.torn_bytes
    found.recovery.torn_records = tail.torn_records


def _sum_up(found: Found, started: float) -> None:
    recovery = found.recovery
    recovery.low = found.acked.low
    recovery.durable = found.durable
    recovery.backlog = found.durable - found.acked.low - found.acked.above
    recovery.chunks = len(found.chunks)
    recovery.gaps += found.losses.gaps
    recovery.ms = round((monotonic() - started) * 1000, 1)
