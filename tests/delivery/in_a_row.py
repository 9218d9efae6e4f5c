"""Two logs in a row and a sink, built from a flow file as the daemon builds them, in virtual time."""

import gc
from collections.abc import Sequence

from connectors.wal import RunningLog, Wal
from tests.delivery.assembled import assembled
from tests.flows.builder import NULL, flow_of, plain
from tests.nodes.world import World
from tests.operators.flows import Sink
from walflow import Block, Frames, StreamId
from walflow.codecs import JSON
from walflow.delivery import Arriving
from walflow.disk import Disk
from walflow.framing import LINES
from walflow.nodes.build import build
from walflow.nodes.connector import ConnectorNodes
from walflow.plan import Assembly
from walflow.receipt import Receipt
from walflow.testing import MemoryDisk
from walflow.wal import Log

STRAIGHT = """
  create pipeline p from pipelines::passthrough;
  connect /connector/first to /pipeline/p;
  connect /pipeline/p to /connector/second;
"""


def row_in(path: str, body: str = STRAIGHT, chunk_size: int = 2048, max_chunks: int = 64) -> Assembly:
    """The flow whose logs are in that directory."""
    first, second = (
        plain("wal", path=f"{path}/{name}", chunk_size=chunk_size, max_chunks=max_chunks)
        for name in ("first", "second")
    )
    return assembled(flow_of("second -> last", beside=body, first=first, second=second, last=NULL, other=NULL))


class HalfRow:
    """One of the logs."""

    def __init__(self, nodes: ConnectorNodes, world: World, disk: Disk) -> None:
        wal = nodes.plan.connector
        assert isinstance(wal, Wal)
        self.nodes = nodes
        context = world.context(str(nodes.plan.id))
        nodes.sink.begin(context)
        outlet = nodes.source.begin(context)
        self.log = Log(wal.options(), disk)
        wants = nodes.sink.upstream.straight or nodes.sink.upstream.straight_files
        self.arriving = Arriving(self.log, nodes.sink) if wants and wal.sync == "always" else None
        try:
            if self.arriving is not None:
                self.arriving.open()
            self.running = RunningLog(wal, self.log, nodes.sink, outlet, self.arriving)
        except BaseException:
            self.log.abandon()
            raise
        self._came: list[Block] = []
        nodes.sink.serve(self.accept)

    def accept(self, block: Block) -> None:
        self._came = [one for one in self._came if one.receipt.pending]
        self._came.append(block)
        self.running.writer.accept(block)

    def stop(self) -> None:
        """Nothing is begun any more, and what came is no one's."""
        self.running.stop()
        for block in self._came:
            _forget(block.receipt)
        self.nodes.source.end()
        self.nodes.sink.end("stopped")


class LastSink(Sink):
    def __init__(self, nodes: ConnectorNodes, world: World, delivered: dict[int, int]) -> None:
        super().__init__(nodes, world)
        self._delivered = delivered

    def _take(self, block: Block) -> None:
        super()._take(block)
        assert block.positions is not None
        for position, value in zip(block.positions, block.values, strict=True):
            self._delivered[position] = value["id"]  # type: ignore[index]


class RowOnDisk:
    """One life. `delivered`: by its position in the second log, each event that it sent. `given`: all that was."""

    def __init__(self, flow: Assembly, disk: Disk) -> None:
        self.world = World()
        self.scheduler = self.world.scheduler
        self.disk = disk
        self.delivered: dict[int, int] = {}
        self.given: list[tuple[Receipt, Sequence[int]]] = []
        nodes = build(flow, self.world.metrics)
        by_name = {one.plan.id.name: one for one in nodes.connectors}
        for operator in nodes.operators:
            operator.node.begin(self.scheduler)
        self.last = LastSink(by_name["last"], self.world, self.delivered)
        self.other = Sink(by_name["other"], self.world)
        self.halves: list[HalfRow] = []
        try:
            for name in ("second", "first"):
                self.halves.append(HalfRow(by_name[name], self.world, self.disk))
        except BaseException:
            self.void()
            raise
        self.second, self.first = self.halves
        for sink in (self.last, self.other):
            if sink.node.linked:
                sink.start()
        self.settle()

    def settle(self) -> None:
        self.scheduler.run()

    def give(self, *ids: int, size: int = 0) -> Receipt:
        """One block, to the first log."""
        data = b"".join(b'{"id":%d,"x":"%s"}\n' % (number, b"y" * size) for number in ids)
        receipt = Receipt(_settled, len(ids))
        self.given.append((receipt, ids))
        block = Block(StreamId("main::tcp", 7, 1), Frames(data, len(ids), LINES), JSON, receipt, ingest_ns=5, meta={})
        self.first.nodes.sink.accept(block)
        self.settle()
        return receipt

    def ack(self) -> None:
        """All that came to the sinks, and what comes because of that."""
        while self.last.waiting or self.other.waiting:
            self.last.ack()
            self.other.ack()
            self.settle()

    def advance(self, seconds: float = 1.0) -> None:
        self.scheduler.advance(seconds)
        self.settle()

    def known(self) -> int:
        """How many events were dropped because the second log had them."""
        return self.world.metrics.counter(
            "wal_known_events_total", **self.second.nodes.plan.labels
        ).value or self.world.count("wal_known_events_total")

    def content(self) -> Sequence[int]:
        """All events that the second log ever sent, by position."""
        return [id for _, id in sorted(self.delivered.items())]

    def cut(self) -> None:
        """The machine is gone, in the middle of a call: no one holds what that one held."""
        for half in self.halves:
            half.stop()
        self._void_sinks()
        for one in gc.get_objects():
            if type(one) is Receipt and one.pending:
                _forget(one)

    def crash(self) -> None:
        self.void()

    def close(self) -> None:
        for half in self.halves:
            half.stop()
        self._void_sinks()
        self.scheduler.run()
        for half in self.halves:
            half.log.close()

    def void(self) -> None:
        """The process is gone, and its blocks with it."""
        for half in self.halves:
            half.stop()
        self._void_sinks()
        for half in self.halves:
            half.log.abandon()

    def _void_sinks(self) -> None:
        for receipt, _ in self.given:
            receipt.pending = 0
        for sink in (self.last, self.other):
            for block in sink.waiting:
                _forget(block.receipt)
            sink.waiting.clear()


class Row(RowOnDisk):
    """On a disk in memory."""

    disk: MemoryDisk

    def __init__(self, body: str = STRAIGHT, *, disk: MemoryDisk | None = None) -> None:
        super().__init__(row_in("", body), disk or MemoryDisk())


def _forget(receipt: Receipt) -> None:
    """It and the one that it is a part of."""
    whole = getattr(receipt.settled, "__self__", None)
    receipt.settled, receipt.pending = _settled, 0
    if isinstance(whole, Receipt):
        _forget(whole)


def _settled(receipt: Receipt) -> None: ...
