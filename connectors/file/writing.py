"""The sink half: gathers blocks, keeps one batch in the air, holds it while the file cannot be written."""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final

from connectors.file.output import FileBatch, Output, explain
from walflow import Backoff, Block, Inlet, Timer, WalflowError

BATCH_BYTES: Final = 1 << 20
BATCH_RANGES: Final = 32  # positions of one batch that are not in a row: what the sidecar has room for
FIRST_DELAY: Final = 0.1
LAST_DELAY: Final = 10.0


class SinkStopped(WalflowError):
    """The connector has stopped, with blocks that are not in the file."""


class FileWriter:
    """`failure`, with `ended` set: a bug, and no more blocks are taken."""

    def __init__(self, inlet: Inlet, output: Output) -> None:
        self.failure: BaseException | None = None
        self.ended = asyncio.Event()
        self._inlet = inlet
        self._scheduler = inlet.scheduler
        self._output = output
        self._remember = output.remembers and inlet.sole_path
        self._skipped = inlet.counter("skipped_events_total")
        self._waiting: deque[Block] = deque()
        self._batch: FileBatch | None = None  # in the air, or held until it can be written
        self._busy = False  # `_next` or `_done` is due
        self._idle = asyncio.Event()
        self._wants_open = True
        self._serving = False
        self._closed = False
        self._stopping = False
        self._timer: Timer | None = None
        self._backoff = Backoff(FIRST_DELAY, LAST_DELAY)
        self._trouble: str | None = None

    def __repr__(self) -> str:
        return f"<FileWriter {self._output!r} {len(self._waiting)} waiting, {self._trouble or 'well'}>"

    def start(self) -> None:
        """Opens the file; once it is open, blocks are taken. Until then they wait where they are."""
        self._busy = True
        self._next()

    def accept(self, block: Block) -> None:
        if self._closed:
            self._fail(block)
            return
        self._waiting.append(block)
        self._wake()

    def reopen(self) -> None:
        """SIGHUP. It ends a wait for better times, too."""
        self._wants_open = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._busy = False
        self._wake()

    async def close(self) -> None:
        """Waits for the batch in the air; what is not in the file then fails."""
        self._stopping = True
        try:
            if self._timer is not None:
                self._timer.cancel()
            elif self._busy:
                await asyncio.shield(self._idle.wait())
            await self._close_output()
        finally:
            held = [*(self._batch.blocks if self._batch else ()), *self._waiting]
            self._closed = True
            for block in held:
                self._fail(block)

    def _fail(self, block: Block) -> None:
        self._inlet.fail(block, SinkStopped(f"{self._inlet.name} has stopped"))

    async def _close_output(self) -> None:
        closed = asyncio.Event()

        def done(error: BaseException | None) -> None:
            self._tell()
            if isinstance(error, OSError):
                self._inlet.log.warning(f"not closed cleanly: {explain(self._output.path, error)}")
            closed.set()

        self._scheduler.submit(self._output.close, done)
        await asyncio.shield(closed.wait())

    # one thing after the other: open, then reopen or a batch

    def _wake(self) -> None:
        if not self._busy:
            self._busy = True
            self._scheduler.call_soon(self._next)  # what else comes in this turn joins the batch

    def _next(self) -> None:
        self._timer = None
        if self._stopping or self.failure is not None:
            self._idle.set()
        elif self._wants_open:
            self._wants_open = False
            self._scheduler.submit(self._output.reopen, self._done_opening)
        elif self._batch is not None or self._gather():
            self._scheduler.submit(self._write, self._written)
        else:
            self._busy = False

    def _write(self) -> None:
        assert self._batch is not None
        self._output.write(self._batch)

    def _done_opening(self, error: BaseException | None) -> None:
        if not self._well(error):
            self._wants_open = True
            return
        if not self._serving:
            self._serving = True
            self._inlet.serve(self.accept)
            self._inlet.on_reopen(self.reopen)
        self._next()

    def _written(self, error: BaseException | None) -> None:
        if not self._well(error):
            return
        batch, self._batch = self._batch, None
        assert batch is not None
        self._next()  # the disk is at work again before the acks go their way
        for block in batch.blocks:
            self._inlet.ack(block)

    def _well(self, error: BaseException | None) -> bool:
        self._tell()
        if error is None:
            self._backoff.reset()
            if self._trouble is not None:
                self._trouble = None
                self._inlet.restore()
            return True
        if isinstance(error, OSError):
            self._hold(explain(self._output.path, error))
        elif isinstance(error, WalflowError):
            self._hold(str(error))
        else:
            self.failure = error
            self._idle.set()
            self.ended.set()
        return False

    def _hold(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._inlet.trigger(trouble)
        if self._stopping:
            self._idle.set()
            return
        self._timer = self._scheduler.call_later(self._backoff.next(), self._next)

    def _tell(self) -> None:
        notes, self._output.notes = self._output.notes, []
        for note in notes:
            self._inlet.log.warning(note)

    # what goes into a batch

    def _gather(self) -> bool:
        batch = FileBatch()
        while self._waiting and len(batch.adds) < BATCH_RANGES:
            if batch.blocks and batch.size + len(self._waiting[0].frames.data) > BATCH_BYTES:
                break
            for block in self._unwritten(self._waiting.popleft()):
                batch.add(block, remember=self._remember)
        if batch.blocks:
            self._batch = batch
        return bool(batch.blocks)

    def _unwritten(self, block: Block) -> Iterator[Block]:
        """The block, or the parts of it that were not in the file when it was opened; the others are acked."""
        known, origin = self._output.known, block.origin
        if not self._remember or origin is None or not known:
            yield block
            return
        known.forget_below(origin.log, origin.acked_below)
        runs = known.runs(origin.log, origin.first, origin.last)
        if len(runs) > 1 and block.frames.count != origin.last - origin.first + 1:
            yield block  # which of its events are which positions is not known
            return
        for run, part in zip(runs, block.split([run.length for run in runs]), strict=True):
            if run.known:
                self._skipped.value += part.frames.count
                self._inlet.ack(part)
            else:
                yield part
