"""The sink half of a connector, with the only queue of a flow,
and with the breaker that stops all sources upstream."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol

from walflow import contract
from walflow.errors import Blameless
from walflow.event import Block, Codec, Frames, Framing
from walflow.framing import Outgoing
from walflow.framing.messages import MESSAGES
from walflow.nodes.failures import SinkFailures, advice_on
from walflow.nodes.recode import Recoder
from walflow.nodes.rejects import ErrPort, RejectedEvents
from walflow.nodes.run_context import RunContext, RunHalf, Signal
from walflow.receipt import runs


def _nothing() -> None: ...


def _none_failed(most: int) -> contract.FailedEvents:
    return contract.FailedEvents(0, ())


class SharedWindow(Protocol):
    """A source upstream, as a sink sees it."""

    def share(self, sink: str) -> tuple[int, int | None]: ...


class SinkGone(Blameless):
    """The run of the sink ended while blocks waited. Their source may send them again."""


class SinkNode(RunHalf):
    """Takes blocks at the end of links. It is the `Inlet` of the connector's current run."""

    def __init__(
        self,
        name: str,
        err: ErrPort,
        codec: Codec | None = None,
        framing: Framing | Outgoing | None = None,
        *,
        linked: bool = True,
    ) -> None:
        self.name = name
        self.linked = linked
        self.upstream = contract.Upstream()
        self.remembered: dict[str, Sequence[contract.Recalled]] = {}  # by source
        self._taking = False  # the present run has begun to
        self.gates: list[contract.Gate] = []  # of every source upstream
        self.windows: list[SharedWindow] = []  # of each source upstream
        self.on_trigger: Callable[[], None] = _nothing
        self.reason: str | None = None  # why the breaker is triggered
        self.failed_events: Callable[[int], contract.FailedEvents] = _none_failed
        self.failures = SinkFailures()
        self._tells_tries = False  # it calls `failed_try`, so a failed block or a breaker is no other failure
        self._err = err
        self._recoder: Recoder | None = None  # None: it takes blocks of any codec and framing
        if codec is not None and framing is not None:
            outgoing = framing if isinstance(framing, Outgoing) else Outgoing((), framing)
            self._recoder = Recoder(codec, outgoing, err)
        self.encoded = self._recoder is not None and self._recoder.encoded
        self._queue: list[Block] = []
        self._held = 0  # bytes taken and not settled
        self._outcomes = 0  # blocks, or parts of them
        self._accept: Callable[[Block], None] | None = None
        self._on_reopen: Callable[[], None] | None = None
        self._arrived: Signal | None = None

    def __repr__(self) -> str:
        state = f"triggered: {self.reason}" if self.reason else "open"
        return f"<SinkNode {self.name} {len(self._queue)} waiting, {state}>"

    # the connector's runs

    def begin(self, context: RunContext) -> None:
        self.set_context(context)
        self._arrived = context.signal()
        self._acked = self.counter("acked_events_total")
        self._acked_bytes = self.counter("acked_bytes_total")
        self._failed = self.counter("failed_events_total")
        self._failed_tries = self.counter("failed_tries_total")
        self._held = sum(len(block.frames.data) for block in self._queue)
        if self._queue:
            self._arrived.set()
        self._taking = False
        self._tells_tries = False
        if not (self.upstream.replaceable or self.upstream.recalled_by):
            self._restore()

    def end(self, reason: str) -> None:
        """Stops the sources upstream. The queue is kept for the next run."""
        self._accept = None
        self._on_reopen = None
        self.failed_events = _none_failed
        self.reason = None  # the runner says why, in a line of its own
        for gate in self.gates:
            gate.trigger(self.name, reason)
        if self.upstream.replaceable:
            self._fail_queue(f"takes no more: {reason}")

    @property
    def waiting(self) -> int:
        """Blocks in the queue."""
        return len(self._queue)

    def abandon(self) -> None:
        """There will be no next run: the blocks in the queue fail."""
        self._fail_queue("has stopped")

    def _fail_queue(self, why: str) -> None:
        queue, self._queue = self._queue, []
        for block in queue:
            self._fail(block, SinkGone(f"{self.name} {why}"))

    # along the links

    def accept(self, block: Block) -> None:
        if block.receipt.delivered is None:
            self._take_in(block)
            return
        for part in block.lacked_by(self.name):
            for again in self._not_refused(part):
                self._take_in(again)

    def _take_in(self, block: Block) -> None:
        if self._recoder is None or self._recoder.fits(block):
            self._pass(block)
        else:
            for written in self._recoder.recoded(block):
                self._pass(written)

    def _not_refused(self, block: Block) -> Iterator[Block]:
        """What it has rejected before, and whose error record was not delivered everywhere, leaves by `err` again. It
        is not asked a second time: it could change its mind, and the event would have two outcomes."""
        known = block.receipt.delivered
        reasons = known.refused.get(self.name) if known is not None else None
        if not reasons:
            yield block
            return
        found = list(runs(sum(1 << number for number in reasons), block.frames.count))
        parts = block.split([stop - start for start, stop, _ in found])
        for part, (start, stop, refused) in zip(parts, found, strict=True):
            if refused:
                events = RejectedEvents(part.timed_codec, part.frames.payloads())
                self._err.hand_on(part, [reasons[number] for number in range(start, stop)], events)
            else:
                yield part

    def held(self) -> str:
        return f"{self._held:,} bytes" if self._held > 0 else ""

    def outcomes(self) -> int:
        return self._outcomes

    def _pass(self, block: Block) -> None:
        self._held += len(block.frames.data)
        accept = self._accept
        if accept is not None:
            try:  # as `_hand_over`, without a call for each block
                accept(block)
            except Exception as error:  # noqa: BLE001  # any bug
                self._context.failed(error)
            return
        self._queue.append(block)
        if self._arrived is not None:
            self._arrived.set()

    def _hand_over(self, accept: Callable[[Block], None], block: Block) -> None:
        """If the connector raises, it has a bug, and only its own run fails. The block fails when its receipt is
        collected."""
        try:
            accept(block)
        except Exception as error:  # noqa: BLE001  # any bug
            self._context.failed(error)

    # walflow.contract.Inlet

    async def take(self) -> list[Block]:
        assert self._arrived is not None
        self._up()
        while not self._queue:
            self._arrived.clear()
            await self._arrived.wait()
        queue, self._queue = self._queue, []
        return queue

    def serve(self, accept: Callable[[Block], None]) -> None:
        self._up()
        while self._queue:  # an ack may cause new blocks within this call; they come after those that wait
            queue, self._queue = self._queue, []
            for block in queue:
                self._hand_over(accept, block)
        self._accept = accept

    def _up(self) -> None:
        self._context.up()
        if not self._taking:
            self._taking = True
            # Not before: until then other outputs take its events, or its sources do not know what it has of theirs.
            if (self.upstream.replaceable or self.upstream.recalled_by) and self.reason is None:
                self._restore()

    def messages(self, block: Block) -> list[bytes]:
        frames = block.frames
        if self._recoder is None or self._recoder.framing is MESSAGES:
            return frames.payloads()
        starts = [0, *frames.framing.index(frames.data)]
        return [frames.data[start:end] for start, end in pairwise(starts)]

    def share(self) -> tuple[int, int | None]:
        shares = [window.share(self.name) for window in self.windows]
        counts = [events for _, events in shares if events is not None]
        return min((size for size, _ in shares), default=0), min(counts, default=None)

    def ack(self, block: Block) -> None:
        frames = block.frames
        size = len(frames.data)
        self._acked.value += frames.count
        self._acked_bytes.value += size
        self._held -= size
        self._outcomes += 1
        if self.failures.row:
            self.failures.took()
        block.receipt.ack(self.name)

    def fail(self, block: Block, cause: BaseException, done: int = 0) -> None:
        if not self._tells_tries:
            self.note_failure(str(cause), block)
        self._fail(block, cause, done)

    def failed_try(self, cause: str, block: Block | None = None) -> None:
        self._tells_tries = True
        self.note_failure(cause, block)

    def note_failure(self, cause: str, block: Block | None = None) -> None:
        positions = block.positions if block is not None else None
        self._failed_tries.value += 1
        self.failures.note(cause, positions[0] if positions else 0, self.scheduler.time())

    def now(self) -> float:
        """The time, by the clock of `failures`."""
        return self.scheduler.time()

    def _fail(self, block: Block, cause: BaseException, done: int = 0) -> None:
        self._failed.value += block.frames.count - done
        self._let_go(block.frames)
        block.receipt.fail(cause, done, self.name)

    def _let_go(self, frames: Frames) -> None:
        self._held -= len(frames.data)
        self._outcomes += 1

    def reject(self, block: Block, reason: str) -> None:
        self._let_go(block.frames)
        encoded = self._recoder is not None and self._recoder.encoded  # by postprocessors: no event can be read of it
        events = None if encoded else RejectedEvents(block.timed_codec, block.frames.payloads())
        self._err.take(block, [reason] * block.frames.count, events)

    def triggered(self) -> bool:
        return self.reason is not None

    def trigger(self, reason: str) -> None:
        if not self._tells_tries:
            self.note_failure(reason)
        if self.reason is None:
            if advice := advice_on(reason):
                self.log.error("breaker triggered", reason=reason, advice=advice)
            else:
                self.log.warning("breaker triggered", reason=reason)
        self.reason = reason
        for gate in self.gates:
            gate.trigger(self.name, reason)
        self.on_trigger()
        if self.upstream.replaceable:
            self._fail_queue(f"takes no more: {reason}")

    def retries(self, tell: Callable[[int], contract.FailedEvents]) -> None:
        self.failed_events = tell

    def half_open(self) -> None:
        for gate in self.gates:
            gate.restore(self.name)

    def restore(self) -> None:
        self.failures.took()
        self._restore()

    def _restore(self) -> None:
        if self.reason is not None:
            self.log.info("breaker restored", was=self.reason)
            self.reason = None
        for gate in self.gates:
            gate.restore(self.name)

    def remember(self, source: str, events: Sequence[contract.Recalled]) -> None:
        self.remembered[source] = events

    def on_reopen(self, call: Callable[[], None]) -> None:
        self._on_reopen = call

    def reopen(self) -> None:
        if self._on_reopen is None:
            return
        try:
            self._on_reopen()
        except Exception as error:  # noqa: BLE001  # as above
            self._context.failed(error)
