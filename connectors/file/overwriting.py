"""A file that is written over from its beginning on. It is never cut: what was in it and is not reached stays."""

from collections.abc import Sequence
from typing import NamedTuple

from connectors.file.output import Batch, Output
from walflow.disk import Disk


class Place(NamedTuple):
    """How far a file is written over."""

    identity: tuple[int, int]
    size: int


class Overwriting(Output):
    """`place`: where an earlier run of the same process was; another file begins at its first byte."""

    def __init__(self, path: str, disk: Disk, *, sync: bool, place: Place | None) -> None:
        super().__init__(path, disk, sync=sync, empty=False)
        self.place = place

    def _begin(self, fd: int) -> None:
        stat = self._disk.stat(fd)
        known = self.place is not None and self.place.identity == stat.identity
        self.size = min(self.place.size, stat.size) if self.place is not None and known else 0
        self._last = b""
        self.place = Place(stat.identity, self.size)

    def _put(self, fd: int, parts: Sequence[bytes], batch: Batch) -> None:
        super()._put(fd, parts, batch)
        assert self.place is not None
        self.place = self.place._replace(size=self.size + sum(map(len, parts)))

    def _notice_others(self, fd: int) -> None:
        size = self._disk.stat(fd).size
        if size < self.size:
            self.notes.append(f"{self.path} was cut from {self.size} to {size} bytes by another process")
            self.size = size

    def _take_back(self, fd: int) -> None:
        """What a failed write left is written over by the next, at the same place."""
        self._torn = 0
