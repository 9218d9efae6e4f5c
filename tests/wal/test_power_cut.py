"""Cut the power at any operation, in recovery too: what was committed is there, what was not is nowhere promised, and
nobody is told of a corruption that did not happen."""

from random import Random

import pytest

from tests.wal.simulated import PowerCut, SimulatedDisk
from tests.wal.tools import EVERYTHING, checkpoint, put
from walflow.wal import Log, Options

SHAPES = [(1024, 8), (4096, 4), (65536, 2), (1024, 1)]


class Story:
    """A random life of one log, and what the world was promised in it."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.shape = SHAPES[seed % len(SHAPES)]
        self.disk = SimulatedDisk()
        self.disk.preallocates = bool(seed & 4)
        self.promised: dict[int, bytes] = {}  # committed and not acked
        self.appended: dict[int, bytes] = {}  # everything that was ever given a position, the last to have it
        self.done: set[int] = set()

    def live(self, operations: int) -> None:
        """Until the power is cut or it has done enough."""
        self.disk.operations_left = operations
        try:
            log = Log(Options("/log", *self.shape), self.disk)
            self.check(log)
            for _ in range(self.chance.randrange(40)):
                self.step(log)
        except PowerCut:
            pass
        self.disk = self.disk.after_cut(self.chance)

    def step(self, log: Log) -> None:
        what = self.chance.randrange(6)
        if what <= 2:
            self.append(log)
        elif what == 3:
            self.commit(log)
        elif what == 4:
            self.ack(log)
        else:
            self.checkpoint(log)

    def append(self, log: Log) -> None:
        for _ in range(self.chance.randrange(1, 6)):
            payload = self.chance.randbytes(self.chance.choice((0, 3, 100, 600, 1500)))
            if log.fits(0, len(payload)):
                self.appended[log.append(b"", payload, 1, 0)] = payload

    def commit(self, log: Log) -> None:
        commit = log.commit()
        if commit is not None:
            commit.flush()
            log.committed(commit)
            fresh = {record.position: record.payload for record, _, _ in commit.entries}
            assert not fresh.keys() & self.done, "a position was given out twice"
            self.promised |= fresh

    def ack(self, log: Log) -> None:
        for position in self.chance.sample(sorted(self.promised), min(len(self.promised), self.chance.randrange(5))):
            log.ack(position, position)
            del self.promised[position]
            self.done.add(position)

    def checkpoint(self, log: Log) -> None:
        checkpoint = log.checkpoint()
        if checkpoint is not None:
            checkpoint.flush()
            log.checkpointed(checkpoint)
        assert sum(len(file.data) for file in self.disk.chunks().values()) <= log.budget

    def check(self, log: Log) -> None:
        reader = log.reader()
        found = {record.position: record.payload for record in reader.read(EVERYTHING)}
        reader.close()
        assert log.gaps == [], "nothing was lost, so nothing may be called lost"
        assert self.promised.items() <= found.items()
        assert found.items() <= self.appended.items(), "never altered, never out of thin air"
        self.promised |= {position: found[position] for position in found if position not in self.done}
        for position in self.done & found.keys():  # acked, and the cursor never got to say so
            log.ack(position, position)


@pytest.mark.parametrize("block", range(8))
def test_the_power_may_be_cut_at_any_operation(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        story = Story(seed)
        for _ in range(8):
            story.live(story.chance.choice((3, 10, 30, 60, 1000)))


def test_the_power_may_be_cut_at_every_operation_of_one_life() -> None:
    for operations in range(120):
        story = Story(5)
        story.live(operations)
        for nested in (operations % 7, 11, 1000):  # recovery is cut as well, then comes to its end
            story.live(nested)


def uncut(disk: SimulatedDisk) -> SimulatedDisk:
    """The power goes, and nothing that was not synced makes it."""

    class Never(Random):
        def choice(self, seq):  # type: ignore[no-untyped-def]
            return 0.0

    return disk.after_cut(Never())


def opened(disk: SimulatedDisk) -> Log:
    return Log(Options("/log", 4096, 4), disk)


def read_all(log: Log) -> list[bytes]:
    return [record.payload for record in log.reader().read(EVERYTHING)]


def test_its_name_is_safe_before_anyone_hears_it() -> None:
    disk = SimulatedDisk()
    uuid = opened(disk).uuid
    assert opened(uncut(disk)).uuid == uuid


@pytest.mark.parametrize("operations", range(1, 6))
@pytest.mark.parametrize("writeback_fails", [False, True])
def test_what_is_delivered_after_a_kill_is_there_after_a_power_cut(operations: int, writeback_fails: bool) -> None:
    """Written, not synced, read back from the page cache by the next process: it must be written again first."""
    disk = SimulatedDisk()
    log = opened(disk)
    log.append(b"", b"a" * 1000, 1, 0)
    commit = log.commit()
    assert commit is not None
    disk.operations_left = operations
    try:
        commit.flush()
    except PowerCut:
        pass
    disk.after_kill(writeback_fails=writeback_fails)
    delivered = read_all(opened(disk))
    assert delivered == ([b"a" * 1000] if operations > 1 else [])
    assert read_all(opened(uncut(disk))) == delivered


def test_a_cursor_that_had_to_be_made_anew_holds() -> None:
    disk = SimulatedDisk()
    log = opened(disk)
    put(log, *[b"b" * 1000] * 5)
    log.abandon()
    disk.unlink("/log/cursor")
    disk.sync_directory("/log")
    log = opened(disk)
    log.ack(1, 2)
    checkpoint(log)
    log = opened(uncut(disk))
    assert log.low == 2
    assert log.gaps == []
