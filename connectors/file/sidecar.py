"""What walflow knows of a file that it appends to, in a small file beside it.

Three slots of 4 KiB, each with a checksum and a generation; the highest valid generation holds. Two slots are never
overwritten: the last one synced, because a power cut may tear the slot being written, and the last one written,
because a killed process leaves that as what is true. It never grows, so a full disk does not stop it.
"""

import os
import struct
from typing import Final, Self

import msgspec
from msgspec.structs import replace

from connectors.file.checksum import crc32c
from connectors.file.output import CannotWrite, explain
from walflow import Range, Unusable, WrittenPositions
from walflow.files import Disk, LockFile

SLOT: Final = 4096
SLOTS: Final = 3
HEADER: Final = struct.Struct("<8sIIQ")  # magic, checksum of all that follows it, length of the body, generation
MAGIC: Final = b"walflow\x01"
ROOM: Final = SLOT - HEADER.size


class WriteIntent(msgspec.Struct, frozen=True):
    """The batch being written at `State.size`, or behind it, where another process appended in that moment. `sums`:
    the CRC32C of each piece of it, cut where the file's own offset is a multiple of `piece`. `head`: its first bytes,
    by which it is found behind others, and its absence known; empty in sidecars of walflow 0.1 before it had this."""

    length: int
    piece: int
    sums: bytes
    adds: dict[str, list[Range]]
    head: bytes = b""


class State(msgspec.Struct, frozen=True):
    """`size`: everything below it is good. `end`: how many bytes right below `size`, and their CRC32C, by which the
    file is known again. `synced`: what is below `size` was on disk before this was written. `clean`: nothing is
    being written. `moved`: the file was given up for a new one at the same path. `ranges`: the positions that need
    not come again."""

    boot: str
    pid: int
    file: tuple[int, int]
    size: int
    end: tuple[int, int]
    synced: bool
    clean: bool = False
    moved: bool = False
    ranges: dict[str, list[Range]] = {}
    intent: WriteIntent | None = None


class Sidecar:
    """The sidecar, open and locked."""

    def __init__(self, disk: Disk, lock: LockFile, output: str, slots: list[tuple[int, State | None]]) -> None:
        self.path = lock.path
        self._output = output
        self._disk = disk
        self._lock = lock
        self._generation, self.state = max(slots, key=_generation)
        self._written = self._synced = max(range(SLOTS), key=lambda slot: slots[slot][0])

    def __repr__(self) -> str:
        return f"<Sidecar {self.path} at generation {self._generation}>"

    @classmethod
    def open(cls, disk: Disk, output: str) -> Self:
        """Raises CannotWrite: it cannot be made, or another process has it."""
        path = sidecar_path(output)
        try:
            lock = LockFile.take(disk, path)
        except OSError as error:
            raise CannotWrite(f"cannot append to {output} without its sidecar: {explain(path, error)}") from error
        if lock is None:
            raise _taken(disk, path, output)
        try:
            slots = _load(disk, lock.fd, path)
            # Which slot was synced last is not known, and the highest may have been written by a process that died
            # before its sync: then the slot that a power cut would leave is another one, and not to be overwritten.
            disk.sync(lock.fd)
            return cls(disk, lock, output, slots)
        except BaseException:
            lock.release()
            raise

    def write(self, state: State) -> None:
        slot = next(slot for slot in range(SLOTS) if slot not in (self._written, self._synced))
        generation = self._generation + 1
        self._disk.write(self._lock.fd, [_encode(state, generation)], slot * SLOT)
        self._generation, self._written, self.state = generation, slot, state

    def sync(self) -> None:
        self._disk.sync(self._lock.fd)
        self._synced = self._written

    def is_there(self) -> bool:
        return self._lock.is_in_place()

    def keep(self, state: State) -> None:
        """Makes it anew with this state, if it was removed or replaced.
        Raises CannotWrite: another process has the new one."""
        if self._lock.is_in_place():
            return
        try:
            renewed = self._lock.renew()
        except FileNotFoundError:  # the whole directory was renamed: there is nothing that another process could have
            return
        if not renewed:
            raise _taken(self._disk, self.path, self._output)
        fd = self._lock.fd
        self._disk.truncate(fd, 0)
        self._disk.write(fd, [bytes(SLOT * SLOTS)], 0)
        self._written = self._synced = 0
        self.write(state)
        self.sync()
        self._disk.sync_directory(os.path.dirname(self.path) or ".")

    def close(self) -> None:
        self._lock.release()


def sidecar_path(output: str) -> str:
    directory, name = os.path.split(output)
    return os.path.join(directory, f".{name}.walflow")


def _generation(slot: tuple[int, State | None]) -> int:
    return slot[0]


def _taken(disk: Disk, path: str, output: str) -> CannotWrite:
    fd = disk.open(path)
    try:
        holder = max(_slots(disk.read(fd, SLOT * SLOTS, 0), path), key=_generation)[1]
    finally:
        disk.close(fd)
    who = f"process {holder.pid}" if holder else "another process"
    return CannotWrite(f"cannot append to {output}: {who} does, and holds {path}")


def _slots(data: bytes, path: str) -> list[tuple[int, State | None]]:
    return [_decode(data[slot * SLOT :][:SLOT], path) for slot in range(SLOTS)]


def _load(disk: Disk, fd: int, path: str) -> list[tuple[int, State | None]]:
    data = disk.read(fd, SLOT * SLOTS, 0)
    slots = _slots(data, path)
    if len(data) < SLOT * SLOTS:
        disk.write(fd, [bytes(SLOT * SLOTS - len(data))], len(data))
        disk.sync(fd)
        disk.sync_directory(os.path.dirname(path) or ".")
    return slots


def _encode(state: State, generation: int) -> bytes:
    body = msgspec.json.encode(state)
    while len(body) > ROOM:
        state = _with_less(state)
        body = msgspec.json.encode(state)
    rest = HEADER.pack(b"", 0, len(body), generation)[12:] + body
    return MAGIC + crc32c(rest).to_bytes(4, "little") + rest + bytes(ROOM - len(body))


def _with_less(state: State) -> State:
    """The state with fewer ranges. An event that is not known to be in the file comes twice, so only this knowledge
    may be dropped."""
    ranges = WrittenPositions(state.ranges)
    if ranges:
        ranges.forget_lowest()
        return replace(state, ranges=ranges.dump())
    assert state.intent is not None
    adds = WrittenPositions(state.intent.adds)
    adds.forget_lowest()
    return replace(state, intent=replace(state.intent, adds=adds.dump()))


def _decode(slot: bytes, path: str) -> tuple[int, State | None]:
    """Decodes a slot. Generation 0: it was never written, or is torn."""
    if len(slot) < SLOT or not slot.startswith(MAGIC[:-1]):
        return 0, None
    magic, checksum, length, generation = HEADER.unpack_from(slot)
    body = slot[HEADER.size :][:length]
    if crc32c(slot[12 : HEADER.size] + body) != checksum:
        return 0, None
    if magic != MAGIC:
        raise Unusable(
            f"{path} was written by a newer walflow: run that one, or remove the file, after which some events may "
            "come twice"
        )
    return generation, msgspec.json.decode(body, type=State)
