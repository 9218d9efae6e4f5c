"""A file that is overwritten from its beginning. It is never cut: content after the written part stays."""

from collections.abc import Sequence
from typing import NamedTuple

from connectors.file.output import FileBatch, Output
from walflow.files import Disk


class FilePlace(NamedTuple):
    """How far a file is overwritten. `old`: the end of its content before; after it, events are appended, as other
    processes may do too."""

    identity: tuple[int, int]
    size: int
    old: int


class OverwrittenFile(Output):
    """`place`: where an earlier run of the same process was. Another file at the path, in the same process, is
    continued at its end: only a start writes over what is there."""

    def __init__(self, path: str, disk: Disk, *, sync: bool, place: FilePlace | None) -> None:
        super().__init__(path, disk, sync=sync, empty=False)
        self.place = place
        self._old = 0

    def _begin(self, fd: int) -> None:
        stat = self._disk.stat(fd)
        if self.place is None:
            self.size, self._old = 0, stat.size
        elif self.place.identity == stat.identity:
            self.size, self._old = min(self.place.size, stat.size), min(self.place.old, stat.size)
        else:
            self.size = self._old = stat.size
        self._last = b""
        if self.size >= self._old:
            self._go_behind(fd, stat.size)
        self.place = FilePlace(stat.identity, self.size, self._old)

    def _write(self, fd: int, batch: FileBatch) -> bool:
        size = self._disk.stat(fd).size
        if self.size < self._old < size and self.size + batch.size > self._old:
            self._go_behind(fd, size)  # it would reach into what another process appended
        return super()._write(fd, batch)

    def _put(self, fd: int, parts: Sequence[bytes], batch: FileBatch) -> int:
        if self.size >= self._old:
            return super()._put(fd, parts, batch)
        self._disk.write(fd, parts, self.size)
        if self._sync:
            self._disk.sync(fd)
        return self.size + sum(map(len, parts))

    def _put_is_done(self) -> None:
        assert self.place is not None
        self.place = self.place._replace(size=self.size, old=self._old)

    def _is_kept(self, fd: int, end: int) -> bool:
        return super()._is_kept(fd, max(end, self._old))

    def _notice_others(self, fd: int, size: int) -> None:
        known = max(self.size, self._old)
        if size < known:
            self.notes.append(f"{self.path} was cut from {known} to {size} bytes by another process")
            self._old = size
            if self.size >= size:
                self._go_behind(fd, size)
        elif size > known:
            self._others_appended(known)
            if self.size >= self._old:
                self._go_behind(fd, size)
