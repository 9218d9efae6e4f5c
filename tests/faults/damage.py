"""Small logs on a disk in memory, what each of them promised,
and whether a start on what is left of it keeps that."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tests.wal.tools import EVERYTHING, checkpoint, put, works
from walflow.testing import MemoryDisk
from walflow.wal import Log, LogOptions
from walflow.wal.format import SLOT, unpack_slot

PATH: Final = "/log"
SIZES: Final = [37, 4, 400, 5, 250, 1, 420, 90, 300, 13, 500, 8]  # of payloads
EACH: Final = 3  # positions of a record
TAG: Final = b"tag"
TAKEN: Final = 2  # index of the record that was acked

Files = Mapping[str, bytes]


class Placed(NamedTuple):
    """A record of a small log: what it is, and where it lies."""

    first: int
    payload: bytes
    file: str
    offset: int
    end: int

    @property
    def positions(self) -> set[int]:
        return set(range(self.first, self.first + EACH))


class SmallLog(NamedTuple):
    """`last`: first positions of the records that only the last commit has and the cursor does not know of."""

    name: str
    files: Files
    records: tuple[Placed, ...]
    acked: frozenset[int]
    last: frozenset[int]

    def at(self, file: str, byte: int) -> Placed | None:
        """The record that this byte belongs to."""
        return next((one for one in self.records if one.file == file and one.offset <= byte < one.end), None)

    @property
    def unheard(self) -> frozenset[int]:
        """First positions of the records that the cursor does not know of."""
        cursor = self.files[f"{PATH}/cursor"]
        slots = [found[1] for at in (0, SLOT) if (found := unpack_slot(cursor[at : at + SLOT])) is not None]
        heard = max(max(slot.durable, slot.written) for slot in slots)
        return frozenset(one.first for one in self.records if one.first > heard)

    @property
    def chunks(self) -> list[str]:
        return sorted(path for path in self.files if path.endswith(".wal"))

    def start(self, files: Files) -> "Verdict":
        """On those files instead of its own. Asserts what must hold whatever became of them: nothing altered, nothing
        invented, each loss reported, and it goes on."""
        disk = MemoryDisk(files)
        before = self._open(disk)
        again = self._open(disk)
        lost = before.delivered - again.delivered
        assert not lost, f"{lost} came, was not acked, and does not come again"
        return before

    def _open(self, disk: MemoryDisk) -> "Verdict":
        log = Log(OPTIONS, disk)
        try:
            delivered = self._delivered(log)
            lost = {at for gap in log.gaps for at in range(gap.first, gap.last + 1)}
            assert lost <= reported(disk), "a loss without its report"
            works(log)
            return Verdict(frozenset(delivered), frozenset(lost), log.recovery.torn_records, log.recovery.lines())
        finally:
            log.abandon()

    def _delivered(self, log: Log) -> set[int]:
        known = {one.first: one.payload for one in self.records}
        delivered: set[int] = set()
        for record in log.reader().read(EVERYTHING):
            if record.payload == b"again":  # what the start before has tried
                continue
            assert known.get(record.position) == record.payload, f"{record.position} is not what was appended"
            assert (record.count, record.tag) == (EACH, TAG)
            delivered.add(record.position)
        return delivered


class Verdict(NamedTuple):
    """What a start made of it. `delivered`: first positions of records; `lost`: positions."""

    delivered: frozenset[int]
    lost: frozenset[int]
    torn: int
    lines: list[str]


OPTIONS: Final = LogOptions(PATH, 1024, 16)


def reported(disk: MemoryDisk) -> set[int]:
    """Positions, by the reports that stand in quarantine/."""
    folder = f"{PATH}/quarantine"
    texts = [disk.content(f"{folder}/{name}") for name in disk.names(folder) if name.endswith(".json")]
    return {at for text in texts for at in _range(json.loads(text))}


def _range(report: dict[str, int]) -> range:
    return range(report["first"], report["last"] + 1)


def payload(number: int) -> bytes:
    return (b"%d:" % number * 300)[: SIZES[number]]


def small_logs() -> dict[str, SmallLog]:
    return {log.name: log for log in (closed(), killed(), never_checkpointed(), relaxed())}


def closed() -> SmallLog:
    """Stopped cleanly."""
    disk = MemoryDisk()
    log = Log(OPTIONS, disk)
    _one_by_one(log, 0, len(SIZES))
    _take(log)
    log.close()
    return _small("closed", disk, acked=[TAKEN])


def killed() -> SmallLog:
    """After a commit of three records, which the cursor does not know of yet."""
    disk = MemoryDisk()
    log = Log(OPTIONS, disk)
    _one_by_one(log, 0, len(SIZES) - 3)
    _take(log)
    checkpoint(log)
    put(log, *(payload(number) for number in range(len(SIZES) - 3, len(SIZES))), count=EACH, tag=TAG)
    log.abandon()
    return _small("killed", disk, acked=[TAKEN], last=range(len(SIZES) - 3, len(SIZES)))


def never_checkpointed() -> SmallLog:
    """Killed within its first 100 ms: the cursor says nothing at all."""
    disk = MemoryDisk()
    log = Log(OPTIONS, disk)
    _one_by_one(log, 0, len(SIZES))
    log.abandon()
    return _small("never checkpointed", disk, last=[len(SIZES) - 1])


def relaxed() -> SmallLog:
    """Killed, and no ack had waited for the disk."""
    disk = MemoryDisk()
    log = Log(OPTIONS._replace(sync="interval"), disk)
    _one_by_one(log, 0, len(SIZES) - 3)
    _take(log)
    checkpoint(log)
    _one_by_one(log, len(SIZES) - 3, len(SIZES))
    log.abandon()
    return _small("relaxed, killed", disk, acked=[TAKEN], last=[len(SIZES) - 1])


def _one_by_one(log: Log, start: int, end: int) -> None:
    for number in range(start, end):
        put(log, payload(number), count=EACH, tag=TAG)


def _take(log: Log) -> None:
    log.ack(1 + TAKEN * EACH, EACH + TAKEN * EACH)


def _small(name: str, disk: MemoryDisk, *, acked: Sequence[int] = (), last: Sequence[int] = ()) -> SmallLog:
    files = {path: kept.data for path, kept in disk.snapshot().items() if kept.data is not None}
    records = tuple(_placed(files, number) for number in range(len(SIZES)))
    first = [1 + EACH * number for number in range(len(SIZES))]
    return SmallLog(
        name, files, records, frozenset(first[one] for one in acked), frozenset(first[one] for one in last)
    )


def _placed(files: Files, number: int) -> Placed:
    """By its bytes: a header of 48, then tag and payload, then zeros up to a multiple of 8."""
    body = TAG + payload(number)
    first = 1 + EACH * number
    for path, data in files.items():
        at = -1
        while path.endswith(".wal") and (at := data.find(body, at + 1)) >= 0:
            start = at - 48
            if data[start + 8 : start + 16] == first.to_bytes(8, "little"):
                return Placed(first, payload(number), path, start, (at + len(body) + 7) & ~7)
    raise AssertionError(f"record {number} is not on the disk")
