"""One chunk, read from its first record to its last: what is sound, and what is damaged or missing."""

from typing import NamedTuple, Self

from walflow.wal.chunk import Chunk, Pages
from walflow.wal.format import (
    CHECKSUM,
    CHUNK_START,
    LAST,
    NO_STAMP,
    RECORD_HEADER,
    RECORD_START,
    SYNC,
    RecordHeader,
    crc,
    record_size,
)
from walflow.wal.walk import Prefix, look, pass_sound


class Damage(NamedTuple):
    """Positions `first` to `last` should be there. They belong to `commit` or a later one."""

    chunk: Chunk | None
    offset: int
    size: int
    first: int
    last: int
    commit: int
    unreadable: bool = False


def no_chunk(first: int, follower: Chunk) -> Damage:
    """A chunk is missing, up to the next one. Unless the next one begins a commit, the missing records may be of the
    same commit."""
    return Damage(None, 0, 0, first, follower.wanted - 1, follower.commit - follower.begins)


class Scan:
    """One chunk, read from its first record to its last. `end` and `last`: up to there it is sound, or was judged.
    `follower`: the chunk behind it, None behind the last one."""

    def __init__(self, pages: Pages, fd: int, chunk: Chunk, follower: Chunk | None) -> None:
        self.pages = pages
        self.fd = fd
        self.chunk = chunk
        self.follower = follower
        self.damages: list[Damage] = []
        self.records = 0
        self.top = 0  # the highest commit found
        self.last_ns = NO_STAMP  # the stamp of the last sound record
        self.commit = chunk.commit  # the one that the next record belongs to, or an earlier one
        self.end: int = CHUNK_START
        self.last: int = chunk.first - 1
        self.replaced = False  # by a copy that was synced
        self.endless = False  # its end cannot be read: how many positions stand there is unknown
        self.unproven = 0  # where the first record stands that the cursor does not call durable

    @classmethod
    def read(cls, pages: Pages, fd: int, chunk: Chunk, hint: int, follower: Chunk | None) -> Self:
        """Reads the chunk. `hint`: all positions up to it were synced."""
        scan = cls(pages, fd, chunk, follower)
        scan._read(hint)
        return scan

    def _read(self, hint: int) -> None:
        """There may be damage after `end`, but no sound record."""
        pages, seed = self.pages, self.chunk.seed
        offset, expected = self.end, self.last + 1
        while True:
            offset, expected = self._run(offset, expected, hint)
            found = look(pages, seed, offset, expected, expected)
            header = found.header
            if found.ends:
                if pages.unreadable(offset, pages.limit - offset):
                    self._unreadable_end(offset, expected, hint)
                return
            if found.record is None:
                self._damaged(offset, found.after - offset, expected, found.last, self.commit)
            else:
                self._passed(1, found.after, found.last, found.record.ingest_ns)
                if found.last > hint and not self.unproven:
                    self.unproven = offset
            if header is not None:
                self._in_commit(header)
            offset, expected = found.after, found.last + 1

    def _unreadable_end(self, offset: int, expected: int, hint: int) -> None:
        self.endless = self.follower is None
        last = self.follower.wanted - 1 if self.follower is not None else max(expected, hint)
        self._damaged(offset, self.pages.limit - offset, expected, last, self.commit)

    def _run(self, offset: int, expected: int, hint: int) -> tuple[int, int]:
        """Passes over the sound records in the window, the fast way, because a restart waits for this. Everything
        else is left to `_read`."""
        index = self.pages.find(offset, RECORD_START)
        if index < 0:
            return offset, expected
        run = pass_sound(self.pages.window, self.chunk.seed, expected, index, mark=hint + 1)
        if run.header is None:
            return offset, expected
        start = offset - index
        if run.marked >= 0 and not self.unproven:
            self.unproven = start + run.marked
        self._passed(run.records, start + run.behind, run.position - 1, run.header[3])
        self._in_commit(run.header)
        return self.end, run.position

    def _passed(self, records: int, end: int, last: int, ingest_ns: int) -> None:
        self.records += records
        self.end, self.last, self.last_ns = end, last, ingest_ns

    def _in_commit(self, header: Prefix) -> None:
        """Of the last header found."""
        _, _, _, _, commit, _, flags, _, _, _ = header
        self.top = commit
        self.commit = commit + 1 if flags & LAST else commit

    def _damaged(self, offset: int, size: int, first: int, last: int, commit: int) -> None:
        unreadable = self.pages.unreadable(offset, size)
        self.damages.append(Damage(self.chunk, offset, size, first, last, commit, unreadable))

    def missing(self) -> Damage | None:
        """The records that should be between the last sound record and the next chunk, if any."""
        follower = self.follower
        if follower is None:
            return None
        end, first = self._known()
        if first >= follower.wanted:
            return None
        if follower.before != self.chunk.first:
            return no_chunk(first, follower)
        size = max(self.pages.limit - end, 0)
        commit = min(self.commit, follower.commit - follower.begins)
        return Damage(self.chunk, end, size, first, follower.wanted - 1, commit, self.pages.unreadable(end, size))

    def _known(self) -> tuple[int, int]:
        """The offset and the position after the last record and the last damage."""
        if self.damages and self.damages[-1].offset >= self.end:
            return self.end + self.damages[-1].size, self.damages[-1].last + 1
        return self.end, self.last + 1

    def torn(self) -> int:
        """Bytes at the end that began a record. Older data of a recycled file does not count."""
        end, first = self._known()
        rest = self.pages.read(end, min(self.pages.limit - end, RECORD_START))
        if len(rest) < RECORD_START:
            return len(rest)
        header = RecordHeader(*RECORD_HEADER.unpack_from(rest))
        ours = header._replace(sync=SYNC, position=first)
        if header != ours and not self._fits(ours, rest):
            return 0
        return min(record_size(header.length), self.pages.limit - end)

    def _fits(self, header: RecordHeader, data: bytes) -> bool:
        """Whether the checksum in `data` is that of `header`: then only the differing bytes have been damaged."""
        (found,) = CHECKSUM.unpack_from(data, RECORD_HEADER.size)
        return bool(found == crc(self.chunk.seed, RECORD_HEADER.pack(*header)))
