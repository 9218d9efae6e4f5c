"""Events that go on together. A batch is a block: its events stay events, with one write, one record and one outcome.

It holds what it has not the count for, and so it must stay below what its sources may have unsettled, or none of them
would ever send the rest.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import ClassVar, Final

from pydantic import Field

from walflow.contract import Scheduler, Timer
from walflow.errors import WalflowError
from walflow.event import Block, Frames, Node, Origin
from walflow.families import Families
from walflow.operators.operator import HELD, Operator, OperatorContext
from walflow.receipt import Numbering, Receipt

BLOCK_BYTES: Final = 256 << 10
BLOCK_EVENTS: Final = 4096


class Unfinished(WalflowError):
    """The daemon stopped while a batch was being collected. Its events may be sent again."""


class Batch(Operator):
    """Collects events and sends `count` of them on together, or fewer after `timeout`. They stay single events, in
    their order; the sinks get them, write them and ack them at once. Events of one stream become one block of at most
    256 KiB and 4,096 events; events of several streams become several blocks. A batch is sent early when it holds
    half of a source's window, and when a source or a log upstream can send no more until an event is settled. What
    comes again, because a sink failed it, goes on at once and alone: so one bad event fails by itself."""

    example: ClassVar[str] = """\
define operator hundred from generic::batch with count = 100, timeout = 1000000000 end;
create operator hundred;
select event from in into hundred;
select event from hundred into out;
"""
    families: ClassVar[Families] = HELD

    whole: ClassVar[bool] = True

    count: int = Field(ge=1, description="Number of events in a batch.")
    timeout: int | None = Field(
        default=None,
        ge=1,
        description="Nanoseconds after which a batch is sent with fewer events. Default: no timeout.",
    )

    def node(self, place: OperatorContext) -> Node:
        return _Batch(self, place)


class _Batch:
    def __init__(self, config: Batch, place: OperatorContext) -> None:
        self._count = config.count
        self._timeout = None if config.timeout is None else config.timeout / 1e9
        self._name = place.name
        self._to = place.exits["out"].to
        self._windows = place.windows
        self._held: list[Block] = []
        self._events = self._bytes = 0
        self._timer: Timer | None = None
        self._draining = self._flushes_soon = False
        place.gauge("held_events", lambda: self._events)

    def __repr__(self) -> str:
        return f"<Batch {self._name} {self._events} of {self._count}>"

    def accept(self, block: Block) -> None:
        if self._draining:
            self._to.accept(block)
            return
        if block.receipt.delivered is not None:
            self._flush()
            self._to.accept(block)
            return
        lacking = self._count - self._events
        while block.frames.count > lacking:
            part, block = block.split([lacking, block.frames.count - lacking])
            self._hold(part)
            lacking = self._count
        self._hold(block)

    # walflow.operators.Running

    def begin(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        for window in self._windows:
            window.on_full(self._flush_soon)

    def drain(self) -> None:
        self._draining = True
        self._flush()

    def end(self) -> None:
        for block in self._take():
            block.receipt.fail(Unfinished(f"{self._name} has stopped"), 0, self._name)

    def _hold(self, block: Block) -> None:
        self._held.append(block)
        self._events += block.frames.count
        self._bytes += len(block.frames.data)
        if self._events >= self._count or self._is_much():
            self._flush()
            return
        if self._timeout is not None and self._timer is None:
            self._timer = self._scheduler.call_later(self._timeout, self._due)
        if any(window.full for window in self._windows):
            self._flush_soon()

    def _is_much(self) -> bool:
        """Whether the batch holds half of a source's window."""
        for size, events in [window.limits() for window in self._windows]:
            if self._bytes * 2 >= size or (events is not None and self._events * 2 >= events):
                return True
        return False

    def _flush_soon(self) -> None:
        """Sends the batch in the next turn. Its sources may wait for exactly these events: other batches hold events
        too, and one held event keeps its whole block unsettled. Not at once, so that events of this turn join the
        batch."""
        if self._held and not self._flushes_soon:
            self._flushes_soon = True
            self._scheduler.call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flushes_soon = False
        self._flush()

    def _due(self) -> None:
        self._timer = None
        self._flush()

    def _flush(self) -> None:
        for run in _runs(self._take()):
            self._to.accept(run[0] if len(run) == 1 else _joined(run))

    def _take(self) -> list[Block]:
        held, self._held = self._held, []
        self._events = self._bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return held


def _runs(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Groups of neighbouring blocks that can be joined to one."""
    run: list[Block] = []
    for block in blocks:
        if run and not _continues(run, block):
            yield run
            run = []
        run.append(block)
    if run:
        yield run


def _continues(run: Sequence[Block], block: Block) -> bool:
    last, framing = run[-1], block.frames.framing
    return (
        block.stream == last.stream
        and block.codec is last.codec
        and framing is last.frames.framing
        and framing.countable
        and block.meta == last.meta
        and (block.origin is None) == (last.origin is None)
        and (block.origin is None or _follows(block, last))
        and sum(one.frames.count for one in run) + block.frames.count <= BLOCK_EVENTS
        and sum(len(one.frames) for one in run) + len(block.frames) <= BLOCK_BYTES
    )


def _follows(block: Block, last: Block) -> bool:
    """Whether both are of one part of a log and in order: a sink that remembers positions must know the position of
    each event."""
    origin, before = block.origin, last.origin
    return (
        origin is not None
        and before is not None
        and origin.part == before.part
        and block.positions is not None
        and last.positions is not None
        and last.positions[-1] < block.positions[0]
    )


def _joined(blocks: Sequence[Block]) -> Block:
    first, last = blocks[0], blocks[-1]
    count = sum(block.frames.count for block in blocks)
    data = b"".join([block.frames.data for block in blocks])
    origin: Origin | None = None
    if first.origin is not None and last.origin is not None:
        origin = last.origin._replace(first=first.origin.first)
    return Block(
        first.stream,
        Frames(data, count, first.frames.framing),
        first.codec,
        Receipt(_settled, count, blocks),
        ingest_ns=first.ingest_ns,
        meta=first.meta,
        event_metas=_event_metas(blocks),
        origin=origin,
        weight=sum(block.weight for block in blocks),
        positions=_positions(blocks),
    )


def _positions(blocks: Sequence[Block]) -> Sequence[int] | None:
    """None where they are all that lies between the first and the last, or where there are none."""
    found = [block.positions for block in blocks if block.positions is not None]
    if len(found) < len(blocks):
        return None
    return [position for positions in found for position in positions]


def _event_metas(blocks: Sequence[Block]) -> Sequence[Mapping[str, object]] | None:
    if all(block.event_metas is None for block in blocks):
        return None
    nothing: Mapping[str, object] = {}
    return [meta for block in blocks for meta in block.event_metas or [nothing] * block.frames.count]


def _settled(receipt: Receipt) -> None:
    blocks: Sequence[Block] = receipt.ref  # type: ignore[assignment]  # it is what `_joined` gave it
    starts = accumulate((block.frames.count for block in blocks), initial=0)
    for block, start in zip(blocks, starts, strict=False):  # the last one is the end of all
        block.receipt.join(receipt, Numbering(-start))
