"""Where events go that can never succeed: out by the err port as {"error", "source", "stream_id"}, one line each."""

from collections.abc import Sequence
from typing import Final

from structlog.typing import FilteringBoundLogger

from walflow.codecs import JSON
from walflow.event import Block, Frames, Node
from walflow.framing import LINES
from walflow.metrics import CountedValue

ERROR_META: Final = {"rejected": True}  # an error that is itself rejected is not sent round again


class ErrPort:
    """The err port of one connector, shared by its halves, or of a pipeline. `target` is None where nothing is
    linked."""

    def __init__(self, name: str, target: Node | None, rejected: CountedValue, log: FilteringBoundLogger) -> None:
        self.name = name
        self.target = target
        self._rejected = rejected
        self._log = log

    def take(self, block: Block, reasons: Sequence[str]) -> None:
        """Owns this copy of the block from here on. One reason an event."""
        self._rejected.value += len(reasons)
        if self.target is None or block.meta.get("rejected"):
            self._log.warning("rejected", reason=reasons[0], events=len(reasons), stream=block.stream.number)
            block.receipt.ack()
            return
        errors = [
            JSON.encode({"error": reason, "source": self.name, "stream_id": block.stream.number})
            for reason in reasons
        ]
        frames = Frames(LINES.join(errors), len(errors), LINES)
        self.target.accept(
            Block(
                block.stream,
                frames,
                JSON,
                block.receipt,
                ingest_ns=block.ingest_ns,
                meta=ERROR_META,
                origin=block.origin,
                weight=block.weight,
                positions=block.positions,
            )
        )
