"""A consumer's half of a broker: what it is given it sends until each event has an outcome."""

from walflow import Block
from walflow.delivery.held_batches import HeldBatch, Resending
from walflow.nodes.source import RunOutlet


class Broker:
    def __init__(self, out: RunOutlet, attempts: int | None) -> None:
        self._resending = Resending(out, lambda: None, attempts)
        out.on_ready(self._resending.pump)
        self._batches: list[HeldBatch] = []
        out.backlog(lambda: sum(batch.left for batch in self._batches))

    def give(self, block: Block) -> None:
        metas: list[dict[str, object]] = [{} for _ in range(block.frames.count)]
        self._batches.append(HeldBatch(block.stream, block.frames, metas, block.ingest_ns))
        self._resending.hold(self._batches[-1])
        block.receipt.ack()
        self._resending.pump()
