"""Any sequence of what may be done to a log, against a few dozen lines that do the same with a dictionary."""

from random import Random

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.examples import examples
from tests.proof.judge import charged, positions
from tests.wal.tools import EVERYTHING, checkpoint
from walflow.testing import SimulatedDisk
from walflow.testing.cuts import power_cut
from walflow.wal import Commit, Log, LogOptions, Record

Shape = tuple[int, int, bool]
Event = tuple[int, bytes]  # the first position of its record, and the record's payload

SIZES = st.integers(0, 2000) | st.sampled_from([0, 700, 816, 65000, 65328])


class Model(RuleBasedStateMachine):
    """By position: `waiting` is appended, `kept` is durable and not acked, `acked` since the last cursor may come
    again."""

    @initialize(shape=st.sampled_from([(1024, 1, False), (1024, 20, False), (65536, 1, True), (65536, 3, True)]))
    def begin(self, shape: Shape) -> None:
        self.shape = shape
        self.disk = SimulatedDisk()
        self.disk.preallocates = shape[2]
        self.waiting: list[dict[int, Event]] = []
        self.kept: dict[int, Event] = {}
        self.acked: dict[int, Event] = {}
        self.gone: set[int] = set()  # called lost; until the cursor knows, they may be called so again
        self.flying: Commit | None = None
        self.open()

    def open(self) -> None:
        self.log = Log(LogOptions("/log", *self.shape[:2], cache_bytes=5000), self.disk)
        self.reader = self.log.reader()
        self.seen: set[int] = set()

    def put(self, count: int, payload: bytes, clock: int = 0) -> bool:
        if not self.log.fits(0, len(payload)):
            return False
        first = self.log.append(b"", payload, count, clock)
        self.waiting.append(dict.fromkeys(range(first, first + count), (first, payload)))
        return True

    @rule(count=st.integers(1, 4), size=SIZES, byte=st.integers(0, 255), clock=st.integers(-9, 9))
    def append(self, count: int, size: int, byte: int, clock: int) -> None:
        if not self.put(count, bytes([byte]) * size, clock):
            assert size > 0 or self.log.used > 0

    @rule(byte=st.integers(0, 255))
    def rotate(self, byte: int) -> None:
        """A chunk's worth."""
        for _ in range(3):
            self.put(1, bytes([byte]) * (self.shape[0] // 2 - 100))

    @precondition(lambda self: self.flying is None)
    @rule()
    def fill(self) -> None:
        while self.put(1, b"fill" * (self.shape[0] // 8)):
            self.commit()
            self.flush()

    @precondition(lambda self: self.flying is None)
    @rule()
    def drain(self) -> None:
        """All that is durable is acked; then there is room for the largest record, once what waits is durable."""
        while self.waiting:
            self.commit()
            self.flush()
        self.log.ack(1, self.log.durable)
        self.kept.clear()
        self.log.fits(0, self.log.max_record)  # somebody waits for the room
        self.checkpoint(force=False)
        assert self.log.fits(0, self.log.max_record)

    @precondition(lambda self: self.flying is None)
    @rule()
    def commit(self) -> None:
        self.flying = self.log.commit()
        assert (self.flying is None) == (not self.waiting)

    @precondition(lambda self: self.flying is not None)
    @rule()
    def flush(self) -> None:
        if self.flying is None:
            return
        self.flying.flush()
        self.log.committed(self.flying)
        count = len(self.flying.refs)
        for events in self.waiting[:count]:
            self.kept |= events
        del self.waiting[:count]
        self.flying = None

    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        """In any order, and of a record one part before the other."""
        if self.kept:
            first = data.draw(st.sampled_from(sorted(self.kept)))
            last = first + data.draw(st.integers(0, 3))
            self.log.ack(first, last)
            for position in range(first, last + 1):
                if position in self.kept:
                    self.acked[position] = self.kept.pop(position)

    @rule(force=st.booleans())
    def checkpoint(self, force: bool) -> None:
        checkpoint(self.log, force=force)
        self.acked.clear()

    @rule(size=st.integers(1, 5000))
    def read(self, size: int) -> None:
        for record in self.reader.read(size):
            assert record.position not in self.seen, "once per reader"
            self.seen.add(record.position)
            self.is_kept(record)

    @rule()
    def fail(self) -> None:
        """What was read comes again, all that is not acked."""
        self.reader.close()
        self.reader, self.seen = self.log.reader(), set()
        for record in (found := self.reader.read(EVERYTHING)):
            self.is_kept(record)
        assert self.kept.keys() <= positions_of(found)

    def is_kept(self, record: Record) -> None:
        events = [self.kept.get(position) for position in positions_of([record])]
        assert any(events), "some of it is not acked"
        assert {event for event in events if event} == {(record.position, record.payload)}

    @rule(clean=st.booleans())
    def stop(self, clean: bool) -> None:
        """A clean stop keeps every ack; a crash may lose those the cursor has not heard of."""
        self.end(clean=clean and self.flying is None)
        self.reopened()
        assert self.lost() <= self.gone

    def end(self, *, clean: bool) -> None:
        if clean:
            self.log.close()
            self.acked.clear()
        else:
            self.log.abandon()

    @rule(seed=st.integers(0, 1 << 32))
    def cut_the_power(self, seed: int) -> None:
        power_cut(self.disk, Random(seed))
        self.reopened()
        assert self.lost() <= self.gone

    @precondition(lambda self: self.flying is None)
    @rule(data=st.data())
    def corrupt(self, data: st.DataObject) -> None:
        """A bit of a chunk flips while the log is closed. What it costs is reported."""
        self.end(clean=True)
        names = [path for path in self.disk.sizes() if path.endswith(".wal")]
        if names:
            name = data.draw(st.sampled_from(names))
            content = bytearray(self.disk.content(name))
            content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
            fd = self.disk.open(name)
            self.disk.write(fd, [bytes(content)], 0)
            self.disk.sync(fd)
            self.disk.close(fd)
        self.reopened()
        self.gone |= self.lost()

    def lost(self) -> set[int]:
        return positions((gap.first, gap.last) for gap in self.log.gaps)

    def reopened(self) -> None:
        """What was committed and not acked is there, or called lost; what was never appended is not."""
        self.flying = None
        self.open()
        found = self.log.reader().read(EVERYTHING)
        assert [one.ingest_ns for one in found] == sorted(one.ingest_ns for one in found), "time goes on"
        events = {at: (one.position, one.payload) for one in found for at in positions_of([one])}
        lost = self.lost()
        assert self.kept.keys() - lost <= events.keys()
        assert not lost & events.keys()
        known = self.kept | self.acked
        for waiting in self.waiting:
            known |= waiting
        unacked = positions(self.log.unacked(1, self.log.durable))
        assert unacked <= events.keys()
        assert all(known.get(position) == events[position] for position in unacked)
        self.kept, self.acked, self.waiting = {at: events[at] for at in unacked}, {}, []

    @invariant()
    def holds(self) -> None:
        assert charged(self.disk, "/log") <= self.log.used <= self.log.budget
        assert 0 <= self.log.fill <= 1
        assert self.log.low <= self.log.durable < self.log.next
        assert self.kept.keys() == positions(self.log.unacked(1, self.log.durable))


def positions_of(records: list[Record]) -> set[int]:
    return positions((record.position, record.position + record.count - 1) for record in records)


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=examples(120), stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
