"""The tail: every chunk in which the last commit may have written, read to its end and judged.

A record in it that is not sound was either never synced, so it was never acked; or it was synced and has been damaged
since. Commit k + 1 is written only after commit k was synced. So a record of any later commit proves the second case.
The cursor proves it too, because it says what was durable when it was written; and so does a disk that cannot read,
because a torn write can be read. Without a proof, it can only be the very last commit, and then nothing tells the two
cases apart. In both cases no sound record is thrown away: a record that was never acked may still be delivered.

In a relaxed log, which acks before it syncs, all of that proves only that a record was written, and so was acked. A
process that dies leaves a prefix of what it wrote. So if anything is missing that has data after it, a power cut took
it, and it is reported. If data is missing at the very end, it may have been acked or not. Here the tail is every chunk
above what was synced.
"""

from itertools import pairwise
from typing import Final

from walflow.errors import DiskFull
from walflow.wal.chunk import Chunk, Pages
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.format import CHUNK_START, NO_STAMP
from walflow.wal.opening.scan import Damage, Scan, no_chunk
from walflow.wal.quarantine import Gap

PIECE: Final = 1 << 20
AGAIN: Final = "again.tmp"
UNREADABLE_END: Final = "the disk cannot read them, nor other records that may be there"
UNSYNCED: Final = "they were acked and not synced when the power was cut, or damaged since"


def _unacked(damage: Damage, acked: Acked) -> list[Damage]:
    if damage.chunk is not None:
        return [damage]
    return [damage._replace(first=first, last=last) for first, last in acked.missing(damage.first, damage.last)]


class Tail:
    """Reads the tail, reports what it found, and then (`settle`) repairs it. `hint`: all positions up to it were
    synced; `written`, of a relaxed log: all positions up to it were written."""

    def __init__(
        self,
        directory: Directory,
        chunks: list[Chunk],
        acked: Acked,
        hint: int,
        *,
        written: int = 0,
        relaxed: bool = False,
    ) -> None:
        self._directory = directory
        self._hint = hint
        self._relaxed = relaxed
        self._scans: dict[Chunk, Scan] = {}
        self._followers = dict(pairwise(chunks))
        self._removed: list[Chunk] = []
        self._cut: Scan | None = None
        self.chunks = list(chunks)
        self.durable = max(acked.low, hint)
        self.commit = 1  # number of the next one
        self.lost: list[tuple[Gap, Pages | None]] = []
        self.skipped: list[tuple[int, int]] = []  # never acked
        self.torn_bytes = 0
        self.torn_records = 0
        try:
            if chunks:
                self._judge(self._damages(acked))
        except BaseException:
            self.close()
            raise
        found = max([acked.low, *(gap.last for gap, _ in self.lost), *(chunk.last for chunk in self.chunks)])
        if found < hint:
            self.lost.append((Gap(found + 1, hint, "", 0, 0, "they were durable and are gone"), None))
        self.durable = max(found, hint)
        if self.durable < written:
            self.lost.append((Gap(self.durable + 1, written, "", 0, 0, f"no chunk holds them: {UNSYNCED}"), None))
            self.durable = written

    def settle(self) -> bool:
        """Cuts off what counts as never written. Writes sound records again that may never have been synced: pages that
        the disk once failed to write are marked clean, and would be lost after the next power cut. False: there was
        nothing to do."""
        fresh = [scan for scan in self._scans.values() if _is_unsure(scan) and scan.chunk in self.chunks]
        for scan in fresh:
            self._write_again(scan)
        cut = self._cut
        if cut is not None and not cut.replaced and self._directory.disk.stat(cut.fd).size > cut.end:
            self._directory.truncate(cut.chunk.name, cut.fd, cut.end)
            self._directory.sync(cut.chunk.name, cut.fd)
        for chunk in self._removed:
            self._directory.unlink(chunk.name)
        if fresh or self._removed:
            self._directory.sync_names()
        return bool(fresh or self._removed or self.torn_bytes or self.skipped)

    @property
    def last_ns(self) -> int:
        """The latest stamp at the end of the chunks that were read. The last chunk with a record is always one of them."""
        return max([NO_STAMP, *(scan.last_ns for scan in self._scans.values())])

    @property
    def endless(self) -> bool:
        """More positions may have been used than any file says."""
        return any(scan.endless for scan in self._scans.values())

    def close(self) -> None:
        for scan in self._scans.values():
            self._directory.disk.close(scan.fd)
        self._scans.clear()

    def _damages(self, acked: Acked) -> list[Damage]:
        """The damage, in order, of all chunks that must be read. A file may also be missing because all its events were
        acked. Of positions that no chunk contains, only the others are damage, and each is judged alone."""
        chunks, low = self.chunks, acked.low
        start = self._first_suspect()
        damages: list[Damage] = []
        if chunks[0].wanted > low + 1:
            damages += _unacked(no_chunk(low + 1, chunks[0]), acked)
        for chunk in chunks:
            follower = self._followers.get(chunk)
            suspect = chunk.first >= start
            alone = follower is not None and follower.before != chunk.first and follower.wanted > low + 1
            if suspect or alone:
                scan = self._scan(chunk)
                damages += scan.damages
                missing = scan.missing()
                if missing is not None:
                    damages += _unacked(missing, acked)
        return damages

    def _first_suspect(self) -> int:
        """The first position from which chunks may contain the last commit, or data that was not synced."""
        last = self.chunks[-1]
        beyond = [chunk.first for chunk in self.chunks if chunk.last > self._hint] if self._relaxed else []
        return min(self._first_of_last_commit(last), *beyond, last.first)

    def _first_of_last_commit(self, last: Chunk) -> int:
        if self._scan(last).top > last.commit:  # so the commit it began with was synced, with all before it
            return last.first
        for chunk in reversed(self.chunks):
            if chunk.commit < last.commit:
                return chunk.first
        return self.chunks[0].first

    def _judge(self, damages: list[Damage]) -> None:
        top = max(scan.top for scan in self._scans.values())
        behind = max(chunk.wanted - 1 for chunk in self.chunks)
        self.commit = max(top, *(chunk.commit for chunk in self.chunks)) + 1
        while self.chunks and not self._scan(self.chunks[-1]).records:
            self._removed.append(self.chunks.pop())
        end = 0
        if self.chunks:
            self._cut = cut = self._scan(self.chunks[-1])
            end = cut.chunk.last = cut.last
            cut.chunk.end = cut.chunk.synced = cut.chunk.capacity = cut.end
            self._count_torn(cut)
        behind = max([end, behind, *(damage.first - 1 for damage in damages)]) if self._relaxed else 0
        for damage in damages:
            proved = damage.commit < top or damage.first <= self._hint or damage.unreadable
            if proved or damage.last <= behind:
                self._lose(damage)
            else:
                self.torn_records += 1
                self.torn_bytes += damage.size
                if damage.last <= end:
                    self.skipped.append((damage.first, damage.last))

    def _count_torn(self, cut: Scan) -> None:
        torn = cut.torn()
        if torn:
            self.torn_bytes += torn
            self.torn_records += 1

    def _lose(self, damage: Damage) -> None:
        if damage.last < damage.first:
            return
        if damage.chunk is None:
            what = f"no chunk holds them: {UNSYNCED}" if self._was_unsynced(damage) else "no chunk holds them"
            self.lost.append((Gap(damage.first, damage.last, "", 0, 0, what), None))
            return
        scan = self._scans[damage.chunk]
        reason = UNSYNCED if self._was_unsynced(damage) else "corrupt"
        if damage.unreadable:
            reason = "the disk cannot read them"
        if scan.endless and damage is scan.damages[-1]:
            reason = UNREADABLE_END
        gap = Gap(damage.first, damage.last, damage.chunk.name, damage.offset, damage.size, reason)
        self.lost.append((gap, scan.pages))

    def _was_unsynced(self, damage: Damage) -> bool:
        return self._relaxed and damage.first > self._hint

    def _scan(self, chunk: Chunk) -> Scan:
        if chunk not in self._scans:
            try:
                fd = self._directory.disk.open(self._directory.file(chunk.name))
            except OSError as error:
                raise self._directory.cannot_open(chunk.name, error) from error
            pages = Pages(self._directory.disk, fd, chunk.synced)
            self._scans[chunk] = Scan(pages, fd, chunk, self._hint, self._followers.get(chunk))  # never raises
        return self._scans[chunk]

    def _write_again(self, scan: Scan) -> None:
        """Writes the chunk again as a copy that replaces it: a write in place could garble acked events in a power cut.

        Without room for a copy, the chunk is only synced. Then a power cut may take records that an earlier sync failed
        to write and that were never acked, after they were delivered. The cursor says that they were there, so they
        will be reported as lost. The same is done if the disk cannot read all of the chunk: it may be able to another
        day.
        """
        end = scan.end if scan is self._cut else scan.pages.limit
        try:
            self._directory.unlink(AGAIN)
            fd = self._directory.create(AGAIN)
            try:
                scan.replaced = self._copy(scan, fd, end)
            finally:
                self._directory.disk.close(fd)
            if scan.replaced:
                self._directory.rename(AGAIN, scan.chunk.name)
        except DiskFull:
            scan.replaced = False
        if not scan.replaced:
            self._directory.unlink(AGAIN)
            self._mend(scan, scan.chunk.name, scan.fd)

    def _copy(self, scan: Scan, fd: int, end: int) -> bool:
        """Copies the chunk. False: not all of it can be read. A header that is mended is on a page that must be written
        again anyway."""
        mended = scan.chunk.mended is not None
        for offset in range(CHUNK_START if mended else 0, end, PIECE):
            self._directory.write(AGAIN, fd, [scan.pages.read(offset, min(PIECE, end - offset))], offset)
        if scan.pages.unreadable(0, end) and not mended:
            return False
        self._mend(scan, AGAIN, fd)
        return True

    def _mend(self, scan: Scan, name: str, fd: int) -> None:
        if scan.chunk.mended is not None:  # the chunk behind it, which knows how to read it, may have to go
            self._directory.write(name, fd, [scan.chunk.mended], 0)
        self._directory.sync(name, fd)


def _is_unsure(scan: Scan) -> bool:
    """Whether some of it would be missing or unreadable after the next power cut."""
    return bool(scan.unproven) or scan.chunk.mended is not None
