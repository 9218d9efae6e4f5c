"""The source half of a connector: its ports, its gate, and an outlet for each run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from walflow import __version__
from walflow.contract import FailedEvents, MessagePiece, Recalled, RunningFlow
from walflow.event import Block, Codec, Cutting, Node, ReadPlace
from walflow.framing import LINES, MESSAGES, Incoming
from walflow.nodes.gate import AllGates, ReasonGate
from walflow.nodes.ingress import IngressStream
from walflow.nodes.message import cut
from walflow.nodes.passed import EACH_TIME, Passed
from walflow.nodes.rejects import NOTHING_MORE, ErrPort, RejectedEvents
from walflow.nodes.run_context import RunContext, RunHalf
from walflow.nodes.streams import SourcePorts, Streams, log_bug
from walflow.nodes.turns import Turns
from walflow.nodes.window import WINDOW, SendWindow
from walflow.receipt import Receipt, Settled
from walflow.world import dice

if TYPE_CHECKING:
    from walflow.nodes.letters import SinkLetters

MAX_EVENT_BYTES: Final = 1 << 20
RUN_BITS: Final = 48  # of the random number of a run; each byte of it is in each record of a log
SHARES: Final = 4  # the part of the window that may wait for clients: a quarter; the rest keeps the flow going


def _nothing() -> None: ...


def _form(ports: SourcePorts) -> str:
    parts = ((one.name, sorted(one.config.items())) for one in (ports.codec, ports.incoming.framing))
    return f"{__version__} {MAX_EVENT_BYTES} {[*parts]}"


class Holder(NamedTuple):
    """A sink or an operator downstream. `held` says in words what it has not settled; "" means nothing. `outcomes`
    changes with each block that it settles. `is_sink`: an operator may hold events for as long as it likes."""

    name: str
    held: Callable[[], str]
    outcomes: Callable[[], float]
    is_sink: bool = False


class SourceNode:
    """The part of a source that outlives the connector's runs. Sinks downstream trigger its `gate`."""

    def __init__(
        self,
        name: str,
        out: Node,
        err: ErrPort,
        codec: Codec,
        framing: Cutting | Incoming = LINES,
        *,
        linked: bool = True,
        transactional: bool = False,
        lanes: "Mapping[str, SourceNode] | None" = None,
        passed: Passed = EACH_TIME,
        alone: str = "",
        sinks: Sequence[str] = (),
        letters: "Sequence[SinkLetters]" = (),
        flow_hash: str = "",
    ) -> None:
        """`lanes`: by name, those of a log with several. Then events leave by them alone. `passed`: what all of them
        have sent, so that an event that each lane sends counts once. `alone`: the name of its only lane. `sinks`: of
        a lane, the names under which its log remembers what it has acked. `letters`: of a log, those of its sinks."""
        self.letters = letters
        self.flow = RunningFlow(flow_hash, __version__) if flow_hash else None
        self.alone = alone or name
        self.sinks = sinks
        self.passed = passed
        self.name = name
        self.lanes = lanes or {}
        incoming = framing if isinstance(framing, Incoming) else Incoming((), framing)
        self.ports = SourcePorts(name, out, err, codec, incoming)
        self.linked = linked
        self.transactional = transactional
        self.gate: ReasonGate = (
            AllGates([lane.gate for lane in self.lanes.values()]) if lanes else ReasonGate(self._shut, self._open)
        )
        self.outlet: RunOutlet | None = None
        self.recall: Callable[[], Sequence[Recalled]] = lambda: ()
        self.sink_is_full: Callable[[], bool] = lambda: False  # of a log: its sink half accepts nothing more
        self._on_full: list[Callable[[], None]] = []
        self.holders: list[Holder] = []
        self._sharing: set[str] = set()  # sinks that may hold a part of the window for a long time

    def __repr__(self) -> str:
        return f"<SourceNode {self.name} {self.gate!r} {self.outlet!r}>"

    def begin(self, context: RunContext) -> "RunOutlet":
        self.outlet = RunOutlet(self, context, {name: lane.begin(context) for name, lane in self.lanes.items()})
        for one in self.letters:
            one.begin(context)
        return self.outlet

    def limits(self) -> tuple[int, int | None]:
        """The most bytes and events that may be unsettled. An operator that holds blocks must hold less."""
        outlet = self.outlet
        return (outlet.window, outlet.window_events) if outlet is not None else (WINDOW, None)

    def share(self, sink: str) -> tuple[int, int | None]:
        """The part of the limits that this sink may hold: see `walflow.contract.Inlet.share`."""
        self._sharing.add(sink)
        size, events = self.limits()
        parts = SHARES * len(self._sharing)
        return size // parts, None if events is None else events // parts

    @property
    def full(self) -> bool:
        """Whether the source must wait until something is settled."""
        return self.sink_is_full() or (self.outlet is not None and self.outlet.full)

    def reasons(self) -> dict[str, str]:
        """Why it may not send, or one of its lanes may not."""
        found = dict(self.gate.reasons)
        for lane in self.lanes.values():
            found |= lane.gate.reasons
        return found

    def inflight(self) -> int:
        """Bytes that were sent and are not settled. Of one event once for each lane."""
        own = self.outlet.inflight if self.outlet is not None else 0
        return own + sum(lane.inflight() for lane in self.lanes.values())

    def waiting(self) -> int:
        """Events that it has and has not sent, or that are not acked."""
        return self.outlet.waiting() if self.outlet is not None else 0

    def on_full(self, call: Callable[[], None]) -> None:
        self._on_full.append(call)

    def tell_full(self) -> None:
        for call in self._on_full:
            call()
        for lane in self.lanes.values():
            lane.tell_full()

    def end(self) -> None:
        """The run is over. Its receipts and its window do not count any more."""
        if self.outlet is not None:
            self.outlet.end()
            self.outlet = None
        for lane in self.lanes.values():
            lane.end()
        for letters in self.letters:
            letters.end()
        self.gate.restore("window")

    def _shut(self) -> None:
        if self.outlet is not None:
            self.outlet.pause()

    def _open(self) -> None:
        if self.outlet is not None:
            self.outlet.resume()


class RunOutlet(RunHalf, SendWindow):
    """One run of a connector sends its events here: see `walflow.contract.Outlet`."""

    def __init__(self, node: SourceNode, context: RunContext, lanes: "Mapping[str, RunOutlet] | None" = None) -> None:
        super().__init__(node.gate, node.tell_full)
        self._lanes = lanes or {}
        self.set_context(context)
        self.name = node.name
        self.linked = node.linked
        self.run = dice().getrandbits(RUN_BITS)
        self.codec = node.ports.codec
        self.flow = node.flow
        self.framed = bool(node.ports.incoming.steps) or node.ports.incoming.framing is not MESSAGES
        self.max_event_bytes = MAX_EVENT_BYTES
        self.form = _form(node.ports)
        self._node = node
        self._out = node.ports.out
        self._turns = Turns(node.gate, context.scheduler, context.signal())
        self._streams = Streams(node.ports, self.run, self, self._turns, context)
        self._backlog: Callable[[], int] = lambda: 0
        self._failed_events: Callable[[int], FailedEvents] = lambda most: FailedEvents(0, ())
        self._waits_for: Callable[[], str] = lambda: ""
        self._failure = ""  # of the last block, if it failed
        self._received = self.counter("received_events_total")
        self._received_bytes = self.counter("received_bytes_total")

    def __repr__(self) -> str:
        return f"<Outlet {self.name} {self.inflight} of {self.window} bytes unsettled>"

    @property
    def lanes(self) -> "Mapping[str, RunOutlet]":
        return self._lanes or {self._node.alone: self}

    @property
    def letters(self) -> "Sequence[SinkLetters]":
        return self._node.letters

    @property
    def sinks(self) -> Sequence[str]:
        return self._node.sinks

    # sources that push

    def stream(
        self,
        meta: Mapping[str, object],
        *,
        pause: Callable[[], None] = _nothing,
        resume: Callable[[], None] = _nothing,
        broken: Callable[[], None] = _nothing,
        marks: bool = False,
        place: ReadPlace | None = None,
    ) -> IngressStream:
        self._context.up()
        return self._streams.open(meta, self.max_event_bytes, pause, resume, broken, marks=marks, place=place)

    async def ready(self) -> None:
        self._context.up()
        await self._turns.until_readable()

    def next_turn(self, call: Callable[[], None]) -> None:
        self._turns.next(call)

    # for sources that learn the outcome of each block

    def send(self, block: Block) -> bool:
        frames = block.frames
        size = len(frames.data)
        if self.gate.reasons or (self.inflight and self.inflight + size > self.window):
            self.refused = True
            self.on_full()
            return False
        self.inflight += size
        self.inflight_events += frames.count
        receipt = block.receipt
        receipt.settled = partial(self._settled, receipt.settled, size)
        if self._node.passed.first(block):
            self._received.value += frames.count
            self._received_bytes.value += size
        try:
            self._out.accept(block)
        except Exception as error:  # noqa: BLE001  # any bug
            log_bug(self.log, error, block)
        if self.window_events is not None and self.inflight_events >= self.window_events:
            self.on_full()
        return True

    def _settled(self, settled: Settled, size: int, receipt: Receipt) -> None:
        if self.over:
            return
        self.inflight_events -= receipt.count
        if receipt.done:
            self.delivered += 1
        self._failure = "" if receipt.cause is None else str(receipt.cause)
        settled(receipt)
        self.give_back(size)

    def on_ready(self, call: Callable[[], None]) -> None:
        self._context.up()
        self.on_room = call

    def cut(self, message: bytes) -> Iterator[MessagePiece]:
        return cut(message, self._node.ports.incoming, self.max_event_bytes)

    def reject(self, block: Block, reason: str, told: Mapping[str, object] = NOTHING_MORE) -> None:
        events = RejectedEvents(block.timed_codec, block.frames.payloads(), valid=False, told=told)
        self._node.ports.err.take(block, [reason] * block.frames.count, events)

    def note_rejected(self, block: Block, reason: str, told: Mapping[str, object]) -> None:
        events = RejectedEvents(block.timed_codec, block.frames.payloads(), valid=False, told=told)
        self._node.ports.err.note(block, [reason] * block.frames.count, events)

    def waits(self) -> None:
        self.refused = True
        self.on_full()

    def recalled(self) -> Sequence[Recalled]:
        return self._node.recall()

    def backlog(self, count: Callable[[], int], waits_for: Callable[[], str] = lambda: "") -> None:
        self._backlog = count
        self._waits_for = waits_for

    def retries(self, tell: Callable[[int], FailedEvents]) -> None:
        self._failed_events = tell

    # for the runtime

    def failed_events(self, most: int) -> FailedEvents:
        """What a sink has failed and the source will send again."""
        return self._failed_events(most)

    @property
    def quiet(self) -> bool:
        """Whether all events that were read are settled."""
        return not self.inflight and not self._turns and all(lane.quiet for lane in self._lanes.values())

    @property
    def unsettled(self) -> bool:
        """Whether it has events that are not settled: sent, or still to be sent."""
        return self.inflight > 0 or self._backlog() > 0

    def stopped(self) -> Sequence[str]:
        """Why it may not send, in words; empty: it may. A source that pushes may always have something to send;
        another one only what is unsettled."""
        if self._node.transactional and not self.unsettled:
            return ()
        reasons = [f"{by}: {reason}" for by, reason in self.gate.reasons.items()]
        if not reasons and not self._node.transactional and (waits := self._waits_for()):
            return [f"it waits for {waits}"]
        return reasons or (["its window is full"] if self._node.transactional and self.full else ())

    def waits_for(self) -> str:
        """Why it sends nothing, although it may; "": for no reason of its own."""
        return self._waits_for() if self.unsettled else ""

    def unsent(self) -> str:
        """Of a source that has events which no sink and no operator has. "" if that may be so for a moment only."""
        if not self._node.transactional:
            return ""
        return f"each try fails: {self._failure}" if self._failure else "it sends nothing"

    def waiting(self) -> int:
        """Number of events that this source holds for its sinks."""
        return self._backlog()

    def pause(self) -> None:
        self._turns.gate_changed()
        self._streams.pause()

    def resume(self) -> None:
        self._turns.gate_changed()
        if self._streams.resume():
            self.ask_again()

    def end_turns(self) -> None:
        """Drops the calls that wait for a turn: call it once the scheduler of the run is closed, and gives none. What
        the source has sent may still be settled."""
        self._turns.end()

    def end(self) -> None:
        self.over = True
        self.end_turns()
        self._streams.end()
