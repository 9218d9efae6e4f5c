"""The nodes of one pipeline, fed from a file descriptor and written to another."""

import os
import select
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import count
from typing import Final, NamedTuple

from walflow.contract import Timer
from walflow.errors import WalflowError
from walflow.event import Block, Codec, Frames, StreamId
from walflow.filters.complaints import Complaints
from walflow.framing import LINES, Incoming, Outgoing
from walflow.lang.config import NodeId
from walflow.metrics import Metrics
from walflow.nodes.build import build
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.ingress import IngressStream
from walflow.nodes.run_context import context_without_loop
from walflow.nodes.staged import StagedStream
from walflow.offsets import EventEnds
from walflow.plan.alone import EXIT, Alone, ExitEnd
from walflow.plan.assembly import ERR, Assembly, ConnectorPlan, Link
from walflow.receipt import Receipt
from walflow.testing.world import VirtualScheduler
from walflow.world import monotonic, wall_ns

READ_BYTES: Final = 256 << 10
MAX_EVENT_BYTES: Final = 64 << 20
BLOCK_BYTES: Final = 256 << 10
BLOCK_EVENTS: Final = 4096


class Wires(NamedTuple):
    """How events look outside."""

    decoder: Codec
    preframing: Incoming
    encoder: Codec
    postframing: Outgoing


class OutputLost(WalflowError):
    """What the filter makes can no longer be written. The text is the system's reason."""


class Filter:
    """`name`: of the input, for messages. `entry`: the port that it comes to. `ports`: whose events are written;
    those that leave by others are counted in `unwritten`.
    `flushes`: at the end of the input open windows are closed, and not dropped."""

    def __init__(
        self,
        alone: Alone,
        wires: Wires,
        entry: str,
        ports: Collection[str],
        write: Callable[[bytes], None],
        complaints: Complaints,
        name: str = "stdin",
        *,
        flushes: bool = False,
    ) -> None:
        self._alone = alone
        self._wires = wires
        self._ports = ports
        self._write = write
        self._complaints = complaints
        self._scheduler = VirtualScheduler()
        self._clock = monotonic()
        self.unwritten: dict[str, int] = {}
        self._lost: OSError | None = None
        connectors, self._operators, _ = build(self._assembly(), Metrics(), flushes=flushes)
        nodes = {one.plan.id: one for one in connectors}
        context = context_without_loop(self._scheduler)
        for one in connectors:
            one.sink.begin(context)
            one.sink.serve(self._taker(one))
        for operator in self._operators:
            operator.node.begin(self._scheduler)
        self._feed = _Feed(nodes[alone.entries[entry]], name, wires, complaints, self._scheduler.call_later)

    def _assembly(self) -> Assembly:
        """What cannot be written goes to an exit too."""
        alone, wires = self._alone, self._wires
        lost = NodeId("", "connector", ERR)
        connectors: list[ConnectorPlan] = []
        for plan in alone.assembly.connectors:
            if alone.exits.get(plan.id) in self._ports:
                plan = replace(plan, codec=wires.encoder, postframing=wires.postframing)
            connectors.append(plan)
        connectors.append(ConnectorPlan(lost, EXIT, ExitEnd(), None, None, None))
        links = [*alone.assembly.links, *(Link(plan.id, ERR, lost, "in") for plan in alone.assembly.connectors)]
        return Assembly(tuple(connectors), alone.assembly.pipelines, tuple(links))

    def _taker(self, nodes: ConnectorNodes) -> Callable[[Block], None]:
        if nodes.plan.id in self._alone.logs:
            return nodes.source.ports.out.accept
        port = self._alone.exits.get(nodes.plan.id, ERR)

        def take(block: Block) -> None:
            if port in self._ports:
                self._written(block.frames.data)
            elif block.meta.get("rejected"):
                for payload in block.frames.payloads():
                    self._complaints.of_event(payload)
            else:
                self.unwritten[port] = self.unwritten.get(port, 0) + block.frames.count
            nodes.sink.ack(block)

        return take

    def _written(self, data: bytes) -> None:
        if self._lost is None:
            try:
                self._write(data)
            except OSError as error:
                self._lost = error

    def _check_output(self) -> None:
        if self._lost is not None:
            raise OutputLost(self._lost.strerror or str(self._lost)) from self._lost

    def feed(self, data: bytes) -> None:
        """What it makes of these bytes is written, but for what an operator holds. Raises OutputLost."""
        self._feed.feed(data)
        self._scheduler.run()
        self._check_output()

    def end(self) -> None:
        """The input has ended: what is held is written. Raises OutputLost."""
        self._feed.end()
        self._scheduler.run()
        for operator in self._operators:
            operator.node.drain()
        self._scheduler.run()
        for operator in self._operators:
            operator.node.end()
        self._check_output()

    def follow(self, fd: int) -> None:
        """All that comes from there, until it ends. Raises OSError, OutputLost."""
        waits = select.poll()
        waits.register(fd, select.POLLIN)
        while True:
            self._let_time_pass()
            timers = self._scheduler.timers
            # a file is always ready; a pipe may have nothing for a long time, while an operator's timer is due
            if timers and not waits.poll(max(0.0, timers[0]) * 1000):
                continue
            data = os.read(fd, READ_BYTES)
            if not data:
                break
            self.feed(data)
        self.end()

    def _let_time_pass(self) -> None:
        now = monotonic()
        self._scheduler.advance(now - self._clock)
        self._clock = now


class _Feed:
    """Bytes into blocks: what a stream hands its blocks to, see `walflow.nodes.ingress.Delivery`."""

    def __init__(
        self,
        entry: ConnectorNodes,
        name: str,
        wires: Wires,
        complaints: Complaints,
        later: Callable[[float, Callable[[], None]], Timer],
    ) -> None:
        self._name = name
        self._later = later
        self._out = entry.source.ports.out
        self._complaints = complaints
        self._turns: deque[Callable[[], None]] = deque()
        self._numbers = count()
        self._lines = _Lines() if wires.preframing == Incoming((), LINES) else None
        stream_id = StreamId(entry.name, 1, 1)
        codec, incoming = wires.decoder, wires.preframing
        self._broken = False
        self._stream = (
            StagedStream(self, stream_id, {}, codec, incoming, MAX_EVENT_BYTES, _nothing, _nothing, self._break)
            if incoming.steps
            else IngressStream(self, stream_id, {}, codec, incoming.framing, MAX_EVENT_BYTES, _nothing, _nothing)
        )

    def feed(self, data: bytes) -> None:
        if self._lines is not None:
            self._lines.next(data)
        if not self._broken:
            self._stream.feed(data)
        self._take_turns()

    def end(self) -> None:
        self._stream.eof(complete=True)
        self._take_turns()

    def _take_turns(self) -> None:
        while self._turns:
            self._turns.popleft()()

    def _break(self) -> None:
        self._broken = True  # what follows cannot be read; why has been said

    # what the stream calls

    def deliver(self, stream: IngressStream, frames: Frames, codec: Codec, ends: EventEnds | None = None) -> None:
        now = wall_ns()
        for part in frames.parts(frames.sizes(BLOCK_BYTES, BLOCK_EVENTS)):
            receipt = Receipt(_settled, part.count)
            self._out.accept(Block(stream.id, part, codec, receipt, ingest_ns=now, meta=stream.meta))

    def refuse(self, stream: IngressStream, bad: Sequence[tuple[bytes, str]]) -> None:
        for payload, reason in bad:
            if self._lines is not None and not payload.strip() and reason.startswith("not JSON"):
                continue  # a line of nothing
            line = self._lines.of(payload) if self._lines is not None else None
            where = self._name if line is None else f"{self._name}:{line}"
            self._complaints.of_input(where, payload, reason)

    def ended(self, stream: IngressStream) -> None: ...

    def next_turn(self, call: Callable[[], None]) -> None:
        self._turns.append(call)

    def later(self, delay: float, call: Callable[[], None]) -> Timer:
        return self._later(delay, call)


class _Lines:
    """Finds the number of a line that was just read."""

    def __init__(self) -> None:
        self._before = 0  # lines before those that are looked at
        self._data = b""
        self._from = 0

    def next(self, data: bytes) -> None:
        tail = self._data[self._data.rfind(b"\n") + 1 :]
        self._before += LINES.count(self._data)
        self._data = tail + data if len(tail) < READ_BYTES else data  # one that is longer has no number
        self._from = 0

    def of(self, payload: bytes) -> int | None:
        at = self._from
        while (at := self._data.find(payload, at)) >= 0:
            end = at + len(payload)
            begins = at == 0 or self._data[at - 1 : at] == b"\n"
            if begins and self._data[end : end + 1] in (b"", b"\n", b"\r"):
                self._from = end
                return self._before + self._data.count(b"\n", 0, at) + 1
            at += 1
        return None


def _settled(receipt: Receipt) -> None:
    """What fails has been told where it failed: nothing is sent again."""


def _nothing() -> None: ...
