"""`sync = "interval"` and `"never"`: what is acked before it is synced. The process may be killed at any operation and
nothing is lost. The power may be cut at any operation, in recovery too: what was synced is there; what was acked and is
not there is reported with its positions, or stood behind everything that is; and no position is given out twice."""

import re
from random import Random

import pytest

from tests.wal.tools import EVERYTHING
from walflow.testing import PowerCut, SimulatedDisk, images
from walflow.testing.disk import Kept
from walflow.wal import Log, Options
from walflow.wal.format import SKIP

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
        self.safe: set[int] = set()
        self.given: set[int] = set()  # positions that sinks may know
        self.interrupted = False  # a recovery was, before it could tell
        self.lost = 0
        self.untraced = 0

    def live(self, operations: int, *, kill: bool = False) -> None:
        self.disk.operations_left = operations
        opened = False
        try:
            log = self.open(kill=kill)
            opened = True
            for _ in range(self.dice.randrange(40)):
                self.step(log)
            if not self.dice.randrange(4):
                log.close()
                self.safe |= self.acked.keys()
        except PowerCut:
            self.interrupted |= not opened
        if kill:
            self.disk.after_kill(writeback_fails=False)
        else:
            found = self.dice.choice(list(images(self.disk, self.dice, 8)))
            self.disk = self.disk.like_this(found.files)

    def open(self, *, kill: bool) -> Log:
        mode = self.dice.choice(self.modes)
        log = Log(Options("/log", *self.shape, sync=mode), self.disk)  # type: ignore[arg-type]
        reader = log.reader()
        found = {record.position: record.payload for record in reader.read(EVERYTHING)}
        reader.close()
        assert found.items() <= self.appended.items(), "never altered, never out of thin air"
        missing = self.acked.keys() - found.keys()
        assert all(gap.last - gap.first < SKIP // 2 for gap in log.gaps), "a skip is no loss"
        reported = {position for gap in log.gaps for position in range(gap.first, gap.last + 1)}
        assert not missing & self.safe, "what was synced is there"
        assert not reported & found.keys(), "what is there is not called lost"
        assert not reported & self.safe - self.done
        if kill:
            assert log.gaps == []
            assert not missing, "a process that dies loses nothing"
        silent = missing - reported
        if silent and not self.interrupted:
            (note,) = re.findall(r"acked behind position (\d+) may be gone", "".join(log.recovery.lines()))
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
        self.safe |= self.acked.keys()  # synced by recovery
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
                checkpoint.flush()
                log.checkpointed(checkpoint)
            assert sum(size for path, size in self.disk.sizes().items() if _counts(path)) <= log.budget
        else:
            sync = log.sync()
            if sync is not None:
                sync.flush()
                log.synced(sync)
        self.safe |= {position for position in self.acked if position <= log.safe}

    def append(self, log: Log) -> None:
        for _ in range(self.dice.randrange(1, 6)):
            payload = self.dice.randbytes(self.dice.choice((0, 3, 100, 600, 1500)))
            if log.fits(0, len(payload)):
                position = log.append(b"", payload, 1, 0)
                assert position not in self.done | self.acked.keys(), "a position was given out twice"
                self.appended[position] = payload

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


@pytest.mark.parametrize("block", range(8))
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
