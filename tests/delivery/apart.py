"""A log and its sinks, built from a flow file as the daemon builds them, on a disk in memory, in virtual time. What
comes to a sink waits until the test says what becomes of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from connectors.wal import RunningLog, Wal
from tests.delivery.assembled import assembled
from tests.flows.builder import NULL, flow_of
from tests.nodes.world import World
from tests.operators.flows import Sink
from walflow import Block, Frames, StreamId
from walflow.codecs import JSON
from walflow.framing import LINES
from walflow.nodes.build import build
from walflow.receipt import Receipt
from walflow.testing import MemoryDisk, VirtualClock
from walflow.wal import Log


class Apart:
    """One life. `sinks`: by name; one with a slash is a buffer for results that the flow has anyway. Those that are
    `away` have not come up."""

    def __init__(
        self,
        body: str,
        sinks: Sequence[str],
        *,
        disk: MemoryDisk | None = None,
        config: str = '"lanes": "apart", "chunk_size": 65536, "max_chunks": 8',
        away: Sequence[str] = (),
        wall_ns: int | None = None,
        settled: bool = True,
    ) -> None:
        self.world = World()
        self.scheduler = self.world.scheduler
        self.clock = VirtualClock(self.scheduler) if wall_ns is None else VirtualClock(self.scheduler, wall_ns)
        self.disk = disk or MemoryDisk()
        log = f'wal with config = {{"path": "/log", {config}}} end'
        text = flow_of(beside=body, log=log, **{name: NULL for name in sinks if "/" not in name})
        nodes = build(assembled(text), self.world.metrics)
        self.ports = nodes.ports
        by_name = {one.plan.id.name: one for one in nodes.connectors}
        self.nodes = by_name["log"]
        self._operators = nodes.operators
        for operator in nodes.operators:
            operator.node.begin(self.scheduler)
        wal = self.nodes.plan.connector
        assert isinstance(wal, Wal)
        self.sinks = {name: Sink(by_name[name], self.world) for name in sinks}
        self.gauges: dict[tuple[str, str], Callable[[], float]] = {}
        context = replace(self.world.context("main::log"), gauge=self._gauge)
        self.nodes.sink.begin(context)
        self.outlet = self.nodes.source.begin(context)
        self._given: list[Receipt] = []
        self.log = Log(wal.options(), self.disk, self.clock)
        self.running = RunningLog(wal, self.log, self.nodes.sink, self.outlet)
        for name, sink in self.sinks.items():
            if name not in away:
                sink.start()
        if settled:
            self.settle()

    def settle(self) -> None:
        self.scheduler.run()

    def _gauge(self, name: str, read: Callable[[], float], **labels: str) -> None:
        self.gauges[name, labels.get("lane", "")] = read

    def give(self, *ids: int, size: int = 0, ingest_ns: int = 5) -> Receipt:
        """One block."""
        data = b"".join(b'{"id":%d,"x":"%s"}\n' % (number, b"y" * size) for number in ids)
        receipt = Receipt(_settled, len(ids))
        self._given.append(receipt)
        frames = Frames(data, len(ids), LINES)
        block = Block(StreamId("main::tcp", 7, 1), frames, JSON, receipt, ingest_ns=ingest_ns, meta={})
        self.nodes.sink.accept(block)
        self.settle()
        return receipt

    def ids(self, sink: str) -> list[int]:
        """All that ever came, in the order in which it came."""
        return [value["id"] for value in self.sinks[sink].got]  # type: ignore[index]

    def ack(self, *sinks: str) -> None:
        """All that came to them, and what comes because of that."""
        while any(self.sinks[name].waiting for name in sinks):
            for name in sinks:
                self.sinks[name].ack()
            self.settle()

    def lanes(self) -> dict[str, int]:
        """How many events each of them lacks."""
        return {name: outlet.waiting() for name, outlet in self.outlet.lanes.items()}

    def checkpoint(self) -> None:
        """What was acked is in the cursor, and so is what recovery finds."""
        self.scheduler.advance(1.0)
        self.settle()

    def crash(self) -> None:
        self.running.stop()
        self._void()
        for letters in self.running.letters:
            letters.close(abandon=True)
            letters.closed()
        self.log.abandon()

    def close(self) -> None:
        self.running.stop()
        self._void()
        self.settle()
        for letters in self.running.letters:
            letters.close(abandon=False)
            letters.closed()
        self.log.close()

    def _void(self) -> None:
        """The process is gone, and its blocks with it."""
        self.nodes.source.end()
        for receipt in self._given:
            receipt.pending = 0
        for sink in self.sinks.values():
            for block in sink.waiting:
                block.receipt.ack()
            sink.waiting.clear()
            sink.node.end("stopped")
            sink.node.abandon()
        for operator in self._operators:
            operator.node.end()


def _settled(receipt: Receipt) -> None: ...
