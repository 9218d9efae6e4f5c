"""The tail: every chunk in which the last commit may have written, read to its end and judged.

A record in it that is not sound was either never synced, so it was never acked; or it was synced and has been damaged
since. Commit k + 1 is written only after commit k was synced. So a record of any later commit proves the second case.
The cursor proves it too, because it says what was durable when it was written; and so does a disk that cannot read,
because a torn write can be read. Without a proof, it can only be the very last commit, and then nothing tells the two
cases apart. In both cases no sound record is thrown away: a record that was never acked may still be delivered.

In a relaxed log, which acks before it syncs, all of that proves only that a record was written, and so was acked. A
process that dies leaves a prefix of what it wrote. So if anything is missing that has data after it, a power cut took
it, and it is reported. If data is missing at the very end, it may have been acked or not. Here the tail is every
chunk above what was synced.
"""

from typing import Final, Self

from walflow.wal.chunk import Chunk, Pages
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.format import NO_STAMP
from walflow.wal.opening.scan import Damage, Scan
from walflow.wal.opening.scans import Scans
from walflow.wal.quarantine import Gap

UNREADABLE_END: Final = "the disk cannot read them, nor other records that may be there"
UNSYNCED: Final = "they were acked and not synced when the power was cut, or damaged since"


class Tail:
    """What stands at the end of a log. `chunks` remain, `removed` contain no sound record, and `cut` is the last one
    that remains. `lost` was acked to a source, `skipped` never was."""

    def __init__(self, scans: Scans, chunks: list[Chunk], hint: int, *, relaxed: bool) -> None:
        self.scans = scans
        self.chunks = list(chunks)
        self.removed: list[Chunk] = []
        self.cut: Scan | None = None
        self.durable = hint
        self.commit = 1  # number of the next one
        self.lost: list[tuple[Gap, Pages | None]] = []
        self.skipped: list[tuple[int, int]] = []
        self.unsafe = False  # records above the hint were not written again, and the page cache alone may have them
        self.torn_bytes = 0
        self.torn_records = 0
        self._hint = hint
        self._relaxed = relaxed

    @classmethod
    def read(
        cls,
        directory: Directory,
        chunks: list[Chunk],
        acked: Acked,
        hint: int,
        *,
        written: int = 0,
        relaxed: bool = False,
    ) -> Self:
        """Reads the tail and judges what is damaged in it. Changes nothing on the disk. `hint`: all positions up to
        it were synced; `written`, of a relaxed log: all positions up to it were written."""
        scans = Scans(directory, chunks, hint, relaxed=relaxed)
        tail = cls(scans, chunks, hint, relaxed=relaxed)
        try:
            if chunks:
                tail._judge(scans.damages(acked))
        except BaseException:
            scans.close()
            raise
        tail._find_end(acked.low, written)
        return tail

    @property
    def last_ns(self) -> int:
        """The latest stamp at the end of the chunks that were read.
        The last chunk with a record is always one of them."""
        return max([NO_STAMP, *(scan.last_ns for scan in self.scans)])

    @property
    def endless(self) -> bool:
        """More positions may have been used than any file says."""
        return any(scan.endless for scan in self.scans)

    def close(self) -> None:
        self.scans.close()

    def _judge(self, damages: list[Damage]) -> None:
        top = max(scan.top for scan in self.scans)
        behind = max(chunk.wanted - 1 for chunk in self.chunks)
        self.commit = max(top, *(chunk.commit for chunk in self.chunks)) + 1
        while self.chunks and not self.scans.of(self.chunks[-1]).records:
            self.removed.append(self.chunks.pop())
        end = 0
        if self.chunks:
            self.cut = cut = self.scans.of(self.chunks[-1])
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

    def _find_end(self, low: int, written: int) -> None:
        """Sets `durable`. What should be there after the last chunk is lost."""
        found = max([low, *(gap.last for gap, _ in self.lost), *(chunk.last for chunk in self.chunks)])
        if found < self._hint:
            self.lost.append((Gap(found + 1, self._hint, "", 0, 0, "they were durable and are gone"), None))
        self.durable = max(found, self._hint)
        if self.durable < written:
            self.lost.append((Gap(self.durable + 1, written, "", 0, 0, f"no chunk holds them: {UNSYNCED}"), None))
            self.durable = written

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
        scan = self.scans.of(damage.chunk)
        reason = UNSYNCED if self._was_unsynced(damage) else "corrupt"
        if damage.unreadable:
            reason = "the disk cannot read them"
        if scan.endless and damage is scan.damages[-1]:
            reason = UNREADABLE_END
        gap = Gap(damage.first, damage.last, damage.chunk.name, damage.offset, damage.size, reason)
        self.lost.append((gap, scan.pages))

    def _was_unsynced(self, damage: Damage) -> bool:
        return self._relaxed and damage.first > self._hint
