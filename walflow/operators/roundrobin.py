"""Spreads events evenly over several outputs; some of them may be unavailable.

For the node above it a round robin is a sink: it acks and fails under its own name. Upstream must not remember which
output had an event, because an event that comes again may leave by another output.
"""

from collections import deque
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, Self

from pydantic import Field, model_validator

from walflow.contract import Gate, Ports, Scheduler
from walflow.errors import WalflowError
from walflow.event import Block, Node
from walflow.families import Families, Family
from walflow.operators.operator import HELD, Operator, OperatorContext, OutPort
from walflow.receipt import Numbering, Receipt, refused_by, segments

SPLIT: Final = 16  # events a part, at least: where a block is worth cutting


class NobodyTakes(WalflowError):
    """The daemon stopped while no output accepted events. They may be sent again."""


class RoundRobin(Operator):
    """Sends each event to one of the outputs, in turns. While a sink behind an output is unavailable, that output is
    left out, and the events that its sink failed go to the others. If no output is available, the sources stop.
    Blocks are spread by their number of events: the output that has had the fewest is next, and a large block is
    divided into equal parts."""

    example: ClassVar[str] = """\
define operator turns from qos::roundrobin with outputs = ["a", "b"] end;
create operator turns;
select event from in into turns;
select event from turns/a into out/ws0;
select event from turns/b into out/ws1;
"""
    families: ClassVar[Families] = {
        "open_outputs": Family("gauge", "Outputs of qos::roundrobin whose sinks accept events."),
        "retried_events_total": Family("counter", "Events that one output failed and another one then got."),
        **HELD,
    }

    chooses: ClassVar[bool] = True
    whole: ClassVar[bool] = True

    outputs: list[str] = Field(
        default_factory=lambda: ["out"], description="The names of its output ports, in the order of their turns."
    )

    @model_validator(mode="after")
    def _are_ports(self) -> Self:
        if not self.outputs:
            raise ValueError("a round robin has at least one output")
        if len(set(self.outputs)) < len(self.outputs):
            raise ValueError("an output is named twice")
        if any(not name or "/" in name for name in self.outputs):
            raise ValueError("an output has a name, without a `/`")
        return self

    def ports_used(self) -> Ports:
        return Ports(("in",), tuple(self.outputs))

    def choice(self, source: str, sinks: str, operator: str) -> str:
        return (
            f"{source} sends to {sinks} in turns, by {operator}: while one of them is unavailable, the others get "
            f"its share; while none is available, {source.rpartition('::')[2]} sends nothing"
        )

    def node(self, place: OperatorContext) -> Node:
        return _RoundRobin(place)


class _Way:
    """One output. `events`: the number of events it has had. `mark`: of what a sink behind it has rejected."""

    __slots__ = ("events", "gate", "mark", "number", "to")

    def __init__(self, number: int, exit: OutPort) -> None:
        self.number = number
        self.mark = f" :{number}"
        self.to = exit.to
        self.gate: Gate = exit.gate
        self.events = 0


class _Tried(NamedTuple):
    """The outputs that have failed a block. `open`: those that did, although they were open. `by`: the sinks behind
    them, and why."""

    all: frozenset[int] = frozenset()
    open: frozenset[int] = frozenset()
    by: Mapping[str, BaseException] = MappingProxyType({})


UNTRIED: Final = _Tried()


class _Attempt(NamedTuple):
    """A block that was sent to one output. `tried`: what failed it before."""

    block: Block
    way: _Way
    tried: _Tried


class _RoundRobin:
    def __init__(self, place: OperatorContext) -> None:
        self._name = place.name
        self._place = place
        self._upstream = place.upstream
        self._ways = [_Way(number, exit) for number, exit in enumerate(place.exits.values())]
        self._turn = 0
        self._held: deque[tuple[Block, _Tried]] = deque()  # while no output is open
        self._flushing = False
        self._retried = place.counter("retried_events_total")
        place.gauge("open_outputs", lambda: len(self._open()))
        place.gauge("held_events", lambda: sum(block.frames.count for block, _ in self._held))
        for way in self._ways:
            way.gate.watch(self._shut, partial(self._opened, way))

    def __repr__(self) -> str:
        return f"<RoundRobin {self._name} {len(self._open())} of {len(self._ways)} open, {len(self._held)} held>"

    def accept(self, block: Block) -> None:
        for lacked in block.lacked_by(self._name):
            for part, begun in lacked.begun([way.mark for way in self._ways]):
                if begun is None:
                    self._deal(part)
                else:
                    self._go(part, self._ways[begun])

    def _deal(self, block: Block) -> None:
        parts = min(len(self._open()), block.frames.count // SPLIT)
        for part in block.split(_even(block.frames.count, parts)) if parts > 1 else [block]:
            self._send(part)

    # walflow.operators.Running

    def begin(self, scheduler: Scheduler) -> None: ...

    def drain(self) -> None: ...

    def end(self) -> None:
        held, self._held = self._held, deque()
        for block, _ in held:
            block.receipt.fail(NobodyTakes(f"no output of {self._name} takes events"), 0, self._name)

    # a block's way

    def _send(self, block: Block, tried: _Tried = UNTRIED) -> None:
        ways = [way for way in self._open() if way.number not in tried.open]
        if not ways:
            self._held.append((block, tried))
            return
        size = len(self._ways)
        way = min(ways, key=lambda way: (way.events, (way.number - self._turn) % size))
        way.events += block.frames.count
        self._turn = (way.number + 1) % size
        self._go(block, way, tried)

    def _go(self, block: Block, way: _Way, tried: _Tried = UNTRIED) -> None:
        known = Numbering(way=way.mark).down(block.receipt.delivered, block.frames.count)
        receipt = Receipt(self._settled, block.frames.count, _Attempt(block, way, tried), known)
        way.to.accept(block.with_frames(block.frames, block.codec, receipt))

    def _settled(self, receipt: Receipt) -> None:
        attempt = receipt.ref
        assert isinstance(attempt, _Attempt)
        block, way, before = attempt
        if receipt.cause is None:
            block.receipt.join(receipt, Numbering(name=self._name))
            return
        mine = {way.number}
        # one that has shut its gate may well take it when it is back
        tried = _Tried(before.all | mine, before.open if way.gate.shut else before.open | mine, before.by)
        outcome = receipt.outcome()
        refused = refused_by(
            outcome.refused
        )  # by a sink; their error records have failed, and they do not go another way
        found = list(segments((outcome.failed, refused), receipt.count))
        parts = block.split([stop - start for start, stop, _ in found])
        for part, (start, stop, (failed, stays)) in zip(parts, found, strict=True):
            if not failed:
                part.receipt.ack(self._name)
                continue
            if stays:
                part.receipt.join(receipt, Numbering(-start, way=way.mark))
                continue
            way.events -= part.frames.count
            failing = outcome.failing(start, stop)
            if self._is_for_the_source(tried):
                for name, cause in before.by.items():
                    if name not in failing:
                        part.receipt.fork(1)
                        part.receipt.fail(cause, 0, name)
                part.receipt.join(receipt, Numbering(-start))
                continue
            self._retried.value += part.frames.count
            part.receipt.delivered = outcome.between(start, stop)
            self._send(part, tried._replace(by={**tried.by, **dict.fromkeys(failing, receipt.cause)}))

    def _is_for_the_source(self, tried: _Tried) -> bool:
        """Whether those that could take it have failed it. A source that sends again gets what every output has
        failed once, also if they are all away now: it finds the event that fails each of them."""
        still = self._open()
        if still and tried.open.issuperset(way.number for way in still):
            return True
        return not self._place.forgetful and tried.all.issuperset(way.number for way in self._ways)

    # breakers

    def _open(self) -> list[_Way]:
        return [way for way in self._ways if not way.gate.shut]

    def _shut(self) -> None:
        if not self._open():
            for gate in self._upstream:
                gate.trigger(self._name, "no output accepts events")

    def _opened(self, way: _Way) -> None:
        """Takes an output in again, without sending it all the events that it missed."""
        others = [other.events for other in self._ways if other is not way and not other.gate.shut]
        way.events = max([way.events, min(others, default=way.events)])
        self._flush()
        if self._open():
            for gate in self._upstream:
                gate.restore(self._name)

    def _flush(self) -> None:
        """Sends what is held. A block may settle, and a sink may trigger, while it is being sent."""
        if self._flushing:
            return
        self._flushing = True
        try:
            while self._held and self._open():
                self._send(*self._held.popleft())
        finally:
            self._flushing = False


def _even(count: int, parts: int) -> list[int]:
    each, more = divmod(count, parts)
    return [each + (number < more) for number in range(parts)]
