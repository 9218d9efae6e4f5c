"""The damage in a log, each with a name."""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import NamedTuple

from walflow.disk import Disk
from walflow.wal.chunk import Chunk, Pages
from walflow.wal.format import CHUNK_COPY, CHUNK_START, SLOT, NewerVersion, unpack_chunk_header, unpack_slot
from walflow.wal.opening.note import Note
from walflow.wal.opening.scan import Damage, Scan
from walflow.wal.opening.survey import NUMBERED
from walflow.wal.quarantine import Gap
from walflow.wal.tools.inspect.kept import reported
from walflow.wal.tools.inspect.view import TRIES, View, look, slot_bytes
from walflow.wal.tools.inspect.walk import CountedRecords, Read, open_chunk, unreported


class Finding(NamedTuple):
    """`kind` torn: it was never acked, and a start cuts it; reported: lost, and told in quarantine/ already;
    unreadable: the disk fails, and perhaps not for long; any other: damage. No positions: first is 0."""

    kind: str
    file: str
    offset: int
    size: int
    first: int
    last: int
    what: str

    @property
    def damage(self) -> bool:
        return self.kind not in ("torn", "reported")

    def __str__(self) -> str:
        where = f"{self.file} at {self.offset}, {self.size} bytes: " if self.size else f"{self.file}: "
        positions = f" (positions {self.first} to {self.last})" if self.first else ""
        return f"{self.kind}: {where if self.file else ''}{self.what}{positions}"


def check(
    path: str, begin: Callable[[int], Read] = lambda size: unreported, disk: Disk | None = None
) -> tuple[View, list[Finding]]:
    """Checks every header and record. `begin` gets the number of bytes to read. If a process uses the log, only
    damage that is found twice counts: a record that is just being written or dropped does not."""
    view = look(path, disk)
    findings = _findings(view, begin)
    for _ in range(TRIES):
        damages = [finding for finding in findings if finding.damage]
        if not view.holder or not damages:
            break
        view = look(path, disk)
        again = _findings(view, begin)
        findings = [finding for finding in again if finding in findings]
        if len(findings) == len(again):
            break
    return view, findings


def _findings(view: View, begin: Callable[[int], Read]) -> list[Finding]:
    recovery = view.found.recovery
    read = begin(sum(chunk.synced for chunk in view.chunks))
    findings = [_note(note) for note in recovery.notes if note.damage]
    findings += _cursor_findings(view)
    for chunk in view.chunks:
        findings += _header_findings(view, chunk)
    reports = reported(view.directory.path)
    for damage, promised in _damages(view, read):
        findings.append(_damaged(view, damage, reports, promised=promised))
    known = [(finding.first, finding.last) for finding in findings]
    findings += [_lost(gap) for gap in recovery.gaps if (gap.first, gap.last) not in known]
    if not view.holder:
        findings += _torn(view, sum(finding.size for finding in findings if finding.kind == "torn"))
    return findings


def _note(note: Note) -> Finding:
    return Finding("damaged", note.file, 0, 0, 0, 0, f"at a start: {note.what}")


def _cursor_findings(view: View) -> list[Finding]:
    if view.holder:  # one slot is written every few moments
        return []
    return [
        Finding(
            "damaged", "cursor", at * SLOT, SLOT, 0, 0, "this slot is not sound: a crash while writing, or damage"
        )
        for at, data in enumerate(slot_bytes(view.directory))
        if unpack_slot(data) is None and data.strip(b"\0")
    ]


def _header_findings(view: View, chunk: Chunk) -> list[Finding]:
    fd = open_chunk(view.directory, chunk)
    if fd is None:
        return []  # told by reading its records
    try:
        data = Pages(view.directory, chunk.name, fd, CHUNK_START).read(0, CHUNK_START)
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
    """Damage of all chunks, and whether the record was certainly acked,
    by the same proof as in recovery (tail.py)."""
    damages: list[Damage] = []
    top = 0
    for chunk, follower in zip_longest(view.chunks, view.chunks[1:]):
        fd = open_chunk(view.directory, chunk)
        if fd is None:
            damages.append(Damage(chunk, 0, 0, chunk.first, chunk.last, 0, unreadable=True))
            continue
        try:
            pages = CountedRecords(view.directory, chunk.name, fd, chunk.synced, read)
            scan = Scan.read(pages, fd, chunk, view.hint, follower)
            missing = scan.missing()
        finally:
            view.directory.disk.close(fd)
        damages += [*scan.damages, missing] if missing is not None else scan.damages
        top = max(top, scan.top)
    lost = {(gap.first, gap.last) for gap in view.found.recovery.gaps}
    for one in damages:
        proof = one.commit < top or one.first <= view.hint or one.unreadable
        yield one, proof or (one.first, one.last) in lost


def _damaged(view: View, damage: Damage, reports: list[tuple[int, int, str]], *, promised: bool) -> Finding:
    file = damage.chunk.name if damage.chunk is not None else ""
    where = (file, damage.offset, damage.size, damage.first, damage.last)
    if not promised:
        return Finding("torn", *where, "never synced, so never acked; the next start skips it")
    kind, what = ("corrupt", "not what was written") if file else ("missing", "no chunk holds them")
    if damage.unreadable:
        kind, what = "unreadable", "the disk cannot read it"
    if not view.found.acked.covers(damage.first, damage.last) or _lost_now(view, damage):
        return Finding(kind, *where, what)
    names = [name for first, last, name in reports if first <= damage.last and last >= damage.first]
    if names:
        return Finding("reported", *where, f"{what}; lost or skipped, as {', '.join(names)} says")
    return Finding(kind, *where, f"{what}; all acked, so nothing is lost")


def _lost_now(view: View, damage: Damage) -> bool:
    """Positions that the next start will report as lost. After the report they count as acked."""
    return any(gap.first <= damage.first and damage.last <= gap.last for gap in view.found.recovery.gaps)


def _lost(gap: Gap) -> Finding:
    return Finding("corrupt" if gap.file else "missing", *gap[2:5], gap.first, gap.last, gap.reason)


def _torn(view: View, known: int) -> list[Finding]:
    """The torn bytes after the last sound record. Damage before it has been named one by one."""
    what = "holds no sound record, and none was acked; the next start removes it"
    findings = [Finding("torn", name, 0, 0, 0, 0, what) for name in removed(view)]
    size = view.found.recovery.torn_bytes - known
    if size <= 0:
        return findings
    file, offset = (view.chunks[-1].name, view.chunks[-1].end) if view.chunks else ("", 0)
    what = "the last write never finished, so it was never acked; the next start cuts it"
    return [*findings, Finding("torn", file, offset, size, 0, 0, what)]


def removed(view: View) -> list[str]:
    """Chunks with no sound record, which a start removes."""
    return sorted(name for name in view.all_names if _removed(view, name))


def _removed(view: View, name: str) -> bool:
    """Files that recovery removes, and does not only move."""
    here = view.directory.disk.is_file(view.directory.file(name))
    recovery = view.found.recovery
    told = any(note.file == name for note in recovery.notes) or any(gap.file == name for gap in recovery.gaps)
    return bool(NUMBERED.fullmatch(name)) and not here and not told
