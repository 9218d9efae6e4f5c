"""Programs of a story that write log files on the daemon's machine, and rotate them as logrotate does.

with entered(machine.other("clients")):
    task = asyncio.create_task(FileWriter("client0", dice).run("/logs"))
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Final, cast

from walflow import CannotDecode
from walflow.codecs import JSON
from walflow.disk import Disk
from walflow.testing.simulation.ends import ClientLedger
from walflow.world import disk, monotonic

ROTATES: Final = 0.03  # of all pauses
CALM: Final = 12.0  # seconds since the rotation before: longer than `rotate_wait`
TEARS: Final = 0.1  # of all writes: the rest of a line comes with the next


class FileWriter(ClientLedger):
    """An event is acked when its line is in a file, with the line's end. `compresses`: some time after a rotation.
    Half of all writers sync each write. A power cut takes lines away from the others, and they write them again."""

    def __init__(self, name: str, dice: Random, *, compresses: bool = False) -> None:
        super().__init__(name, dice)
        self._compresses = compresses
        self._syncs = dice.random() < 0.5
        self._directory = ""
        self._writes_to = ""  # after a rename that is the renamed file, until the program opens its file again
        self._rest = b""  # of what it writes
        self._unended: list[int] = []  # events in `_rest`
        self._rotated = 0
        self._rotated_at = -CALM
        self._begins = True

    async def run(self, directory: str) -> None:
        self._directory = directory
        while True:
            await self.pause()
            with suppress(OSError):  # the disk is full, or fails
                if self._begins:
                    self._begin(disk())
                if self._dice.random() < ROTATES:
                    self._rotate(disk())
                self._write(disk())
            with suppress(OSError):
                self._compress(disk())

    def crashed(self) -> None:
        """The power was cut. What is in no file any more it writes again."""
        self.acked.clear()
        self._begins = True

    def _begin(self, on: Disk) -> None:
        on.makedir(self._directory)
        on.sync_directory("/")
        self.acked = set(self._found(on))
        self._rest, self._unended = b"", []
        self._writes_to = self._path
        if on.identity(self._path) and (content := self._content(on, self._path)) and not content.endswith(b"\n"):
            self._rest = b"\n"
        self.begin()
        self._begins = False

    @property
    def _path(self) -> str:
        return f"{self._directory}/{self.name}.log"

    def _write(self, on: Disk) -> None:
        if not self._rest:
            numbers = self.due()
            if not numbers:
                return
            self._rest = b"".join(event + b"\n" for event in self.events(numbers))
            self.has_sent(numbers)
            self._unended = numbers
        piece = self._rest
        if self._dice.random() < TEARS:
            piece = piece[: self._dice.randint(1, len(piece))]
        fd = on.open(self._writes_to, create=True)
        try:
            start, end = on.append(fd, [piece])
            self._rest = self._rest[end - start :]
            with suppress(OSError):
                self._sync(on, fd)
        finally:
            on.close(fd)
        if not self._rest:
            self.has_ack(self._unended)
            self._unended = []
            self._writes_to = self._path

    def _rotate(self, on: Disk) -> None:
        now = on.look(self._path)
        if self._writes_to != self._path or now is None or not now.size:
            return
        self._rotated += 1
        before, self._rotated_at = self._rotated_at, monotonic()
        old = f"{self._path}-{self._rotated}.log"
        if self._dice.random() < 0.5:
            on.rename(self._path, old)
            self._writes_to = old if self._rest or self._dice.random() < 0.5 else self._path
        elif not self._rest:  # `copytruncate`
            content = self._content(on, self._path)
            if self._rotated_at - before < CALM:  # walflow may not have looked since: it cannot tell the copies apart
                self.sent.update(self._numbers(content))
            self._copy(on, old, content)
            fd = on.open(self._path)
            try:
                on.truncate(fd, 0)
                self._sync(on, fd)
            finally:
                on.close(fd)

    def _compress(self, on: Disk) -> None:
        """A file that was rotated some time before; as gzip(1) does it, which overwrites no file."""
        if not self._compresses or self._dice.random() > ROTATES:
            return
        names = on.names(self._directory)
        for name in names:
            path = f"{self._directory}/{name}"
            is_old = name.startswith(f"{self.name}.log-") and name.endswith(".log") and path != self._writes_to
            if is_old and f"{name}.gz" not in names:
                self._copy(on, f"{path}.gz", gzip.compress(self._content(on, path), mtime=0))
                on.unlink(path)
                return

    def _copy(self, on: Disk, target: str, data: bytes) -> None:
        fd = on.open(target, create=True)
        try:
            on.write(fd, [data], 0)
            self._sync(on, fd)
        except OSError:  # no room for all of it: as logrotate does
            on.unlink(target)
            raise
        finally:
            on.close(fd)

    def _sync(self, on: Disk, fd: int) -> None:
        if self._syncs:
            on.sync(fd)
            on.sync_directory(self._directory)

    def _content(self, on: Disk, path: str) -> bytes:
        fd = on.open(path)
        try:
            return on.read(fd, on.stat(fd).size, 0)
        finally:
            on.close(fd)

    def _found(self, on: Disk) -> Iterator[int]:
        for name in on.names(self._directory):
            if name.startswith(f"{self.name}.log"):
                content = self._content(on, f"{self._directory}/{name}")
                if name.endswith(".gz"):
                    content = _inflated(content)
                yield from self._numbers(content)

    def _numbers(self, content: bytes) -> Iterator[int]:
        """Of the events that are whole. A power cut tears lines, and may join the pieces of two."""
        for line in content.split(b"\n")[:-1]:
            with suppress(CannotDecode):
                number = cast("dict[str, int]", JSON.decode(line)).get("n", -1)
                if self.events([number]) == [line]:
                    yield number


def _inflated(content: bytes) -> bytes:
    """What a power cut has left may be damaged."""
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return b""
