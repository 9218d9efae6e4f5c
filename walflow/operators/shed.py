"""What `qos::backpressure` and `qos::percentile` share: they watch how a sink does, and send events elsewhere while
it does not do well.

What stands behind `out` is observed: a block that is acked in time is good, one that fails or comes late is bad, and
so is a breaker that triggers. A judge makes of this how many events of the next block pass; the others leave by
`overflow`. While a sink behind `out` is unavailable, all of them do, and so does what it still had. Before it was
available for the first time, the sources wait. Where a sink behind `overflow` is unavailable too, what is bound for
it is held, and the sources stop.
"""

from collections import deque
from typing import Final, NamedTuple, Protocol

from walflow.contract import Scheduler
from walflow.errors import WalflowError
from walflow.event import Block
from walflow.operators.operator import OperatorContext
from walflow.receipt import Numbering, Receipt, refused_by, segments

WAYS: Final = (" :out", " :overflow")


class NoOverflow(WalflowError):
    """The daemon stopped while no sink behind `overflow` accepted events. They may be sent again."""


class ShedJudge(Protocol):
    """`waits`: rather than sending events to `overflow`, the sources wait."""

    waits: bool

    def passes(self, events: int) -> int:
        """How many of so many events go to `out`, the first ones."""
        ...

    def observed(self, *, good: bool) -> None: ...


class _Attempt(NamedTuple):
    """`began`: when it was sent to `out`, None for `overflow`."""

    block: Block
    began: float | None


class ShedNode:
    def __init__(self, place: OperatorContext, judge: ShedJudge, timeout_ns: int) -> None:
        self._name = place.name
        self._upstream = place.upstream
        self._out = place.exits["out"]
        self._overflow = place.exits["overflow"]
        self._judge = judge
        self._timeout = timeout_ns / 1e9
        self._held: deque[Block] = deque()  # while `overflow` is shut
        self._flushing = False
        self._was_open = False
        self._ended = False
        self._scheduler: Scheduler | None = None
        self._overflowed = place.counter("overflow_events_total")
        place.gauge("held_events", lambda: sum(block.frames.count for block in self._held))
        self._out.gate.watch(self._out_shut, self._out_open)
        self._overflow.gate.watch(self._overflow_shut, self._overflow_open)

    def __repr__(self) -> str:
        return f"<ShedNode {self._name} {self._judge}, {len(self._held)} held>"

    def accept(self, block: Block) -> None:
        for part in block.lacked_by(self._name):
            for again, way in part.begun(WAYS):
                if way is None:
                    self._judged(again)
                elif way == 0:
                    self._pass(again)
                else:
                    self._shed(again)

    def _judged(self, block: Block) -> None:
        count = block.frames.count
        passing = count if self._judge.waits else 0 if self._out.gate.shut else self._judge.passes(count)
        if 0 < passing < count:
            first, rest = block.split([passing, count - passing])
            self._pass(first)
            self._shed(rest)
        elif passing:
            self._pass(block)
        else:
            self._shed(block)

    def stop(self, why: str, reason: str) -> None:
        for gate in self._upstream:
            gate.trigger(f"{self._name}/{why}", reason)

    def go(self, why: str) -> None:
        for gate in self._upstream:
            gate.restore(f"{self._name}/{why}")

    # walflow.operators.Running

    def begin(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def drain(self) -> None: ...

    def end(self) -> None:
        self._ended = True
        held, self._held = self._held, deque()
        for block in held:
            block.receipt.fail(NoOverflow(f"no sink behind {self._name}/overflow takes events"), 0, self._name)

    # a block's way

    def _now(self) -> float:
        return self._scheduler.time() if self._scheduler is not None else 0.0

    def _pass(self, block: Block) -> None:
        known = Numbering(way=WAYS[0]).down(block.receipt.delivered, block.frames.count)
        receipt = Receipt(self._settled, block.frames.count, _Attempt(block, self._now()), known)
        self._out.to.accept(block.with_frames(block.frames, block.codec, receipt))

    def _shed(self, block: Block) -> None:
        if self._overflow.gate.shut or self._held:
            self._held.append(block)
            return
        self._overflowed.value += block.frames.count
        known = Numbering(way=WAYS[1]).down(block.receipt.delivered, block.frames.count)
        receipt = Receipt(self._settled, block.frames.count, _Attempt(block, None), known)
        self._overflow.to.accept(block.with_frames(block.frames, block.codec, receipt))

    def _settled(self, receipt: Receipt) -> None:
        attempt = receipt.ref
        assert isinstance(attempt, _Attempt)
        block, began = attempt
        delivered = receipt.cause is None
        if began is not None and not self._ended:
            self._judge.observed(good=delivered and self._now() - began <= self._timeout)
        if delivered or began is None or self._judge.waits or self._ended or not self._out.gate.shut:
            block.receipt.join(receipt, Numbering(name=self._name, way=WAYS[began is None]))
            return
        outcome = receipt.outcome()
        found = list(segments((outcome.failed, refused_by(outcome.refused)), receipt.count))
        parts = block.split([stop - start for start, stop, _ in found])
        for part, (start, stop, (failed, refused)) in zip(parts, found, strict=True):
            if refused:  # by a sink behind `out`, and its error record has failed
                part.receipt.join(receipt, Numbering(-start, way=WAYS[0]))
            elif failed:  # the sink is away, and what comes now goes to `overflow` too
                part.receipt.delivered = outcome.between(start, stop)
                self._shed(part)
            else:
                part.receipt.ack(self._name)

    # breakers

    def _out_shut(self) -> None:
        if self._was_open:
            self._judge.observed(good=False)
        if self._judge.waits or not self._was_open:
            self.stop("out", "a sink behind `out` accepts no events")

    def _out_open(self) -> None:
        self._was_open = True
        self.go("out")

    def _overflow_shut(self) -> None:
        if not self._judge.waits:
            self.stop("overflow", "a sink behind `overflow` accepts no events")

    def _overflow_open(self) -> None:
        """A block may settle, and the sink may trigger, while it is being sent."""
        if self._flushing:
            return
        self._flushing = True
        try:
            while self._held and not self._overflow.gate.shut:
                held, self._held = self._held, deque()
                for block in held:
                    self._shed(block)
        finally:
            self._flushing = False
        if not self._overflow.gate.shut:
            self.go("overflow")
