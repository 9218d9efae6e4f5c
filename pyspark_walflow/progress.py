"""How far a query is: of Spark's progress what a person asks for, a batch once."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Progress:
    def __init__(self, query: "StreamingQuery") -> None:
        self.query = query
        self._batch: int | None = None  # the last one that was told
        self._stop_after: int | None = None

    def new(self) -> list[dict[str, object]]:
        """Batches that ended since the last call."""
        fresh: list[dict[str, object]] = []
        for progress in self.query.recentProgress:
            fields = json.loads(progress.json)
            number, seconds = fields["batchId"], fields["durationMs"].get("triggerExecution")
            if seconds is not None and (self._batch is None or number > self._batch) and _ran(fields):
                self._batch = number
                fresh.append(_told(fields, seconds / 1000))
        return fresh

    def may_stop(self) -> bool:
        """No batch runs, or the one that ran when this was asked first has ended."""
        before = self._stop_after if self._stop_after is not None else -1 if self._batch is None else self._batch
        self._stop_after = before
        if self._batch is not None and self._batch > before:
            return True
        return not str(self.query.status["message"]).startswith("Processing")


def _ran(fields: dict[str, Any]) -> bool:
    return "addBatch" in fields["durationMs"]


def _told(fields: dict[str, Any], seconds: float) -> dict[str, object]:
    states = fields.get("stateOperators", [])
    return {
        "query": fields["id"],
        "batch": fields["batchId"],
        "rows": fields["numInputRows"],
        "seconds": seconds,
        "state_rows": sum(state["numRowsTotal"] for state in states),
        "late_rows": sum(state.get("numRowsDroppedByWatermark", 0) for state in states),
        "watermark": fields.get("eventTime", {}).get("watermark"),
    }
