"""One chunk, read from its first record to its last: what is sound, and what is damaged or missing."""

from collections.abc import Callable
from typing import NamedTuple, Self

from walflow.wal.chunk import Chunk, Pages, body_at, header_at, resync
from walflow.wal.format import (
    CHECKSUM,
    CHUNK_START,
    LAST,
    NO_STAMP,
    RECORD_HEADER,
    RECORD_PREFIX,
    RECORD_START,
    SYNC,
    RecordHeader,
    crc,
    record_size,
)

Prefix = tuple[bytes, int, int, int, int, int, int, int, int, int]


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
            header = header_at(pages, seed, offset)
            if header is None or header.position != expected:
                found = resync(pages, seed, offset, expected)
                if found is None:
                    if pages.unreadable(offset, pages.limit - offset):
                        self._unreadable_end(offset, expected, hint)
                    return
                self._damaged(offset, found[0] - offset, expected, found[1].position - 1, self.commit)
                offset, expected = found[0], found[1].position
                continue
            self.top = header.commit
            if body_at(pages, seed, offset, header) is None:
                self._damaged(offset, header.size, expected, header.last, header.commit)
            else:
                self.records += 1
                self.end, self.last, self.last_ns = offset + header.size, header.last, header.ingest_ns
                if header.last > hint and not self.unproven:
                    self.unproven = offset
            self.commit = header.commit + 1 if header.flags & LAST else header.commit
            offset, expected = offset + header.size, header.last + 1

    def _unreadable_end(self, offset: int, expected: int, hint: int) -> None:
        self.endless = self.follower is None
        last = self.follower.wanted - 1 if self.follower is not None else max(expected, hint)
        self._damaged(offset, self.pages.limit - offset, expected, last, self.commit)

    def _run(self, offset: int, expected: int, hint: int) -> tuple[int, int]:
        """Passes over the sound records in the window, the fast way, because a restart waits for this. Everything else
        is left to `_read`."""
        index = self.pages.find(offset, RECORD_START)
        window, seed = self.pages.window, self.chunk.seed
        unpack: Callable[[bytes, int], Prefix] = RECORD_PREFIX.unpack_from
        start, commit, flags, last_ns = offset - index, self.commit, 0, self.last_ns
        while 0 <= index <= len(window) - RECORD_START:
            sync, length, position, ingest_ns, commit_now, count, flags_now, _, body_crc, header_crc = unpack(
                window, index
            )
            body = index + RECORD_START
            end = ((start + body + length + 7) & ~7) - start  # the file's multiples of 8, not the window's
            if sync != SYNC or position != expected or end > len(window) or not count:
                break
            if (
                crc(seed, window[index : body - 4]) != header_crc
                or crc(seed, window[body : body + length]) != body_crc
            ):
                break
            expected = position + count
            if expected > hint + 1 and not self.unproven:
                self.unproven = start + index
            self.records += 1
            index, commit, flags, last_ns = end, commit_now, flags_now, ingest_ns
            self.end, self.last, self.top = start + end, expected - 1, commit
        self.last_ns = last_ns
        self.commit = commit + 1 if flags & LAST else commit
        return start + index if index >= 0 else offset, expected

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
