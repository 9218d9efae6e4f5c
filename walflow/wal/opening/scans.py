"""Which chunks must be read when a log is opened, and what is damaged in them.

They are the chunks in which the last commit may have begun. Of a relaxed log, also all chunks above what was synced.
"""

from collections.abc import Iterator
from itertools import pairwise

from walflow.errors import ReadFailed
from walflow.wal.chunk import Chunk, Pages
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.opening.scan import Damage, Scan, no_chunk


class Scans:
    """The chunks that were read, each with its descriptor. `hint`: all positions up to it were synced."""

    def __init__(self, directory: Directory, chunks: list[Chunk], hint: int, *, relaxed: bool) -> None:
        self._directory = directory
        self._chunks = list(chunks)
        self._hint = hint
        self._relaxed = relaxed
        self._followers = dict(pairwise(chunks))
        self._scans: dict[Chunk, Scan] = {}

    def __iter__(self) -> Iterator[Scan]:
        return iter(self._scans.values())

    def of(self, chunk: Chunk) -> Scan:
        """Reads the chunk, once."""
        if chunk not in self._scans:
            try:
                fd = self._directory.disk.open(self._directory.file(chunk.name))
            except OSError as error:
                raise self._directory.cannot_open(chunk.name, error) from error
            pages = Pages(self._directory, chunk.name, fd, chunk.synced, strict=True)
            try:
                self._scans[chunk] = Scan.read(pages, fd, chunk, self._hint, self._followers.get(chunk))
            except ReadFailed:
                self._directory.disk.close(fd)
                raise
        return self._scans[chunk]

    def damages(self, acked: Acked) -> list[Damage]:
        """The damage, in order, of all chunks that must be read. A file may also be missing because all its events
        were acked. Of positions that no chunk contains, only the others are damage, and each is judged alone."""
        chunks, low = self._chunks, acked.low
        start = self._first_suspect()
        damages: list[Damage] = []
        if chunks[0].wanted > low + 1:
            damages += _unacked(no_chunk(low + 1, chunks[0]), acked)
        for chunk in chunks:
            follower = self._followers.get(chunk)
            suspect = chunk.first >= start
            alone = follower is not None and follower.before != chunk.first and follower.wanted > low + 1
            if suspect or alone:
                scan = self.of(chunk)
                damages += scan.damages
                missing = scan.missing()
                if missing is not None:
                    damages += _unacked(missing, acked)
        return damages

    def _first_suspect(self) -> int:
        """The first position from which chunks may contain the last commit, or data that was not synced."""
        last = self._chunks[-1]
        beyond = [chunk.first for chunk in self._chunks if chunk.last > self._hint] if self._relaxed else []
        return min(self._first_of_last_commit(last), *beyond, last.first)

    def _first_of_last_commit(self, last: Chunk) -> int:
        if self.of(last).top > last.commit:  # so the commit it began with was synced, with all before it
            return last.first
        for chunk in reversed(self._chunks):
            if chunk.commit < last.commit:
                return chunk.first
        return self._chunks[0].first

    def close(self) -> None:
        for scan in self._scans.values():
            self._directory.disk.close(scan.fd)
        self._scans.clear()


def _unacked(damage: Damage, acked: Acked) -> list[Damage]:
    if damage.chunk is not None:
        return [damage]
    return [damage._replace(first=first, last=last) for first, last in acked.missing(damage.first, damage.last)]
