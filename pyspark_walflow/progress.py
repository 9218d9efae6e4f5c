"""How far a query is: of Spark's progress what a person asks for, a batch once."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class SourceProgress(NamedTuple):
    """Of one read of a log in one batch. `lag`: events that were in the log when the batch ended, and not in it.
    `away`: why its daemon does not answer; the lag is an old one then."""

    name: str
    start: int
    end: int
    lag: int
    away: str = ""


def sources_of(progress: Mapping[str, Any]) -> list[SourceProgress]:
    """Of `query.lastProgress`, or of its JSON. Spark names a source after a class, and has no lag of a Python source;
    the offsets have both."""
    found: list[SourceProgress] = []
    for source in progress.get("sources", []):
        starts, ends, latest = (_offsets(source.get(name)) for name in ("startOffset", "endOffset", "latestOffset"))
        found += [_source(starts.get(host), end, latest.get(host)) for host, end in ends.items()]
    return found


def _source(
    start: Mapping[str, Any] | None, end: Mapping[str, Any], latest: Mapping[str, Any] | None
) -> SourceProgress:
    name = f"walflow, consumer {end['consumer']}, log {str(end['log'])[:8]}"
    known = max(end.get("next", 0), 0 if latest is None else latest["position"])  # the first: older_reader
    first = end["position"] if start is None else start["position"]
    away = "" if latest is None else str(latest.get("away", ""))
    return SourceProgress(name, first, end["position"], max(0, known - end["position"]), away)


def _offsets(given: object) -> Mapping[str, Mapping[str, Any]]:
    """By host, "" where there is one log; empty where it is of another source, or is none."""
    try:
        offset: object = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return {}
    if not isinstance(offset, Mapping):
        return {}
    fields = cast(Mapping[str, Any], offset)
    each: Mapping[str, Any] = {"": fields} if "log" in fields else fields
    return {
        host: cast(Mapping[str, Any], one)
        for host, one in each.items()
        if isinstance(one, Mapping) and {"log", "position", "consumer"} <= cast(Mapping[str, Any], one).keys()
    }


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
    states, sources = fields.get("stateOperators", []), sources_of(fields)
    return {
        "query": fields["id"],
        "batch": fields["batchId"],
        "rows": fields["numInputRows"],
        "seconds": seconds,
        "source": "; ".join(source.name for source in sources),
        "lag": sum(source.lag for source in sources),
        "state_rows": sum(state["numRowsTotal"] for state in states),
        "late_rows": sum(state.get("numRowsDroppedByWatermark", 0) for state in states),
        "watermark": fields.get("eventTime", {}).get("watermark"),
    }
