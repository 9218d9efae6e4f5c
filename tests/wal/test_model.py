"""Any sequence of what may be done to a log, against thirty lines that do the same with a dictionary."""

from random import Random

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.wal.simulated import SimulatedDisk
from tests.wal.tools import EVERYTHING, checkpoint
from walflow.wal import Commit, Log, Options

Shape = tuple[int, int, bool]


class Model(RuleBasedStateMachine):
    """`waiting` is appended, `kept` is durable and not acked, `acked` since the last cursor may come again."""

    @initialize(shape=st.sampled_from([(1024, 1, False), (1024, 20, False), (65536, 1, True), (65536, 3, True)]))
    def begin(self, shape: Shape) -> None:
        self.shape = shape
        self.disk = SimulatedDisk()
        self.disk.preallocates = shape[2]
        self.waiting: list[tuple[int, bytes]] = []
        self.kept: dict[int, bytes] = {}
        self.acked: dict[int, bytes] = {}
        self.flying: Commit | None = None
        self.open()

    def open(self) -> None:
        self.log = Log(Options("/log", *self.shape[:2], cache_bytes=5000), self.disk)
        self.reader = self.log.reader()
        self.seen: set[int] = set()

    @rule(size=st.integers(0, 2000) | st.sampled_from([0, 700, 816, 65000, 65328]), byte=st.integers(0, 255))
    def append(self, size: int, byte: int) -> None:
        if self.log.fits(0, size):
            payload = bytes([byte]) * size
            self.waiting.append((self.log.append(b"", payload, 1, 0), payload))
        else:
            assert size > 0 or self.log.used > 0

    @precondition(lambda self: self.flying is None)
    @rule()
    def commit(self) -> None:
        self.flying = self.log.commit()
        assert (self.flying is None) == (not self.waiting)

    @precondition(lambda self: self.flying is not None)
    @rule()
    def flush(self) -> None:
        assert self.flying is not None
        self.flying.flush()
        self.log.committed(self.flying)
        count = len(self.flying.refs)
        self.kept.update(self.waiting[:count])
        del self.waiting[:count]
        self.flying = None

    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
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
            assert self.kept[record.position] == record.payload
            self.seen.add(record.position)

    @rule(clean=st.booleans())
    def stop(self, clean: bool) -> None:
        """A clean stop keeps every ack; a crash may lose those the cursor has not heard of."""
        if clean and self.flying is None:
            self.log.close()
            self.acked.clear()
        else:
            self.log.abandon()
        self.forget()

    @rule(seed=st.integers(0, 1 << 32))
    def cut_the_power(self, seed: int) -> None:
        self.disk = self.disk.after_cut(Random(seed))
        self.forget()

    def forget(self) -> None:
        self.flying = None
        self.open()
        found = {record.position: record.payload for record in self.log.reader().read(EVERYTHING)}
        assert self.kept.items() <= found.items(), "what was committed and not acked is there"
        promised = self.kept | self.acked | dict(self.waiting)
        assert found.items() <= promised.items(), "what was never appended is not"
        assert self.log.recovery.gaps == []
        self.kept, self.acked, self.waiting = found, {}, []

    @invariant()
    def holds(self) -> None:
        on_disk = sum(len(file.data) for file in self.disk.chunks().values())
        assert on_disk <= self.log.used <= self.log.budget
        assert 0 <= self.log.fill <= 1
        assert self.log.low <= self.log.durable < self.log.next
        assert set(self.kept) == {
            position for low, high in self.log.unacked(1, self.log.durable) for position in range(low, high + 1)
        }


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
