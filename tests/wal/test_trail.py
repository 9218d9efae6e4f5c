"""The trail: it may say too much of events that were about to be given up. It never says too little."""

import errno
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, strategies as st

from tests.wal.tools import QuickDisk, checkpoint, put
from walflow.errors import FailStop
from walflow.testing import MemoryDisk, PowerCut, SimulatedDisk, images
from walflow.wal import Log, LogOptions
from walflow.wal.slot_file import MARKS_SLOT
from walflow.wal.tools.rename import rename
from walflow.wal.tools.skip import skip
from walflow.wal.trail import DAMAGED, DROPPED, FLOW, GONE, OPEN, RANGES, SINK, SKIPPED, UNSURE, Statement, ToldRanges

FILE = "/log/trail"
EVENT = b"." * 100


def opened(disk: MemoryDisk, *sinks: str, flow: str = "one", chunks: int = 64) -> Log:
    log = Log(LogOptions("/log", 1024, chunks), disk)
    log.part([sinks or ("near",)])
    log.trail.runs(flow, "1.0", log.durable)
    return log


def told(log: Log, what: str) -> dict[Statement, list[tuple[int, int]]]:
    return {one.statement: list(one.ranges) for one in log.trail.told() if one.statement.what == what}


def gone(log: Log) -> dict[str, list[tuple[int, int]]]:
    return {one.more: ranges for one, ranges in told(log, GONE).items()}


def test_a_sink_is_linked_from_the_first_event_that_it_may_get() -> None:
    disk = MemoryDisk()
    log = opened(disk, "near")
    put(log, EVENT, EVENT, EVENT)
    log.ack(1, 2)
    log.close()
    log = opened(disk, "near", "far")
    assert told(log, SINK) == {Statement(SINK, "near"): [(1, OPEN)], Statement(SINK, "far"): [(3, OPEN)]}
    put(log, EVENT)
    log.ack(1, 4)
    log.close()
    log = opened(disk, "far")
    put(log, EVENT)
    log.ack(5, 5)
    log.close()
    log = opened(disk, "near", "far")
    assert told(log, SINK) == {Statement(SINK, "near"): [(1, 4), (6, OPEN)], Statement(SINK, "far"): [(3, OPEN)]}
    log.close()


def test_a_sink_may_begin_at_a_place_of_its_own() -> None:
    disk = MemoryDisk()
    log = opened(disk, "near")
    put(log, EVENT, EVENT, EVENT)
    log.close()
    log = Log(LogOptions("/log", 1024, 64), disk)
    log.part([["near"], ["far"], ["odd"]], {"far": None, "odd": 2})
    first = {one.who: ranges[0][0] for one, ranges in told(log, SINK).items()}
    assert first == {"near": 1, "odd": 2, "far": 4}
    log.close()


def test_of_a_log_that_is_older_than_its_trail_a_sink_is_linked_then_or_earlier() -> None:
    disk = MemoryDisk()
    log = Log(LogOptions("/log", 1024, 64), disk)
    put(log, EVENT, EVENT)
    log.ack(1, 1)
    log.close()
    log = opened(disk)
    assert told(log, SINK) == {Statement(SINK, "near", UNSURE): [(2, OPEN)]}
    log.close()
    log = opened(disk, "near", "far")
    assert Statement(SINK, "far") in told(log, SINK), "from here on it is known"
    log.close()


def test_a_sink_may_be_linked_later_than_a_flow_ran() -> None:
    """The log is older than what is known of its sinks, though not than its trail."""
    disk = MemoryDisk()
    log = Log(LogOptions("/log", 1024, 64), disk)
    log.trail.runs("one", "1.0", 0)
    put(log, EVENT)
    log.close()
    log = opened(disk)
    assert told(log, SINK) == {Statement(SINK, "near", UNSURE): [(1, OPEN)]}
    log.close()


def test_what_a_log_lost_was_for_no_sink() -> None:
    """A sink that was linked behind its end is linked at its end, and nothing is forgotten."""
    disk = MemoryDisk()
    opened(disk, "near").close()
    before = disk.snapshot()
    log = opened(disk, "near")
    put(log, EVENT, EVENT)
    log.ack(1, 2)
    log.close()
    log = opened(disk, "near", "far")
    known = [(one.statement, one.since_ns) for one in log.trail.told()]
    log.close()
    log = opened(MemoryDisk({**before, FILE: disk.content(FILE)}), "near", "far")
    assert sorted((one.statement, one.since_ns) for one in log.trail.told()) == sorted(known)
    assert told(log, SINK) == {Statement(SINK, "near"): [(1, OPEN)], Statement(SINK, "far"): [(1, OPEN)]}
    assert [one.holds for one in log.trail.told()] == [True] * 3
    log.close()


def test_it_leaves_no_descriptor() -> None:
    disk = MemoryDisk()
    for _ in range(3):
        opened(disk).close()
        assert disk.open_files() == 0


def test_a_flow_ends_with_the_first_run_of_another_one() -> None:
    disk = MemoryDisk()
    for flow, events in (("one", 2), ("one", 1), ("two", 3), ("one", 1), ("three", 0)):
        log = opened(disk, flow=flow)
        put(log, *[EVENT] * events)
        log.close()
    log = opened(disk, flow="three")
    assert told(log, FLOW) == {
        Statement(FLOW, "one", "1.0"): [(1, 3), (7, 7)],
        Statement(FLOW, "two", "1.0"): [(4, 6)],
        Statement(FLOW, "three", "1.0"): [(8, OPEN)],
    }
    log.trail.runs("three", "1.1", log.durable)
    assert told(log, FLOW)[Statement(FLOW, "three", "1.1")] == [(8, OPEN)], "another version is another flow"
    assert Statement(FLOW, "three", "1.0") not in told(log, FLOW), "it has logged nothing"
    log.close()


def test_what_a_full_log_drops_is_told() -> None:
    disk = MemoryDisk()
    log = opened(disk, chunks=2)
    while log.fits(0, len(EVENT)):
        put(log, EVENT)
    log.ack(2, 3)
    dropped = log.drop_oldest(0, len(EVENT))[0]
    assert gone(log) == {DROPPED: [(1, 1), (4, dropped.last)]}
    checkpoint(log)
    log.abandon()
    log = opened(disk, chunks=2)
    assert gone(log) == {DROPPED: [(1, 1), (4, dropped.last)]}
    log.close()


def test_what_is_skipped_or_damaged_is_told() -> None:
    disk = MemoryDisk()
    log = opened(disk)
    put(log, *[EVENT] * 30)
    skip(log, 3, 4, "me")
    log.close()
    name = sorted(path for path in disk.sizes() if path.endswith(".wal"))[1]
    spoiled = bytearray(disk.content(name))
    spoiled[300:310] = b"x" * 10
    log = opened(MemoryDisk({**disk.snapshot(), name: bytes(spoiled)}))
    reader = log.reader()
    reader.read(1 << 20)
    reader.close()
    found = gone(log)
    assert found[SKIPPED] == [(3, 4)]
    assert found[DAMAGED] == [(gap.first, gap.last) for gap in log.gaps]
    assert found[DAMAGED]
    log.close()


def test_a_renamed_sink_was_linked_all_the_time() -> None:
    disk = MemoryDisk()
    log = Log(LogOptions("/log", 1024, 64), disk)
    near, _ = log.part([["near"], ["far"]])
    put(log, EVENT, EVENT)
    near.ack(1, 1)
    uuid = bytes.fromhex(log.uuid)
    log.close()
    rename("/log", uuid, "near", "archive", disk)
    log = opened(disk, "archive", "far")
    assert told(log, SINK) == {Statement(SINK, "archive"): [(1, OPEN)], Statement(SINK, "far"): [(1, OPEN)]}
    log.close()


@pytest.mark.parametrize("damage", [b"", b"x" * 40, bytes(2 * MARKS_SLOT)])
def test_a_log_without_a_sound_trail_begins_one(damage: bytes) -> None:
    disk = MemoryDisk()
    log = opened(disk)
    put(log, EVENT)
    log.close()
    log = opened(MemoryDisk({**disk.snapshot(), FILE: damage}))
    assert told(log, FLOW) == {Statement(FLOW, "one", "1.0"): [(2, OPEN)]}
    log.close()


def test_a_trail_that_cannot_be_read_stops_nothing_and_stays_as_it_is() -> None:
    disk = MemoryDisk()
    log = opened(disk)
    put(log, EVENT)
    log.close()
    before = disk.content(FILE)
    disk.fault = lambda operation, path: errno.EIO if path == FILE and operation == "read" else None
    log = opened(disk, flow="two")
    assert [line for line in log.recovery.lines() if line.startswith("trail cannot be read, and is left as it is")]
    put(log, EVENT)
    log.ack(1, 2)
    checkpoint(log)
    log.close()
    assert disk.content(FILE) == before
    disk.fault = None
    log = opened(disk)
    assert log.unacked(1, 2) == []
    assert told(log, FLOW) == {Statement(FLOW, "one", "1.0"): [(1, OPEN)]}
    log.close()


def test_a_full_disk_does_not_stop_the_cursor() -> None:
    disk = MemoryDisk()
    log = opened(disk)
    put(log, EVENT)
    disk.fault = lambda operation, path: errno.ENOSPC if path == FILE else None
    log.ack(1, 1)
    checkpoint(log)
    log.trail.gone("near", "no reason", 1, 1)
    disk.fault = None
    checkpoint(log)
    log.abandon()
    log = opened(disk)
    assert log.low == 1
    assert gone(log) == {"no reason": [(1, 1)]}, "the next one tried again"
    log.close()


def test_nothing_is_known_of_positions_that_other_events_get() -> None:
    """All files of the log were taken away but two: its positions begin anew."""
    disk = MemoryDisk()
    log = opened(disk)
    put(log, *[EVENT] * 9)
    log.trail.gone("near", "no reason", 2, 4)
    log.close()
    disk = MemoryDisk({path: kept for path, kept in disk.snapshot().items() if path in (FILE, "/log/meta", "/log")})
    log = opened(disk)
    assert gone(log) == {}
    assert told(log, FLOW) == {Statement(FLOW, "one", "1.0"): [(1, OPEN)]}
    log.close()


@given(st.lists(st.tuples(st.integers(1, 1 << 40), st.integers(0, 9)), min_size=1, max_size=40), st.integers(1, 3))
def test_it_knows_all_positions_however_many_there_are(found: list[tuple[int, int]], nodes: int) -> None:
    disk = MemoryDisk()
    log = opened(disk, *[f"sink {number} " + "x" * 400 for number in range(nodes)])
    for step, (at, more) in enumerate(found):
        for first in range(at, at + RANGES * 30, 30):
            log.trail.gone(f"node {step % nodes}", "no reason", first, first + more)
    expected = {
        f"node {step % nodes}": [one for at, one in enumerate(found) if at % nodes == step % nodes]
        for step in range(len(found))
    }
    checkpoint(log, force=True)
    assert len(disk.content(FILE)) == 2 * MARKS_SLOT
    put(log, EVENT)
    stored: list[ToldRanges] = log.trail.told()
    log.close()
    assert sum(len(one.ranges) for one in stored) <= RANGES
    for node, ranges in expected.items():
        (of,) = [one for one in stored if one.statement.who == node]
        for at, more in ranges:
            assert any(first <= at and at + more <= last for first, last in of.ranges)


def test_of_many_statements_those_that_hold_and_the_newest_stay() -> None:
    disk = MemoryDisk()
    log = opened(disk)
    for number in range(2000):
        log.trail.gone(f"node {number}", "x" * 80, number + 1, number + 1)
    put(log, EVENT)
    checkpoint(log)
    told_of = {one.statement.who for one in log.trail.told()}
    log.close()
    assert {"near", "one", "node 1999"} <= told_of
    assert "node 0" not in told_of


@pytest.mark.parametrize("seed", range(3))
def test_the_power_may_be_cut_at_any_operation(seed: int) -> None:
    """What the cursor calls acked, its sink has got, or the trail says that it is gone."""
    cut = ends = 0
    for operations in range(5, 600):
        disk = SimulatedDisk()
        disk.operations_left = operations
        delivered: set[int] = set()
        try:
            _life(disk, Random(seed), delivered)
        except PowerCut:
            cut += 1
        else:
            ends += 1
            break
        for image in images(disk, Random(operations), 3):
            log = opened(disk.like_this(image.files), chunks=4)
            known = [one for ranges in gone(log).values() for one in ranges]
            acked = {at for at in range(1, log.durable + 1) if not log.unacked(at, at)}
            assert all(any(first <= at <= last for first, last in known) for at in acked - delivered)
            log.abandon()
    assert cut > 50
    assert ends == 1


def _life(disk: SimulatedDisk, random: Random, delivered: set[int]) -> None:
    for _ in range(2):
        log = opened(disk, chunks=4)
        for _ in range(30):
            if not log.fits(0, len(EVENT)):
                log.drop_oldest(0, len(EVENT))
                checkpoint(log)
                continue
            (position,) = put(log, EVENT)
            if random.random() < 0.3:
                delivered.add(position)
                log.ack(position, position)
            elif random.random() < 0.2:
                log.trail.gone("near", "no reason", position, position)
                log.ack(position, position)
            if random.random() < 0.2:
                checkpoint(log)
        log.close()


class Replaced(QuickDisk):
    """Another directory is in the log's place just as a file is made in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        if exclusive and path.endswith("/trail"):
            self._path.rename(self._path.with_name("aside"))
            self._path.mkdir()
        return super().open(path, create=create, exclusive=exclusive, mode=mode)


def test_it_is_not_left_in_another_logs_directory(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(LogOptions(str(path)), Replaced(path))
    log.part([["near"]])
    with pytest.raises(FailStop, match="was moved, replaced or removed while the log was in use"):
        checkpoint(log)
    log.abandon()
    assert list(path.iterdir()) == []


def test_what_a_failed_attempt_left_is_made_anew() -> None:
    """A file system that copies on write may have no room to remove a file either."""
    disk = MemoryDisk()
    log = opened(disk)
    disk.fault = lambda operation, path: errno.ENOSPC if path == FILE and operation in ("write", "unlink") else None
    put(log, EVENT)
    log.ack(1, 1)
    checkpoint(log)
    assert disk.sizes()[FILE] < 2 * MARKS_SLOT
    disk.fault = None
    checkpoint(log, force=True)
    assert disk.sizes()[FILE] == 2 * MARKS_SLOT
    log.abandon()
    log = opened(disk)
    assert told(log, FLOW) == {Statement(FLOW, "one", "1.0"): [(1, OPEN)]}
    log.close()
