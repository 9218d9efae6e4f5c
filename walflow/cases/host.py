"""The input of a case through the nodes that the daemon is made of, with the clock of the test.

Time is what the events say: before an event the timers that are due by then go off. After the last one the operators
give what they hold, as at a stop.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

from structlog.testing import capture_logs

from walflow.cases.folder import BadCase, Case, Given
from walflow.cases.subject import Subject
from walflow.cases.values import Json, value_of
from walflow.codecs import JSON, JSON_SORTED
from walflow.diagnostics import did_you_mean, one_of
from walflow.errors import CannotDecode, CannotEncode
from walflow.event import Block, Frames, Origin, StreamId
from walflow.framing import LINES
from walflow.lang.config import NodeId
from walflow.metrics import Metrics
from walflow.nodes.build import build
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.run_context import context_without_loop
from walflow.receipt import Receipt
from walflow.testing.world import VirtualScheduler

LOG: Final = "walflow test"  # where all events seem to come from
BLOCK_EVENTS: Final = 4096


class Came(NamedTuple):
    """An event that left. `line`: its value, as it was written. `rejected`: an error event of walflow's."""

    line: str
    members: Mapping[str, Json]
    rejected: bool


class Ran(NamedTuple):
    """What left, by port, and what went wrong besides: a bug of walflow's, an event without an outcome."""

    came: Mapping[str, Sequence[Came]]
    troubles: Sequence[str]


def run(case: Case, subject: Subject, given: Sequence[Given], most: int = BLOCK_EVENTS) -> Ran:
    """`most`: events of a block. Those of one time, one port and one stream make a block."""
    with capture_logs() as lines:
        ran = _Run(case, subject).run(given, most)
    warned = [line for line in lines if line["log_level"] in {"warning", "error"}]
    return ran._replace(troubles=[*ran.troubles, *map(_log_line, warned)])


@dataclass
class _Run:
    case: Case
    subject: Subject
    came: dict[str, list[Came]] = field(default_factory=dict[str, list[Came]])
    troubles: list[str] = field(default_factory=list[str])

    def run(self, given: Sequence[Given], most: int) -> Ran:
        ways = {one.port: self._entry(one.port) for one in given}
        scheduler = VirtualScheduler()
        connectors, operators, _ = build(self.subject.assembly, Metrics())
        nodes = {one.plan.id: one for one in connectors}
        context = context_without_loop(scheduler)
        for one in connectors:
            one.sink.begin(context)
            one.sink.serve(self._taker(one))
        for operator in operators:
            operator.node.begin(scheduler)
        receipts: list[Receipt] = []
        now = given[0].ingest_ns if given else 0
        for first, some in _blocks(given, most):
            at = some[0]
            scheduler.advance((at.ingest_ns - now) / 1e9)
            now = at.ingest_ns
            if at.payload is not None:
                receipt = Receipt(lambda _: None, len(some), first)
                receipts.append(receipt)
                self._send(nodes[ways[at.port]], some, first, receipt)
                scheduler.run()
        for operator in operators:
            operator.node.drain()
        scheduler.run()
        for operator in operators:
            operator.node.end()
        self._account(receipts)
        return Ran(self.came, self.troubles)

    def _entry(self, port: str) -> NodeId:
        entries = self.subject.entries
        if port not in entries:
            hint = did_you_mean(port, entries) or (f"there is {one_of(entries)}" if entries else "it reads nothing")
            raise BadCase(f"{self.case.folder}: no input `{port}`; {hint}")
        return entries[port]

    def _send(self, to: ConnectorNodes, some: Sequence[Given], first: int, receipt: Receipt) -> None:
        payloads = [one.payload for one in some if one.payload is not None]
        metas = [one.meta for one in some]
        alike = all(meta == metas[0] for meta in metas)
        block = Block(
            StreamId(to.name, 1, some[0].stream),
            Frames(LINES.join(payloads), len(payloads), LINES),
            JSON,
            receipt,
            ingest_ns=some[0].ingest_ns,
            meta=metas[0] if alike else {},
            event_metas=None if alike else metas,
            origin=Origin(LOG, first, first + len(some) - 1, 1),
        )
        try:
            _leave(to, block)
        except Exception as error:  # noqa: BLE001 - a bug of walflow's fails its case, and no other
            self.troubles.append(f"internal error: {type(error).__name__}: {error}")

    def _taker(self, nodes: ConnectorNodes) -> Callable[[Block], None]:
        node = nodes.plan.id
        if node in self.subject.passes:

            def hand_on(block: Block) -> None:
                _leave(nodes, block)

            return hand_on
        port = self.subject.exits.get(node, node.name)

        def take(block: Block) -> None:
            came = self.came.setdefault(port, [])
            metas = block.event_metas or [block.meta] * block.frames.count
            for payload, meta in zip(block.frames.payloads(), metas, strict=True):
                came.append(self._came(block, payload, meta))
            nodes.sink.ack(block)

        return take

    def _came(self, block: Block, payload: bytes, meta: Mapping[str, object]) -> Came:
        try:
            if block.codec not in (JSON, JSON_SORTED):
                payload = JSON.encode(block.timed_codec.decode(payload))
            meta_value = value_of(JSON.encode(dict(meta)))
        except (CannotDecode, CannotEncode) as error:
            payload, meta_value = JSON.encode({"not JSON": str(error)}), {}
        members: dict[str, Json] = {
            "value": value_of(payload),
            "meta": meta_value,
            "ingest_ns": value_of(str(block.ingest_ns).encode()),
            "stream": value_of(str(block.stream.number).encode()),
        }
        return Came(payload.decode(), members, self._is_error(block, members["value"]))

    def _is_error(self, block: Block, value: Json) -> bool:
        """Then its place is made one within the case."""
        if "rejected" not in block.meta or not isinstance(value, dict):
            return False
        at = value.get("at")
        if isinstance(at, str):
            value["at"] = at.removeprefix(f"{self.case.folder}/")
        return True

    def _account(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            first, last = receipt.ref, int(str(receipt.ref)) + receipt.count - 1
            events = f"event {first}" if first == last else f"events {first} to {last}"
            if receipt.pending:
                self.troubles.append(f"{events} of the input: neither acked nor failed")
                while receipt.pending:
                    receipt.ack()
            elif receipt.cause is not None:
                self.troubles.append(f"{events} of the input failed: {receipt.cause}")


def _leave(nodes: ConnectorNodes, block: Block) -> None:
    """By the lanes of a log, where it has several."""
    ways = [*nodes.source.lanes.values()] or [nodes.source]
    block.receipt.fork(len(ways) - 1)
    for way in ways:
        way.ports.out.accept(block)


def _blocks(given: Sequence[Given], most: int) -> Iterator[tuple[int, Sequence[Given]]]:
    """With the position of the first event."""
    position = 1
    for _, alike in groupby(given, lambda one: (one.payload is None, one.ingest_ns, one.port, one.stream)):
        several = list(alike)
        for begin in range(0, len(several), most):
            some = several[begin : begin + most]
            yield position, some
            if some[0].payload is not None:
                position += len(some)


def _log_line(line: MutableMapping[str, object]) -> str:
    told = [f"{key}: {value}" for key, value in line.items() if key not in {"event", "log_level"}]
    return f"in the log: {', '.join([str(line['event']), *told])}"
