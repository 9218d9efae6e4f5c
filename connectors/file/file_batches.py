"""What goes into one write: the blocks that wait, without what the file has already."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from connectors.file.output import FileBatch, Output
from walflow import Block, Inlet

BATCH_BYTES: Final = 1 << 20
BATCH_RANGES: Final = 32  # positions of one batch that are not in a row: what the sidecar has room for


class FileBatches:
    """`skip`: acks what the file has."""

    def __init__(self, inlet: Inlet, output: Output, skip: Callable[[Block], None]) -> None:
        self._skip = skip
        self._output = output
        self._remember = output.remembers and inlet.upstream.sole_path
        self._skipped = inlet.counter("skipped_events_total")

    def gather(self, waiting: deque[Block]) -> FileBatch | None:
        """The next batch, in the order in which its blocks came. None: there is nothing to write."""
        batch = FileBatch()
        while waiting and len(batch.adds) < BATCH_RANGES:
            if batch.blocks and batch.size + len(waiting[0].frames.data) > BATCH_BYTES:
                break
            for block in self._unwritten(waiting.popleft()):
                batch.add(block, remember=self._remember)
        return batch if batch.blocks else None

    def _unwritten(self, block: Block) -> Iterator[Block]:
        """The block, or the parts of it that were not in the file when it was opened; the others are acked."""
        known, origin = self._output.known, block.origin
        if not self._remember or origin is None or not known:
            yield block
            return
        known.forget_parts_below(origin.log, origin.acked_below)
        runs = known.runs(origin.part, origin.first, origin.last)
        if len(runs) > 1 and block.frames.count != origin.last - origin.first + 1:
            yield block  # which of its events are which positions is not known
            return
        for run, part in zip(runs, block.split([run.length for run in runs]), strict=True):
            if run.known:
                self._skipped.value += part.frames.count
                self._skip(part)
            else:
                yield part
