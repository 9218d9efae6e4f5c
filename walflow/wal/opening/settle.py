"""Repairs the tail, so that the next start finds the same, also after a power cut.

It cuts off what counts as never written. It writes sound records again that may never have been synced: pages that
the disk once failed to write are marked clean, and would be lost after the next power cut.
"""

from typing import Final

from walflow.errors import DiskFull
from walflow.wal.directory import Directory
from walflow.wal.format import CHUNK_START
from walflow.wal.opening.scan import Scan
from walflow.wal.opening.tail import Tail

PIECE: Final = 1 << 20
AGAIN: Final = "again.tmp"


def settle(directory: Directory, tail: Tail) -> bool:
    """False: there was nothing to do."""
    fresh = [scan for scan in tail.scans if _is_unsure(scan) and scan.chunk in tail.chunks]
    cut = tail.cut
    for scan in fresh:
        _write_again(directory, scan, scan.end if scan is cut else scan.pages.limit)
    tail.unsafe = any(scan.unproven and not scan.replaced for scan in fresh)
    if cut is not None and not cut.replaced and directory.disk.stat(cut.fd).size > cut.end:
        directory.truncate(cut.chunk.name, cut.fd, cut.end)
        directory.sync(cut.chunk.name, cut.fd)
    for chunk in tail.removed:
        directory.unlink(chunk.name)
    if fresh or tail.removed:
        directory.sync_names()
    return bool(fresh or tail.removed or tail.torn_bytes or tail.skipped)


def _write_again(directory: Directory, scan: Scan, end: int) -> None:
    """Writes the chunk again as a copy that replaces it: a write in place could garble acked events in a power cut.

    Without room for a copy, the chunk is only synced. Then a power cut may take records that an earlier sync failed
    to write and that were never acked, after they were delivered. The cursor says that they were there, so they
    will be reported as lost. The same is done if the disk cannot read all of the chunk: it may be able to another
    day.
    """
    try:
        directory.unlink(AGAIN)
        fd = directory.create(AGAIN)
        try:
            scan.replaced = _copy(directory, scan, fd, end)
        finally:
            directory.disk.close(fd)
        if scan.replaced:
            directory.rename(AGAIN, scan.chunk.name)
    except DiskFull:
        scan.replaced = False
    if not scan.replaced:
        directory.unlink(AGAIN)
        _mend(directory, scan, scan.chunk.name, scan.fd)


def _copy(directory: Directory, scan: Scan, fd: int, end: int) -> bool:
    """Copies the chunk. False: not all of it can be read. A header that is mended is on a page that must be written
    again anyway."""
    mended = scan.chunk.mended is not None
    for offset in range(CHUNK_START if mended else 0, end, PIECE):
        directory.write(AGAIN, fd, [scan.pages.read(offset, min(PIECE, end - offset))], offset)
    if scan.pages.unreadable(0, end) and not mended:
        return False
    _mend(directory, scan, AGAIN, fd)
    return True


def _mend(directory: Directory, scan: Scan, name: str, fd: int) -> None:
    if scan.chunk.mended is not None:  # the chunk behind it, which knows how to read it, may have to go
        directory.write(name, fd, [scan.chunk.mended], 0)
    directory.sync(name, fd)


def _is_unsure(scan: Scan) -> bool:
    """Whether some of it would be missing or unreadable after the next power cut."""
    return bool(scan.unproven) or scan.chunk.mended is not None
