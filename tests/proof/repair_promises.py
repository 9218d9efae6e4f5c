"""`walflow wal repair` of broken directories, with the power cut at any operation: no byte of the log is gone, and
run again it makes the log open, with every event that can be read.

It works on real files. What it does to them is done to a simulated disk as well, which says what a power cut may
leave.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final, Self

from tests.proof.judge import Broken, LogPromises
from tests.proof.proof import Effort, Story
from tests.proof.scripts import CHUNKS, a_chunk_of_another_log, spoil
from tests.proof.stories import Life
from walflow.cli.wal.repair import Account, mend
from walflow.disk import RealDisk
from walflow.errors import WalflowError
from walflow.testing.disk import Kept, MemoryDisk, SimulatedDisk
from walflow.wal import LogOptions
from walflow.wal.format import CHUNK_COPY, CHUNK_START

OPTIONS: Final = LogOptions("/log", 1024, 64, 0)
EFFORT: Final = Effort((5, 2), (0.0,))

Files = dict[str, bytes]  # by their names in the log's directory


class Mirrored(RealDisk):
    """Writes to real files below `root`, and to a simulated disk, where they lie below /log."""

    preallocates = False

    def __init__(self, root: str, simulated: SimulatedDisk) -> None:
        self._root = root
        self._simulated = simulated
        self._twins: dict[int, int] = {}

    def _twin(self, path: str) -> str:
        return f"/log{os.path.normpath(path).removeprefix(self._root)}"

    def _is_inside(self, path: str) -> bool:
        return os.path.normpath(path).startswith(self._root)

    def makedir(self, path: str, mode: int = 0o700) -> None:
        self._simulated.makedir(self._twin(path), mode)
        super().makedir(path, mode)

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        fd = super().open(path, create=create, exclusive=exclusive, mode=mode)
        self._twins[fd] = self._simulated.open(self._twin(path), create=create, exclusive=exclusive)
        return fd

    def close(self, fd: int) -> None:
        super().close(fd)
        if (twin := self._twins.pop(fd, None)) is not None:  # what is only read has none
            self._simulated.close(twin)

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        self._simulated.write(self._twins[fd], parts, offset)
        super().write(fd, parts, offset)

    def sync(self, fd: int) -> None:
        self._simulated.sync(self._twins[fd])

    def sync_directory(self, path: str) -> None:
        if self._is_inside(path):
            self._simulated.sync_directory(self._twin(path))

    def truncate(self, fd: int, size: int) -> None:
        self._simulated.truncate(self._twins[fd], size)
        super().truncate(fd, size)

    def rename(self, source: str, target: str) -> None:
        self._simulated.rename(self._twin(source), self._twin(target))
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._simulated.unlink(self._twin(path))
        super().unlink(path)

    def filesystem(self, path: str) -> str:
        return "ext4"


@contextmanager
def real(files: Files) -> Iterator[str]:
    """A directory of them, in memory where that can be."""
    root = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        for name, data in files.items():
            path = Path(root, "log", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        yield os.path.join(root, "log")
    finally:
        shutil.rmtree(root)


def files_of(disk: MemoryDisk) -> Files:
    inside = disk.sizes().keys()
    return {path.removeprefix("/log/"): disk.content(path) for path in inside if path.startswith("/log/")}


def mended(path: str, disk: RealDisk | None = None) -> None:
    try:
        if not mend(path, Account(path, as_json=True), dry_run=False, yes=True, disk=disk):
            raise Broken("it did not do what it has to do")
    except WalflowError as error:
        raise Broken(f"it cannot be repaired: {error}") from error


class RepairPromises:
    """`files`: as they were before anybody repaired them. `log`: what the log has promised."""

    def __init__(self, files: Files, log: LogPromises) -> None:
        self.files = files
        self.log = log

    @property
    def key(self) -> Hashable:
        return self.log.key

    def copy(self) -> Self:
        return type(self)(self.files, self.log.copy())

    def judge(self, disk: MemoryDisk) -> None:
        found = files_of(disk)
        for name, data in self.files.items():
            _expect_kept(name, data, found)
        with real(found) as path:
            mended(path)
            again = MemoryDisk({f"/log/{name}": data for name, data in _read(path).items()})
        again.makedir("/log/quarantine")
        for name, data in self.files.items():
            _expect_kept(name, data, files_of(again))
        self.log.judge(again)


def _read(path: str) -> Files:
    return {str(each.relative_to(path)): each.read_bytes() for each in Path(path).rglob("*") if each.is_file()}


def _expect_kept(name: str, data: bytes, found: Files) -> None:
    """Where the file is not what it was, what is missing of it stands in another one, in one piece."""
    now = found.get(name, b"")
    if name == "cursor" and len(now) == len(data) and data in ORDINARY:
        return
    differ = [at for at, byte in enumerate(data) if now[at : at + 1] != bytes([byte])]
    if not differ:
        return
    missing = data[differ[0] : differ[-1] + 1]
    if not any(missing in other for path, other in found.items() if path != name):
        raise Broken(f"bytes {differ[0]} to {differ[-1]} of {name} are gone")


ORDINARY: Final[set[bytes]] = set()  # cursors that nobody broke, and a log that opens may write anew

Damage = Callable[[Files], None]


def cursor_is_a_directory(files: Files) -> None:
    files["cursor/notes"] = files.pop("cursor")
    files["meta.tmp/x"] = b"another directory"


def quarantine_is_a_file(files: Files) -> None:
    files["quarantine"] = b"somebody's"
    files["meta/x"] = files.pop("meta")


def two_logs_and_no_meta(files: Files) -> None:
    del files["meta"]
    a_chunk_of_another_log(files)
    files.pop(f"quarantine/{30:020d}.wal")
    files.pop(f"{30:020d}.wal")


def half_a_header_and_a_torn_end(files: Files) -> None:
    spoil(files, CHUNKS[1], 20)
    spoil(files, CHUNKS[2], 20 + CHUNK_COPY)
    files[CHUNKS[4]] += b"never finished, and promised to nobody"


def half_a_cursor_and_no_meta(files: Files) -> None:
    spoil(files, "meta", 20)
    spoil(files, "cursor", 30)


def records_that_cannot_be_read(files: Files) -> None:
    spoil(files, CHUNKS[1], CHUNK_START + 9)
    spoil(files, CHUNKS[3], CHUNK_START + 100)


DAMAGES: Final[list[Damage]] = [
    cursor_is_a_directory,
    quarantine_is_a_file,
    two_logs_and_no_meta,
    half_a_header_and_a_torn_end,
    half_a_cursor_and_no_meta,
    records_that_cannot_be_read,
]


class Repair:
    kind = "repair"

    def __init__(self, seed: int, effort: Effort = EFFORT) -> None:
        damage = DAMAGES[seed % len(DAMAGES)]
        self.name = f"repair {seed}: {damage.__name__}"
        self.effort = effort
        life = Life(SimulatedDisk(), OPTIONS, Random(seed))
        for number in range(9):
            life.put(bytes([number + 1]) * 300)
        life.close()
        files = {name: data for name, data in files_of(life.disk).items() if name != "LOCK"}
        ORDINARY.add(files["cursor"])
        damage(files)
        life.promises.damaged = True
        self.promises = RepairPromises(files, life.promises)
        self.disk = SimulatedDisk({"/log": Kept(None, 1)} | {f"/log/{name}": data for name, data in files.items()})

    def live(self) -> None:
        with real(self.promises.files) as path:
            mended(path, Mirrored(path, self.disk))


SOURCES: Final[dict[str, Callable[[int], Story]]] = {"repair": Repair}
