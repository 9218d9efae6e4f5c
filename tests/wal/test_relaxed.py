"""`sync = "interval"` and `"never"`: what is acked before it is synced. The process may be killed at any operation
and nothing is lost. The power may be cut at any operation, in recovery too: what was synced is there; what was acked
and is not there is reported with its positions, or stood behind everything that is; and no position is given out
twice. What is dropped for want of space is dropped once the cursor says so, and until then it is there."""

import re
from random import Random

import pytest

from tests.wal.tools import EVERYTHING, checkpoint, payloads, put, works
from walflow.testing import PowerCut, SimulatedDisk, images
from walflow.testing.disk import Kept
from walflow.wal import Log, LogOptions
from walflow.wal.format import SKIP
from walflow.wal.unsynced import UNSYNCED_CHUNKS

pytestmark = pytest.mark.test

SHAPES = [(1024, 8), (4096, 4), (65536, 2), (1024, 1), (65536, 20)]
MODES = ["interval", "never", "always"]


class Story:
    """A random life of one log, from power cut to power cut or kill to kill, in one mode or in all of them."""

    def __init__(self, seed: int, modes: list[str]) -> None:
        self.dice = Random(seed)
        self.modes = modes
        self.shape = SHAPES[seed % len(SHAPES)]
        self.disk = SimulatedDisk({"/log": Kept(None, 1)})
        self.disk.preallocates = bool(seed & 4)
        self.appended: dict[int, bytes] = {}
        self.acked: dict[int, bytes] = {}  # to their source, and no sink has acked them
        self.done: set[int] = set()
        self.synced: set[int] = set()
        self.given: set[int] = set()  # positions that sinks may know
        self.dropping: dict[int, bytes] = {}  # given up, and maybe not on disk yet
        self.dropped = 0  # told by a cursor that was synced
        self.killed = True  # since the last recovery that came to its end, and the power was not cut
        self.interrupted = False  # a recovery was, before it could tell
        self.lost = 0
        self.untraced = 0

    def live(self, operations: int, *, kill: bool = False) -> None:
        self.disk.operations_left = operations
        opened = False
        try:
            log = self.open()
            opened = True
            for _ in range(self.dice.randrange(40)):
                self.step(log)
            if not self.dice.randrange(4):
                log.close()
                self.synced |= self.acked.keys()
        except PowerCut:
            self.interrupted |= not opened
        self.killed = kill and (opened or self.killed)
        if kill:
            self.disk.after_kill(writeback_fails=False)
        else:
            found = self.dice.choice(list(images(self.disk, self.dice, 8)))
            self.disk = self.disk.like_this(found.files)

    def open(self) -> Log:
        mode = self.dice.choice(self.modes)
        log = Log(LogOptions("/log", *self.shape, sync=mode), self.disk)  # type: ignore[arg-type]
        reader = log.reader()
        found = {record.position: record.payload for record in reader.read(EVERYTHING)}
        reader.close()
        assert found.items() <= self.appended.items(), "never altered, never out of thin air"
        assert log.dropped_events >= self.dropped, "the count survives"
        self.dropped = log.dropped_events
        self.acked |= {position: self.dropping[position] for position in self.dropping.keys() & found.keys()}
        self.done |= self.dropping.keys() - found.keys()
        self.dropping.clear()
        missing = self.acked.keys() - found.keys()
        assert all(gap.last - gap.first < SKIP // 2 for gap in log.gaps), "a skip is no loss"
        reported = {position for gap in log.gaps for position in range(gap.first, gap.last + 1)}
        assert not missing & self.synced, "what was synced is there"
        assert not reported & found.keys(), "what is there is not called lost"
        assert not reported & self.synced - self.done
        if self.killed:
            assert log.gaps == []
            assert not missing, "a process that dies loses nothing"
        silent = missing - reported
        if silent and not self.interrupted:
            (note,) = re.findall(r"acked after position (\d+) may be lost", "".join(log.recovery.lines()))
            assert min(silent) > int(note), "a loss in the middle is told with its positions"
        self.interrupted = False
        self.lost += len(missing & reported)
        self.untraced += len(silent)
        for position in missing:
            del self.acked[position]
        for position in self.done & found.keys():
            log.ack(position, position)
        for position in found.keys() - self.done:  # delivered, and so promised
            self.acked[position] = found[position]
        self.synced |= self.acked.keys()  # synced by recovery
        return log

    def step(self, log: Log) -> None:
        what = self.dice.randrange(8)
        if what <= 2:
            self.append(log)
        elif what <= 4:
            self.commit(log)
        elif what == 5:
            self.ack(log)
        elif what == 6:
            checkpoint = log.checkpoint()
            if checkpoint is not None:
                counted = log.dropped_events
                checkpoint.flush()
                log.checkpointed(checkpoint)
                self.dropped = counted
                self.done |= self.dropping.keys()
                self.dropping.clear()
            assert sum(size for path, size in self.disk.sizes().items() if _counts(path)) <= log.budget
        else:
            sync = log.sync()
            if sync is not None:
                sync.flush()
                log.synced(sync)
        self.synced |= {position for position in self.acked if position <= log.synced_up_to}

    def append(self, log: Log) -> None:
        for _ in range(self.dice.randrange(1, 6)):
            payload = self.dice.randbytes(self.dice.choice((0, 3, 100, 600, 1500)))
            if log.fits(0, len(payload)):
                position = log.append(b"", payload, 1, 0)
                assert position not in self.done | self.acked.keys(), "a position was given out twice"
                self.appended[position] = payload
            elif self.dice.random() < 0.3:
                self.drop(log, len(payload))

    def drop(self, log: Log, size: int) -> None:
        for one in log.drop_oldest(0, size):
            gone = {
                position: payload for position, payload in self.acked.items() if one.first <= position <= one.last
            }
            assert one.events == len(gone)
            self.dropping |= gone
            for position in gone:
                del self.acked[position]

    def commit(self, log: Log) -> None:
        commit = log.commit()
        if commit is not None:
            commit.flush()
            log.committed(commit)
            for record, _, _ in commit.entries:
                assert record.position not in self.given, "what a sink may have seen is another event now"
                self.given.add(record.position)
                self.acked[record.position] = record.payload

    def ack(self, log: Log) -> None:
        for position in self.dice.sample(sorted(self.acked), min(len(self.acked), self.dice.randrange(5))):
            log.ack(position, position)
            del self.acked[position]
            self.done.add(position)


def _counts(path: str) -> bool:
    return "/quarantine/" not in path and (path.endswith(".wal") or "/spare." in path)


@pytest.mark.parametrize("block", range(5))
@pytest.mark.parametrize("modes", [["interval"], ["never"], MODES], ids=["interval", "never", "changing"])
def test_the_power_may_be_cut_at_any_operation(modes: list[str], block: int) -> None:
    lost = untraced = 0
    for seed in range(block * 40, block * 40 + 40):
        story = Story(seed, modes)
        for _ in range(8):
            story.live(story.dice.choice((3, 10, 30, 60, 1000)))
        lost, untraced = lost + story.lost, untraced + story.untraced
    assert lost > 0, "the cuts hit what was reported"
    assert untraced > 0, "and what cannot be"


@pytest.mark.parametrize("modes", [["interval"], ["never"], MODES], ids=["interval", "never", "changing"])
def test_the_process_may_be_killed_at_any_operation_and_nothing_is_lost(modes: list[str]) -> None:
    for seed in range(200):
        story = Story(seed, modes)
        for _ in range(8):
            story.live(story.dice.choice((3, 10, 30, 60, 1000)), kill=True)


@pytest.mark.parametrize("modes", [["interval"], ["never"], MODES], ids=["interval", "never", "changing"])
def test_what_is_delivered_after_a_kill_is_synced_first(modes: list[str]) -> None:
    """Recovery may have to sync what no commit did: a power cut behind it takes none of that."""
    for seed in range(150):
        story = Story(seed, modes)
        for _ in range(8):
            story.live(story.dice.choice((10, 30, 60, 1000)), kill=story.dice.random() < 0.6)


def cut(disk: SimulatedDisk, *names: str) -> SimulatedDisk:
    """The power goes: of these files everything is kept, of all others what was synced."""
    for path, inode in disk.inodes.items():
        if path.endswith(names):
            inode.sync()
    disk.durable |= {path: inode for path, inode in disk.inodes.items() if path.endswith(names)}
    return disk.like_this({path: Kept(inode.synced, inode.number) for path, inode in disk.durable.items()} | LOG)


LOG = {"/log": Kept(None, 1)}
CHUNK = b"." * 900  # the first record of a chunk, and the last one


def relaxed(disk: SimulatedDisk, mode: str = "never") -> Log:
    return Log(LogOptions("/log", 1024, 16, sync=mode), disk)  # type: ignore[arg-type]


def test_what_the_cursor_knows_to_have_been_acked_is_reported() -> None:
    log = relaxed(disk := SimulatedDisk(LOG))
    put(log, b"1", b"2", b"3")
    log.ack(2, 2)
    checkpoint(log)
    put(log, b"4")
    after = cut(disk)
    log = relaxed(after)
    assert [(gap.first, gap.last) for gap in log.gaps] == [(1, 1), (3, 3)]
    assert "acked and not synced when the power was cut" in log.gaps[0].reason
    assert "after position 3 may be lost" in log.recovery.lines()[0]
    assert sorted(name for name in after.names("/log/quarantine") if name.endswith(".json")) == [
        f"{1:020d}-{1:020d}.json",
        f"{3:020d}-{3:020d}.json",
    ]
    works(log)


@pytest.mark.parametrize("mode", ["interval", "never"])
def test_whoever_opens_it_is_told_how_it_was_written(mode: str) -> None:
    put(relaxed(disk := SimulatedDisk(LOG), mode), b"1")
    (line,) = relaxed(cut(disk), "always").recovery.lines()
    assert line.startswith(f'it was not closed, and sync was "{mode}": ')


def test_a_file_that_did_not_make_it_before_one_that_did_is_reported() -> None:
    log = relaxed(disk := SimulatedDisk(LOG))
    put(log, CHUNK, CHUNK, CHUNK)
    log = relaxed(cut(disk, "03.wal"))
    assert [(gap.first, gap.last) for gap in log.gaps] == [(1, 2)]
    assert payloads(log) == [CHUNK]
    works(log)


def test_a_name_alone_proves_what_stood_before_it() -> None:
    log = relaxed(disk := SimulatedDisk(LOG))
    put(log, CHUNK, CHUNK, CHUNK)
    disk.durable["/log/" + "3".rjust(20, "0") + ".wal"] = disk.inodes["/log/" + "3".rjust(20, "0") + ".wal"]
    log = relaxed(cut(disk, "01.wal"))
    assert [(gap.first, gap.last) for gap in log.gaps] == [(2, 2)]
    assert payloads(log) == [CHUNK]
    works(log)


def test_an_acked_position_beyond_all_that_is_there_is_not_given_out_again() -> None:
    """The cursor is synced and newer than the data."""
    log = relaxed(disk := SimulatedDisk(LOG))
    put(log, b"1", b"2")
    log.ack(1, 2)
    checkpoint(log)
    log = relaxed(cut(disk))
    assert log.gaps == []
    assert put(log, b"next") == [2 + SKIP + 1]
    assert payloads(log) == [b"next"]
    works(log)


def test_the_skip_is_not_missed_by_anybody() -> None:
    """Neither by a reader, nor by the next recovery, nor where the cursor is gone."""
    log = relaxed(disk := SimulatedDisk(LOG))
    put(log, b"1", b"2")
    disk.after_kill(writeback_fails=False)
    log = relaxed(disk)
    (position,) = put(log, b"3")
    assert payloads(log) == [b"1", b"2", b"3"]
    assert log.unacked(1, log.durable) == [(1, 2), (position, position)]
    log.close()
    log = relaxed(disk)
    assert (log.gaps, log.recovery.lines(), payloads(log)) == ([], [], [b"1", b"2", b"3"])
    log.close()
    disk.unlink("/log/cursor")
    log = relaxed(disk)
    assert (log.gaps, payloads(log)) == ([], [b"1", b"2", b"3"])
    works(log)


def test_what_was_cut_to_make_room_may_have_its_size_back() -> None:
    """The budget is exceeded then, by less than the records have; the log takes nothing more before there is room."""
    disk = SimulatedDisk()
    disk.preallocates = True
    options = LogOptions("/log", 1 << 16, 2, sync="interval")
    log = Log(options, disk)
    for number in range(1, 4):
        put(log, bytes([number]) * 40_000)
        sync = log.sync()
        assert sync is not None
        sync.flush()
        log.synced(sync)
    assert log.used <= log.budget
    again = Log(options, cut(disk))
    assert [len(payload) for payload in payloads(again)] == [40_000] * 3
    assert 1.3 * again.budget < again.used < 2 * again.budget
    assert not again.fits(0, 1)
    again.ack(1, 2)
    checkpoint(again)
    assert again.fits(0, 40_000)
    assert again.used <= again.budget


def test_so_many_positions_are_never_unsynced() -> None:
    """Or the skip would not be wide enough. A commit that would go too far takes the sync along."""
    log = relaxed(SimulatedDisk(LOG))
    for _ in range(8):
        log.append(b"", b".", SKIP // 3, 0)
        one = log.commit()
        assert one is not None
        assert (one.overdue is not None) == (one.last - log.synced_up_to >= SKIP)
        one.flush()
        log.committed(one)
        assert log.durable - log.synced_up_to < SKIP
    assert log.synced_up_to > 0
    log.close()


@pytest.mark.parametrize("mode", ["interval", "never", "always"])
def test_what_was_closed_is_opened_as_if_it_had_never_been_otherwise(mode: str) -> None:
    log = relaxed(disk := SimulatedDisk(LOG), mode)
    put(log, CHUNK, CHUNK, b"3")
    log.close()
    log = relaxed(cut(disk), "always")
    assert (log.recovery.lines(), log.next) == ([], 4)
    assert payloads(log) == [CHUNK, CHUNK, b"3"]
    works(log)


def test_a_commit_that_reaches_the_skip_takes_the_sync_along() -> None:
    for count in (SKIP - 1, SKIP):
        log = relaxed(SimulatedDisk(LOG))
        log.append(b"", b".", count, 0)
        one = log.commit()
        assert one is not None
        assert (one.overdue is not None) == (count == SKIP)


def test_what_is_synced_is_not_synced_again() -> None:
    log = relaxed(SimulatedDisk(LOG))
    assert log.sync() is None
    put(log, b"1")
    sync = log.sync()
    assert sync is not None
    assert log.sync() is None, "one is in the air"
    sync.flush()
    log.synced(sync)
    assert log.sync() is None


def full_chunks(log: Log, count: int) -> list[int]:
    """Which of so many commits, each of a chunk, took the sync along."""
    overdue = []
    for number in range(count):
        log.append(b"", CHUNK, 1, 0)
        one = log.commit()
        assert one is not None
        if one.overdue is not None:
            overdue.append(number)
        one.flush()
        log.committed(one)
        assert sum(chunk.fd is not None for chunk in log.chunks) <= UNSYNCED_CHUNKS + 2
    return overdue


def test_so_many_full_chunks_are_open_for_their_sync_and_no_more() -> None:
    log = Log(LogOptions("/log", 1024, 64, sync="interval"), SimulatedDisk(LOG))
    assert full_chunks(log, 40) == [UNSYNCED_CHUNKS + 1, 2 * UNSYNCED_CHUNKS + 2]


def test_a_chunk_that_is_wholly_acked_waits_for_no_sync() -> None:
    """While it is open its space is not free."""
    log = relaxed(SimulatedDisk(LOG), "interval")
    put(log, CHUNK, CHUNK)
    first = log.chunks[0]
    assert first.fd is not None
    log.ack(1, 1)
    checkpoint(log)
    assert first.fd is None


def test_a_chunk_is_not_closed_under_a_commit_that_syncs_it() -> None:
    log = Log(LogOptions("/log", 1024, 64, sync="interval"), SimulatedDisk(LOG))
    full_chunks(log, UNSYNCED_CHUNKS + 1)
    log.append(b"", CHUNK, 1, 0)
    one = log.commit()
    assert one is not None
    assert one.overdue is not None
    log.ack(1, log.durable)
    checkpoint(log)
    one.flush()
    log.committed(one)
    assert log.synced_up_to == log.durable == UNSYNCED_CHUNKS + 2


def test_a_cursor_that_had_to_be_made_anew_is_there_before_a_position_is_given_out() -> None:
    """It alone says that positions may have left no trace."""
    relaxed(disk := SimulatedDisk(LOG)).close()
    disk.unlink("/log/cursor")
    disk.sync_directory("/log")
    assert put(relaxed(disk), b"1") == [1]
    assert relaxed(cut(disk)).next > 1


@pytest.mark.parametrize(("number", "ours"), [(SKIP + 1, True), (SKIP + 2, False)])
def test_a_name_that_is_too_far_up_proves_nothing(number: int, ours: bool) -> None:
    log = relaxed(disk := SimulatedDisk(LOG))
    put(log, b"1")
    disk.after_kill(writeback_fails=False)
    disk.close(disk.open(f"/log/{number:020d}.wal", create=True))
    log = relaxed(disk)
    assert [(gap.first, gap.last) for gap in log.gaps] == ([(2, SKIP)] if ours else [])
    assert payloads(log) == [b"1"]
