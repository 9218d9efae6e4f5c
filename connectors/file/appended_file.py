"""A file that is only ever appended to, with a memory of what of it is ours.

Each batch: the sidecar says what is about to be written, the data is written and synced, the sidecar says that it
is there and is synced, and only then the batch is acked. A process killed in between leaves an intent by whose
checksums the next one adopts the batch or cuts it; a machine that lost power leaves a sidecar that is behind the
file and never before it. The file may have been renamed since: it is looked for in its directory, and finished there.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from connectors.file.checksum import crc32c
from connectors.file.output import FileBatch, Output
from connectors.file.recovery import (
    END,
    FileNow,
    FoundFile,
    end_mark,
    events_of,
    intend,
    is_known_again,
    is_same_file,
    judge,
)
from connectors.file.sidecar import Sidecar, State
from walflow import WrittenPositions
from walflow.files import Disk
from walflow.world import boot, monotonic, wall_ns

COPY_BYTES: Final = 1 << 20
LOOKS: Final = 100  # at what grows while it is copied; each look finds less
ASIDE: Final = ".walflow-cut-"


class AppendedFile(Output):
    remembers = True

    def __init__(
        self,
        path: str,
        disk: Disk,
        *,
        sync: bool,
        boot: Callable[[], str] = boot,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(path, disk, sync=sync, empty=False, clock=clock)
        self._boot = boot()
        self._sidecar: Sidecar | None = None
        self._state: State | None = None
        self._ranges = WrittenPositions()
        self._after: tuple[State, WrittenPositions] | None = None  # once the batch that was put is known to be kept

    def _begin(self, fd: int) -> None:
        if self._sidecar is not None and not self._sidecar.is_there():
            self._drop_sidecar()
        if self._sidecar is None:
            self._sidecar = Sidecar.open(self._disk, self.path)
        try:
            self._settle(fd, self._sidecar)
        except BaseException:
            self._drop_sidecar()
            raise

    def _settle(self, fd: int, sidecar: Sidecar) -> None:
        identity = self._disk.stat(fd).identity
        state = sidecar.state
        if state is not None and not state.moved and not is_same_file(state, FileNow(self._boot, identity, 0)):
            self._finish_elsewhere(sidecar, state)
        found = self._judged(fd, self.path, sidecar.state)
        self._go_behind(fd, found.size)
        self._ranges = found.ranges
        self.known = found.ranges.copy()
        # from here on the file may have more than any sidecar on disk says, so that must not still say "clean"
        self._state = State(
            boot=self._boot,
            pid=os.getpid(),
            file=identity,
            size=self.size,
            end=end_mark(partial(self._disk.read, fd), self.size),
            synced=self._sync,
            ranges=found.ranges.dump(),
        )
        self._remember(sidecar, self._state)

    def _judged(self, fd: int, path: str, state: State | None) -> FoundFile:
        """What recovery finds, with the file ended there. What others append meanwhile is kept or copied, but for a
        write between the last look at the size and the cut: two system calls, one right after the other."""
        while True:
            stat = self._disk.stat(fd)
            found = judge(state, FileNow(self._boot, stat.identity, stat.size), partial(self._disk.read, fd))
            if found.aside is None and found.size < stat.size:
                if self._disk.stat(fd).size != stat.size:
                    continue
                self._disk.truncate(fd, found.size)
            self._tell(path, found, stat.size)
            if found.aside is not None:
                self._move_aside(fd, path, found.aside, found.size)
            if self._sync:
                self._disk.sync(fd)
            return found

    # a file that was renamed while walflow was not running

    def _finish_elsewhere(self, sidecar: Sidecar, state: State) -> None:
        """The sidecar then says that the file was given up in order, and what of it need not come again."""
        directory = os.path.dirname(self.path) or "."
        for path in _with_inode(self._disk, directory, state.file[1]):
            if ASIDE not in path and self._finish(
                path, sidecar, state
            ):  # a copy may have got the number, and its bytes
                return
        if state.ranges or state.intent is not None:
            self.notes.append(
                f"{self.path} is not the file that walflow wrote to last, and that one is not in its directory: up "
                f"to {events_of(state)} events that it got last may come again"
            )

    def _finish(self, path: str, sidecar: Sidecar, state: State) -> bool:
        try:
            fd = self._disk.open(path)
        except OSError:  # renamed again, or not ours to write
            return False
        try:
            stat = self._disk.stat(fd)
            here = FileNow(self._boot, stat.identity, stat.size)
            read = partial(self._disk.read, fd)
            named_alike = os.path.basename(path).startswith(os.path.basename(self.path))
            if not is_known_again(state, here, read, named_alike=named_alike) or not self._disk.lock(fd):
                return False
            found = self._judged(fd, path, state)
            self._disk.sync(fd)
            end = end_mark(read, found.size)
        finally:
            self._disk.close(fd)
        finished = replace(state, size=found.size, end=end, ranges=found.ranges.dump(), intent=None)
        sidecar.write(replace(finished, boot=self._boot, synced=True, clean=True, moved=True))
        sidecar.sync()
        return True

    def _put(self, fd: int, parts: Sequence[bytes], batch: FileBatch) -> int:
        assert self._sidecar is not None
        for log, position in batch.acked_below.items():
            self._ranges.forget_parts_below(log, position)
        data = b"".join(parts)
        before = self._current(fd)
        self._sidecar.keep(before)
        self._sidecar.write(replace(before, intent=intend(data, self.size, batch.adds)))
        end = super()._put(fd, [data], batch)
        ranges = self._ranges.copy()
        ranges.update(batch.adds)
        last = data[-END:]
        after = replace(before, size=end, end=(len(last), crc32c(last)), ranges=ranges.dump())
        self._after = after, ranges
        self._remember(self._sidecar, after)
        return end

    def _put_is_done(self) -> None:
        assert self._after is not None
        self._state, self._ranges = self._after

    def _taken_back(self) -> None:
        """The sidecar may know of a batch that is in the file no more."""
        if self._sidecar is not None and self._state is not None and self._sidecar.state is not self._state:
            self._sidecar.write(self._state)

    def _end(self, fd: int, *, moved: bool) -> None:
        assert self._sidecar is not None
        super()._end(fd, moved=moved)
        state = replace(self._current(fd), synced=True, clean=True, moved=moved)
        self._sidecar.write(state)
        self._sidecar.sync()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._drop_sidecar()

    def _remember(self, sidecar: Sidecar, state: State) -> None:
        sidecar.write(state)
        if self._sync:
            sidecar.sync()

    def _current(self, fd: int) -> State:
        """The state before the next batch, with what others did to the file since the last."""
        assert self._state is not None
        if self._state.size == self.size:
            return replace(self._state, ranges=self._ranges.dump())
        end = end_mark(partial(self._disk.read, fd), self.size)
        return replace(self._state, size=self.size, end=end, ranges=self._ranges.dump())

    def _drop_sidecar(self) -> None:
        if self._sidecar is not None:
            self._sidecar.close()
            self._sidecar = None

    def _tell(self, path: str, found: FoundFile, size: int) -> None:
        if found.note:
            self.notes.append(f"{path} {found.note}")
        elif found.size < size:
            self.notes.append(f"{path} ended in {size - found.size} bytes of a batch that was not finished: cut")

    def _move_aside(self, fd: int, path: str, start: int, cut_at: int) -> None:
        """Copies what is behind `start`, then cuts the file. What grows while it is copied is copied too."""
        aside = f"{path}{ASIDE}{wall_ns()}"
        copy = self._disk.open(aside, exclusive=True)
        try:
            copied = self._copy(fd, copy, start, start)
            self._disk.sync(copy)
            self._disk.sync_directory(os.path.dirname(path) or ".")
            for _ in range(LOOKS):
                before, copied = copied, self._copy(fd, copy, start, copied)
                if copied == before:
                    break
            self._disk.truncate(fd, cut_at)
            self._disk.sync(copy)
        finally:
            self._disk.close(copy)
        self.notes.append(f"{copied - start} bytes from byte {start} of {path} on are now in {aside}")

    def _copy(self, fd: int, copy: int, start: int, at: int) -> int:
        """From byte `at` to the end. Returns where that is."""
        size = self._disk.stat(fd).size
        for begin in range(at, size, COPY_BYTES):
            self._disk.write(copy, [self._disk.read(fd, min(COPY_BYTES, size - begin), begin)], begin - start)
        return size


def _with_inode(disk: Disk, directory: str, inode: int) -> list[str]:
    """Regular files in it, links to them left out."""
    found = [entry.name for entry in disk.entries(directory) if entry.inode == inode and entry.is_file]
    return [os.path.join(directory, name) for name in sorted(found)]
