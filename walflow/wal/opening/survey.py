"""Finds the files of the directory that are chunks of this log, and their order.

The header decides; the name counts only without a header. Files that do not belong to the log are not touched. A file
that has a chunk's name and is no chunk is moved to quarantine.
"""

import re
from typing import Final, NamedTuple

from walflow.wal.chunk import Chunk, Pages
from walflow.wal.directory import Directory
from walflow.wal.format import (
    CHUNK_START,
    NO_STAMP,
    RECORD_START,
    ChunkHeader,
    NewerVersion,
    chunk_name,
    first_stamp,
    pack_chunk_header,
    unpack_chunk_header,
)
from walflow.wal.opening.note import Note
from walflow.wal.quarantine import Quarantine

NUMBERED: Final = re.compile(r"[0-9]{20}\.wal")
LEFTOVER: Final = re.compile(r"spare\.[0-9]{20}|meta\.tmp|again\.tmp")
PIECE: Final = 1 << 20


class Sheet(NamedTuple):
    """One file that looks like a chunk, and its header. `blank`: it contains only zeros; `unreadable`: the disk
    cannot read the header, so there was one. `since_ns`: of its first record."""

    name: str
    size: int
    uuid: bytes
    header: ChunkHeader | None
    blank: bool
    unreadable: bool = False
    since_ns: int = NO_STAMP


def survey(directory: Directory, notes: list[Note]) -> list[Sheet]:
    """Reads the headers. Then it removes what a crash left unfinished, and spares, because they contain no record.
    Raises Unusable, and has changed nothing, if a newer walflow has written a chunk."""
    regular = {name: directory.disk.is_file(directory.file(name)) for name in directory.disk.names(directory.path)}
    sheets = [_read(directory, name) for name, is_file in regular.items() if is_file and name.endswith(".wal")]
    for name, is_file in regular.items():
        if is_file and LEFTOVER.fullmatch(name):
            directory.unlink(name)
        elif not is_file and NUMBERED.fullmatch(name):
            notes.append(Note(name, f"is not a file: moved to {Quarantine(directory).move(name)}"))
    return [sheet for sheet in sheets if sheet.header is not None or NUMBERED.fullmatch(sheet.name)]


def collect(directory: Directory, uuid: bytes, sheets: list[Sheet], notes: list[Note]) -> list[Chunk]:
    """This log's chunks by position, each with its right name."""
    chosen: dict[int, Sheet] = {}
    others: list[Sheet] = []
    for sheet in sheets:
        if sheet.header is None or sheet.uuid != uuid:
            others.append(sheet)
            continue
        first = sheet.header.first
        if first in chosen:  # a copy: the one that has the name is the one the log wrote
            sheet, chosen[first] = sorted((sheet, chosen[first]), key=lambda one: one.name == chunk_name(first))
            others.append(sheet)
        else:
            chosen[first] = sheet
    for sheet in others:
        if not _revive(sheet, chosen, notes):
            _put_away(directory, sheet, notes)
    _straighten(directory, chosen, notes)
    return _chunks(uuid, [chosen[first] for first in sorted(chosen)])


def _read(directory: Directory, name: str) -> Sheet:
    try:
        fd = directory.disk.open(directory.file(name))
    except OSError as error:
        raise directory.cannot_open(name, error) from error
    try:
        size = directory.disk.stat(fd).size
        pages = Pages(directory, name, fd, size, strict=True)
        try:
            begin = pages.read(0, min(CHUNK_START, size))
            found = unpack_chunk_header(begin)
        except NewerVersion as error:
            raise directory.newer(name) from error
        if found is None:
            return Sheet(name, size, b"", None, _blank(pages), pages.unreadable(0, CHUNK_START))
        record = pages.read(CHUNK_START, max(0, min(RECORD_START, size - CHUNK_START)))
        return Sheet(name, size, *found, blank=False, since_ns=first_stamp(*found, record))
    finally:
        directory.disk.close(fd)


def _blank(pages: Pages) -> bool:
    for offset in range(0, pages.limit, PIECE):
        if pages.read(offset, min(PIECE, pages.limit - offset)).strip(b"\0"):
            return False
    return not pages.unreadable(0, pages.limit)


def _revive(sheet: Sheet, chosen: dict[int, Sheet], notes: list[Note]) -> bool:
    """Reads a chunk with both copies of its header damaged: the next chunk contains what is needed for that."""
    if sheet.header is not None or sheet.blank:
        return False
    first = int(sheet.name[:20])
    for follower in chosen.values():
        header = follower.header
        if header is not None and header.before_first == first and first not in chosen:
            # The number of its first commit is not known. Too high a guess proves too little, never too much.
            chosen[first] = sheet._replace(header=ChunkHeader(first, header.commit, header.before_salt))
            notes.append(
                Note(sheet.name, "has lost its header: read with the data in the next chunk's header", stays=True)
            )
            return True
    return False


def _put_away(directory: Directory, sheet: Sheet, notes: list[Note]) -> None:
    if sheet.blank:  # created and never written to, or emptied: there is nothing to keep
        directory.unlink(sheet.name)
        notes.append(Note(sheet.name, "was empty: removed", damage=False))
        return
    why = "has no sound header" if sheet.header is None else "is a copy of another chunk, or of another log"
    notes.append(Note(sheet.name, f"{why}: moved to {Quarantine(directory).move(sheet.name)}"))


def _straighten(directory: Directory, chosen: dict[int, Sheet], notes: list[Note]) -> None:
    """Renames chunks with another chunk's name, for example a recycled file that was renamed and not yet written."""
    wrong = {first for first, sheet in chosen.items() if sheet.name != chunk_name(first)}
    while wrong:
        taken = {sheet.name for sheet in chosen.values()}
        free = [first for first in wrong if chunk_name(first) not in taken]
        first = free[0] if free else min(wrong)
        name = chunk_name(first) if free else f"moved.{chunk_name(first)}"  # they swapped names: one steps aside
        directory.rename(chosen[first].name, name)
        if free:
            notes.append(Note(chosen[first].name, f"is chunk {first}: renamed", damage=False))
            wrong.discard(first)
        chosen[first] = chosen[first]._replace(name=name)


def _chunks(uuid: bytes, sheets: list[Sheet]) -> list[Chunk]:
    chunks: list[Chunk] = []
    for sheet in sheets:
        assert sheet.header is not None
        chunk = Chunk(uuid, sheet.header, sheet.size)
        chunk.named = True
        chunk.since_ns = sheet.since_ns
        if not sheet.uuid:
            chunk.mended = pack_chunk_header(uuid, sheet.header)
        chunk.end = chunk.synced = sheet.size
        if chunks:
            chunks[-1].last = chunk.wanted - 1
            if chunk.before == chunks[-1].first:
                chunks[-1].end = chunks[-1].synced = sheet.header.before_end
        chunks.append(chunk)
    return chunks
