"""Sinks driven by hand, and disks on which things go wrong."""

import asyncio
import errno
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from connectors.file.appended_file import AppendedFile
from connectors.file.file_sink import file_sink
from connectors.file.output import Output
from walflow.disk import Disk, Landed, RealDisk
from walflow.event import Origin
from walflow.testing import MemoryInlet, VirtualScheduler

LOG = "log-1"


class Sink:
    """One life of a file's sink."""

    def __init__(self, output: Output, *, sole_path: bool = True) -> None:
        self.scheduler = VirtualScheduler()
        self.inlet = MemoryInlet(self.scheduler, behind_log=True, sole_path=sole_path)
        self.output = output
        self.writer = file_sink(self.inlet, output)

    def start(self) -> Self:
        self.writer.start()
        self.scheduler.run()
        return self

    def write(self, *events: bytes, first: int | None = None, acked_below: int = 1, term: int | None = None) -> None:
        origin = None if first is None else Origin(LOG, first, first + len(events) - 1, acked_below, term)
        self.inlet.give(self.inlet.lines_of(*events, origin=origin))
        self.scheduler.run()

    def stop(self) -> None:
        """Drained and cancelled."""
        asyncio.run(self._stop())

    async def _stop(self) -> None:
        closing = asyncio.ensure_future(self.writer.close())
        await asyncio.sleep(0)
        self.scheduler.holding = False
        await self.scheduler.settle()
        await closing

    def die(self) -> None:
        """kill -9: the descriptors close, and nothing else happens. What was not acked is the log's again."""
        sidecar = getattr(self.output, "_sidecar", None)
        for fd in (self.output._fd, sidecar and sidecar._lock.fd):
            if fd is not None:
                os.close(fd)
        held = [*(self.writer._job.blocks if self.writer._job else ()), *self.writer.waiting]
        for block in held:
            self.inlet.fail(block, Killed())


class Clock:
    """Stands still, in seconds."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def to_append(
    path: Path,
    *,
    disk: Disk | None = None,
    boot: str = "boot-1",
    sync: bool = True,
    sole_path: bool = True,
    clock: Clock | None = None,
) -> Sink:
    output = AppendedFile(str(path), disk or RealDisk(), sync=sync, boot=lambda: boot, clock=clock or Clock())
    return Sink(output, sole_path=sole_path)


def appending(
    path: Path,
    *,
    disk: Disk | None = None,
    boot: str = "boot-1",
    sync: bool = True,
    sole_path: bool = True,
    clock: Clock | None = None,
) -> Sink:
    return to_append(path, disk=disk, boot=boot, sync=sync, sole_path=sole_path, clock=clock).start()


def truncating(path: Path, *, disk: Disk | None = None, sync: bool = True, clock: Clock | None = None) -> Sink:
    return Sink(Output(str(path), disk or RealDisk(), sync=sync, empty=True, clock=clock or Clock())).start()


class Killed(BaseException):
    """The process is no more."""


class DeadlyDisk(RealDisk):
    """Kills the process at its `fatal`-th change to the disk, after `written` bytes of it if it is a write."""

    def __init__(self, fatal: int | None = None, written: int = 0) -> None:
        self.fatal = fatal
        self.written = written
        self.changes = 0

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        if self._is_fatal():
            super().write(fd, [b"".join(parts)[: self.written]], offset)
            raise Killed
        super().write(fd, parts, offset)

    def append(self, fd: int, parts: Sequence[bytes]) -> Landed:
        if self._is_fatal():
            super().append(fd, [b"".join(parts)[: self.written]])
            raise Killed
        return super().append(fd, parts)

    def sync(self, fd: int) -> None:
        self._die_before()  # a process that dies loses nothing of what it wrote, so the disk need not work

    def truncate(self, fd: int, size: int) -> None:
        self._die_before()
        super().truncate(fd, size)

    def sync_directory(self, path: str) -> None:
        self._die_before()

    def dies(self, fatal: int, written: int) -> Self:
        """In the next life."""
        self.fatal, self.written, self.changes = fatal, written, 0
        return self

    def _die_before(self) -> None:
        if self._is_fatal():
            raise Killed

    def _is_fatal(self) -> bool:
        self.changes += 1
        if self.fatal is not None and self.changes > self.fatal:
            raise Killed
        return self.changes == self.fatal


class FailingDisk(RealDisk):
    """Fails what `failing` names ("write", "sync", "truncate", "open") with `number`, writes after `written` bytes;
    `only`: a part of the file's name."""

    def __init__(self, number: int = errno.ENOSPC) -> None:
        self.failing: set[str] = set()
        self.number = number
        self.written = 0
        self.only = ""
        self.paths: dict[int, str] = {}
        self._short = False

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        self._fail("open", path)
        fd = super().open(path, create=create, exclusive=exclusive, mode=mode)
        self.paths[fd] = path
        return fd

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        try:
            self._fail("write", self.paths[fd])
        except OSError:
            super().write(fd, [b"".join(parts)[: self.written]], offset)
            raise
        super().write(fd, parts, offset)

    def append(self, fd: int, parts: Sequence[bytes]) -> Landed:
        """Where it fails, it is short first, as on a disk that gets full."""
        short, self._short = not self._short and bool(self.written), False
        try:
            self._fail("write", self.paths[fd])
        except OSError:
            if not short:
                raise
            self._short = True
            return super().append(fd, [b"".join(parts)[: self.written]])
        return super().append(fd, parts)

    def sync(self, fd: int) -> None:
        self._fail("sync", self.paths[fd])
        super().sync(fd)

    def truncate(self, fd: int, size: int) -> None:
        self._fail("truncate", self.paths[fd])
        super().truncate(fd, size)

    def _fail(self, operation: str, path: str) -> None:
        if operation in self.failing and self.only in path:
            raise OSError(self.number, os.strerror(self.number))


class PowerDisk(RealDisk):
    """Knows what each file had when it was last synced, and which names its directory had."""

    SECTOR = 64  # real ones have 512 bytes at least: harder on slots than any disk

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.paths: dict[int, str] = {}
        self._all_is_safe()

    def _all_is_safe(self) -> None:
        self.synced = {str(each): each.read_bytes() for each in self.directory.iterdir()}
        self.named = set(self.synced)

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        fd = super().open(path, create=create, exclusive=exclusive, mode=mode)
        self.paths[fd] = path
        self.synced.setdefault(path, b"")
        return fd

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.synced[self.paths[fd]] = Path(self.paths[fd]).read_bytes()

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self.named |= {str(each) for each in self.directory.iterdir()}

    def cut(self, dice: random.Random) -> None:
        """Of what was not synced, each sector is there or not, and so is each file's growth and each new name."""
        for path in sorted(self.directory.iterdir()):
            if str(path) not in self.named and dice.random() < 0.5:
                path.unlink()
                continue
            old, new = self.synced.get(str(path), b""), path.read_bytes()
            size = dice.choice((len(old), len(new), dice.randint(min(len(old), len(new)), max(len(old), len(new)))))
            path.write_bytes(b"".join(self._sectors(old, new, size, dice)))
        self._all_is_safe()

    def _sectors(self, old: bytes, new: bytes, size: int, dice: random.Random) -> list[bytes]:
        share = dice.choice((0.0, 0.5, 1.0))
        sectors: list[bytes] = []
        for at in range(0, size, self.SECTOR):
            source = new if dice.random() < share else old
            sectors.append(source[at : at + self.SECTOR].ljust(min(self.SECTOR, size - at), b"\0"))
        return sectors
