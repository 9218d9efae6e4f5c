"""A log's directory, looked at from outside: nothing is written, and no lock is taken, so a daemon may have it.

What a start would find is found by recovery itself, on a disk that reads what is there and only notes what it is
told to change. So nothing said here can differ from what a start does.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from walflow.disk import RealDisk
from walflow.errors import Unusable
from walflow.wal.chunk import Chunk, Pages, body_at, header_at, resync
from walflow.wal.directory import Directory
from walflow.wal.format import (
    CHUNK_COPY,
    CHUNK_START,
    SLOT,
    NewerVersion,
    Record,
    Slot,
    unpack_chunk_header,
    unpack_slot,
)
from walflow.wal.quarantine import FOLDER, Gap
from walflow.wal.recovery import Found, recover
from walflow.wal.survey import NUMBERED
from walflow.wal.tail import Damage, Scan

TRIES: Final = 20  # a log in use drops chunks while they are being looked at
PASSING: Final = (": removed", ": renamed", "on a local disk")  # notes of recovery that tell of no damage
LASTING: Final = ("on a local disk", "what the next chunk knows of it")  # notes of what stays as it is
NO_LOG: Final = "is not a log: it has no meta, no cursor and no chunk"

REPORT: Final = re.compile(r"[0-9]{20}-[0-9]{20}\.json")

Read = Callable[[int], None]  # so many more bytes have been looked at


class Onlooker(RealDisk):
    """Reads; what it is told to write, move or remove it only remembers."""

    preallocates = False

    def __init__(self) -> None:
        self._moved: dict[str, str | None] = {}  # where the bytes of a name are; None: as if it were gone

    def makedir(self, path: str) -> None:
        if os.path.lexists(path) and not os.path.isdir(path):
            raise _error(errno.EEXIST, path)

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        there = self._moved.get(path, path)
        missing = there is None or not os.path.lexists(there)
        if exclusive and not missing:
            raise _error(errno.EEXIST, path)
        if missing and not (create or exclusive):
            raise _error(errno.ENOENT, path)
        if missing or there is None:
            there = self._moved[path] = os.devnull
        fd = os.open(there, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        if stat.S_ISDIR(os.fstat(fd).st_mode):  # which only opens for reading
            os.close(fd)
            raise _error(errno.EISDIR, path)
        return fd

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        pass

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass

    def allocate(self, fd: int, size: int) -> None:
        pass

    def truncate(self, fd: int, size: int) -> None:
        pass

    def rename(self, source: str, target: str) -> None:
        self._moved[target] = self._moved.get(source, source)
        self._moved[source] = None

    def unlink(self, path: str) -> None:
        self._moved[path] = None

    def names(self, path: str) -> list[str]:
        names = set(os.listdir(path)) if os.path.isdir(path) else set[str]()
        for moved, there in self._moved.items():
            folder, name = os.path.split(moved)
            if folder == path:
                (names.discard if there is None else names.add)(name)
        return sorted(names)

    def is_file(self, path: str) -> bool:
        there = self._moved.get(path, path)
        return there is not None and super().is_file(there)

    def lock(self, fd: int) -> bool:
        return True


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


class View(NamedTuple):
    """A directory as the next start would take it. `slots`: those of the cursor, None where one is not sound."""

    directory: Directory
    found: Found
    slots: list[Slot | None]
    holder: str

    @property
    def chunks(self) -> list[Chunk]:
        return self.found.chunks

    @property
    def hint(self) -> int:
        """Up to here the cursor says all is durable."""
        return max((max(slot.durable, slot.low) for slot in self.slots if slot is not None), default=0)

    @property
    def to_do(self) -> list[str]:
        """What the next start changes, as recovery tells it."""
        return [line for line in self.found.recovery.lines() if not line.endswith(LASTING)]


class Finding(NamedTuple):
    """`kind` torn: nobody was promised it, and a start cuts it; any other: damage. No positions: first is 0."""

    kind: str
    file: str
    offset: int
    size: int
    first: int
    last: int
    what: str

    def __str__(self) -> str:
        where = f"{self.file} at {self.offset}, {self.size} bytes: " if self.size else f"{self.file}: "
        positions = f" (positions {self.first} to {self.last})" if self.first else ""
        return f"{self.kind}: {where if self.file else ''}{self.what}{positions}"


def look(path: str) -> View:
    """Raises Unusable as the next start would, and for a directory that holds no log."""
    path = os.path.normpath(path)
    _expect_log(path)
    for left in range(TRIES, 0, -1):
        directory = Directory(path, Onlooker())
        try:
            slots = _slots(directory)
            found = recover(directory)
        except Unusable:
            if left == 1 or not holder(path):
                raise
            continue
        directory.disk.close(found.cursor)
        directory.release()
        return View(directory, found, slots, holder(path))
    raise AssertionError("unreachable")


def _expect_log(path: str) -> None:
    try:
        names = os.listdir(path)
    except NotADirectoryError:
        raise Unusable(f"{path}: is not a log: it is not a directory") from None
    except FileNotFoundError:
        raise Unusable(f"{path}: is not there") from None
    except OSError as error:
        raise Directory(path, Onlooker()).unusable("", f"cannot be read: {error.strerror}") from error
    if not any(name in ("meta", "cursor") or NUMBERED.fullmatch(name) for name in names):
        raise Unusable(f"{path}: {NO_LOG}")


def holder(path: str) -> str:
    """Who has it locked, in words; empty for nobody. Read from /proc/locks: to try the lock, even for a moment,
    could turn away a daemon that is just starting."""
    try:
        lock = os.stat(os.path.join(path, "LOCK"), follow_symlinks=False)
        with open("/proc/locks", encoding="ascii", errors="replace") as lines:
            entries = [fields for line in lines if len(fields := line.split()) >= 6 and fields[1] == "FLOCK"]
    except OSError:
        return ""
    for _, _, _, _, pid, file, *_ in entries:
        major, minor, inode = file.split(":")
        device = os.makedev(int(major, 16), int(minor, 16))
        # btrfs and overlays show a device here that stat does not
        if int(inode) == lock.st_ino and (device == lock.st_dev or pid == _pid(path)):
            return f"process {pid}" if int(pid) > 0 else "another process"
    return ""


def _pid(path: str) -> str:
    try:
        with open(os.path.join(path, "LOCK"), encoding="ascii", errors="replace") as file:
            return file.read(32).strip()
    except OSError:
        return ""


def _slots(directory: Directory) -> list[Slot | None]:
    """None: not sound, or never written."""
    found = [unpack_slot(data) for data in _slot_bytes(directory)]
    return [one and one[1] for one in found]


def _slot_bytes(directory: Directory) -> list[bytes]:
    try:
        fd = directory.disk.open(directory.file("cursor"))
    except OSError:
        return [b"", b""]
    try:
        pages = Pages(directory.disk, fd, 2 * SLOT)
        return [pages.read(0, SLOT), pages.read(SLOT, SLOT)]
    finally:
        directory.disk.close(fd)


# What it holds


def backlog_bytes(view: View) -> int:
    """Of records that are not wholly acked, headers included."""
    size, acked = 0, view.found.acked
    for chunk in view.chunks:
        if acked.missing(chunk.first, chunk.last) == [(chunk.first, chunk.last)]:
            size += max(chunk.synced - CHUNK_START, 0)
        else:
            size += sum(length for first, last, length in _outlines(view, chunk) if not acked.covers(first, last))
    return size


def _outlines(view: View, chunk: Chunk) -> Iterator[tuple[int, int, int]]:
    """First and last position and size of each record, by its header alone."""
    fd = _open(view, chunk)
    if fd is None:
        return
    try:
        pages = Pages(view.directory.disk, fd, chunk.synced)
        at, header = CHUNK_START, header_at(pages, chunk.seed, CHUNK_START)
        while True:
            if header is None:
                found = resync(pages, chunk.seed, at, chunk.first)
                if found is None:
                    return
                at, header = found
            yield header.position, header.last, header.size
            at += header.size
            header = header_at(pages, chunk.seed, at)
    finally:
        view.directory.disk.close(fd)


def records(view: View, first: int, last: int) -> Iterator[Record | Gap]:
    """All that hold a position from `first` to `last`, acked ones too, and a Gap for what cannot be read."""
    expected = max(first, view.chunks[0].first) if view.chunks else last + 1
    for chunk, follower in zip_longest(view.chunks, view.chunks[1:]):
        if chunk.last < expected:
            continue
        if chunk.first > last:
            break
        if chunk.first > expected:
            yield Gap(expected, chunk.first - 1, "", 0, 0, "no chunk holds them")
        for one in _records_of(view, chunk, follower):
            low, high = _span(one)
            if low > last:
                return
            if high >= expected:
                yield one
                expected = high + 1
        # A tail's last position is what was found; any other's is what its follower says.
        expected = max(expected, chunk.last + 1)


def _span(one: Record | Gap) -> tuple[int, int]:
    return (one.first, one.last) if isinstance(one, Gap) else (one.position, one.position + one.count - 1)


def _records_of(view: View, chunk: Chunk, follower: Chunk | None) -> Iterator[Record | Gap]:
    fd = _open(view, chunk)
    if fd is None:
        if not view.holder:
            yield Gap(chunk.first, chunk.last, chunk.name, 0, 0, "cannot be opened")
        return
    try:
        alone = follower is not None and follower.before != chunk.first
        yield from _walk(Pages(view.directory.disk, fd, chunk.synced), chunk, alone=alone)
    finally:
        view.directory.disk.close(fd)


def _walk(pages: Pages, chunk: Chunk, *, alone: bool) -> Iterator[Record | Gap]:
    """`alone`: the chunk behind it is missing, and with it all that is not found here."""
    offset, expected = CHUNK_START, chunk.first
    while expected <= chunk.last:
        header = header_at(pages, chunk.seed, offset)
        if header is None or header.position != expected:
            found = resync(pages, chunk.seed, offset, expected)
            if found is None and alone:
                yield Gap(expected, chunk.last, "", 0, 0, "no chunk holds them")
                return
            after, position = (found[0], found[1].position) if found else (pages.limit, chunk.last + 1)
            yield Gap(expected, position - 1, chunk.name, offset, after - offset, "corrupt")
            offset, expected = after, position
            continue
        record = body_at(pages, chunk.seed, offset, header)
        yield record or Gap(expected, header.last, chunk.name, offset, header.size, "corrupt")
        offset, expected = offset + header.size, header.last + 1


def _open(view: View, chunk: Chunk) -> int | None:
    try:
        return view.directory.disk.open(view.directory.file(chunk.name))
    except OSError:
        return None


def quarantined(path: str) -> list[dict[str, object]]:
    """The reports, and by name and size what else lies there."""
    folder = os.path.join(path, FOLDER)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [_kept(folder, name) for name in names if not (name.endswith(".bytes") and f"{name[:-5]}json" in names)]


def _kept(folder: str, name: str) -> dict[str, object]:
    path = os.path.join(folder, name)
    known: dict[str, object] = {"name": name}
    try:
        known["bytes"] = os.lstat(path).st_size
        if REPORT.fullmatch(name):
            with open(path, "rb") as file:
                known["report"] = json.load(file)
    except (OSError, ValueError) as error:
        known["error"] = str(error)
    return known


# What is wrong with it


def check(path: str, begin: Callable[[int], Read] = lambda size: lambda read: None) -> tuple[View, list[Finding]]:
    """Every header and record. `begin` is told how many bytes there are to read. Where a process has the log, only
    what is found again stays: what it was just writing or dropping is not."""
    view = look(path)
    findings = _findings(view, begin)
    for _ in range(TRIES):
        damages = [finding for finding in findings if finding.kind != "torn"]
        if not view.holder or not damages:
            break
        view = look(path)
        again = _findings(view, begin)
        findings = [finding for finding in again if finding in findings]
        if len(findings) == len(again):
            break
    return view, findings


def _findings(view: View, begin: Callable[[int], Read]) -> list[Finding]:
    recovery = view.found.recovery
    read = begin(sum(chunk.synced for chunk in view.chunks))
    findings = [_note(note) for note in recovery.notes if not note.endswith(PASSING)]
    findings += _cursor_findings(view)
    for chunk in view.chunks:
        findings += _header_findings(view, chunk)
    for damage, promised in _damages(view, read):
        findings.append(_damaged(view, damage, promised=promised))
    known = [(finding.first, finding.last) for finding in findings]
    findings += [_lost(gap) for gap in recovery.gaps if (gap.first, gap.last) not in known]
    if not view.holder:
        findings += _torn(view, sum(finding.size for finding in findings if finding.kind == "torn"))
    return findings


def _note(note: str) -> Finding:
    file, _, what = note.partition(" ")
    known = file.endswith(".wal") or file == "meta"
    return Finding("damaged", file if known else "", 0, 0, 0, 0, f"at a start: {what if known else note}")


def _cursor_findings(view: View) -> list[Finding]:
    if view.holder:  # one slot is written every few moments
        return []
    return [
        Finding(
            "damaged", "cursor", at * SLOT, SLOT, 0, 0, "this slot is not sound: a crash while writing, or damage"
        )
        for at, data in enumerate(_slot_bytes(view.directory))
        if unpack_slot(data) is None and data.strip(b"\0")
    ]


def _header_findings(view: View, chunk: Chunk) -> list[Finding]:
    fd = _open(view, chunk)
    if fd is None:
        return []  # told by reading its records
    try:
        data = Pages(view.directory.disk, fd, CHUNK_START).read(0, CHUNK_START)
    finally:
        view.directory.disk.close(fd)
    what = "this copy of the chunk's header is damaged"
    return [
        Finding("damaged", chunk.name, at, CHUNK_COPY, 0, 0, what)
        for at in (0, CHUNK_COPY)
        if not _sound_header(data[at : at + CHUNK_COPY])
    ]


def _sound_header(copy: bytes) -> bool:
    try:
        return unpack_chunk_header(copy) is not None
    except NewerVersion:
        return True


def _damages(view: View, read: Read) -> Iterator[tuple[Damage, bool]]:
    """Of all chunks, and whether it was promised, by the same proof that recovery has (tail.py)."""
    damages: list[Damage] = []
    top = 0
    for chunk, follower in zip_longest(view.chunks, view.chunks[1:]):
        fd = _open(view, chunk)
        if fd is None:
            damages.append(Damage(chunk, 0, 0, chunk.first, chunk.last, 0, unreadable=True))
            continue
        try:
            scan = Scan(_Counted(view.directory, fd, chunk.synced, read), fd, chunk, view.hint)
            missing = scan.missing(follower) if follower is not None else None
        finally:
            view.directory.disk.close(fd)
        damages += [*scan.damages, missing] if missing is not None else scan.damages
        top = max(top, scan.top)
    lost = {(gap.first, gap.last) for gap in view.found.recovery.gaps}
    for one in damages:
        proof = one.commit < top or one.first <= view.hint or one.unreadable
        yield one, proof or (one.first, one.last) in lost


class _Counted(Pages):
    def __init__(self, directory: Directory, fd: int, limit: int, count: Read) -> None:
        super().__init__(directory.disk, fd, limit)
        self._count = count
        self._seen = 0

    def read(self, offset: int, size: int) -> bytes:
        if offset + size > self._seen:
            self._count(offset + size - self._seen)
            self._seen = offset + size
        return super().read(offset, size)


def _damaged(view: View, damage: Damage, *, promised: bool) -> Finding:
    file = damage.chunk.name if damage.chunk is not None else ""
    where = (file, damage.offset, damage.size, damage.first, damage.last)
    if not promised:
        return Finding("torn", *where, "never synced, nobody was promised it; a start skips it")
    if damage.chunk is None:
        return Finding("missing", *where, "no chunk holds them")
    what = "the disk cannot read it" if damage.unreadable else "not what was written"
    acked = view.found.acked.covers(damage.first, damage.last) and not _reported(view, damage)
    return Finding("corrupt", *where, f"{what}{'; all acked, so nothing is lost' if acked else ''}")


def _reported(view: View, damage: Damage) -> bool:
    """Lost positions count as acked once they are reported."""
    return any(gap.first <= damage.first and damage.last <= gap.last for gap in view.found.recovery.gaps)


def _lost(gap: Gap) -> Finding:
    return Finding("corrupt" if gap.file else "missing", *gap[2:5], gap.first, gap.last, gap.reason)


def _torn(view: View, known: int) -> list[Finding]:
    """Behind the last sound record; what lies before it has been named one by one."""
    removed = [name for name in os.listdir(view.directory.path) if _removed(view, name)]
    what = "holds no sound record, and nobody was promised one; a start removes it"
    findings = [Finding("torn", name, 0, 0, 0, 0, what) for name in sorted(removed)]
    size = view.found.recovery.torn_bytes - known
    if size <= 0:
        return findings
    file, offset = (view.chunks[-1].name, view.chunks[-1].end) if view.chunks else ("", 0)
    what = "the last write never finished, nobody was promised it; a start cuts it"
    return [*findings, Finding("torn", file, offset, size, 0, 0, what)]


def _removed(view: View, name: str) -> bool:
    """By recovery, and not only put elsewhere."""
    here = view.directory.disk.is_file(view.directory.file(name))
    recovery = view.found.recovery
    told = any(name in note for note in recovery.notes) or any(gap.file == name for gap in recovery.gaps)
    return bool(NUMBERED.fullmatch(name)) and not here and not told
