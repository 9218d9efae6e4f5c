"""The planners of the consumers: one connection for each consumer, as long as the connection lives."""

import datetime
from collections.abc import Sequence
from typing import NamedTuple

from connectors.spark.serve.link import SparkLink
from pyspark_walflow.wire import Code, RequestRefused


class Lease(NamedTuple):
    """`scan`: the checkpoint of the planner, empty if the client does not say; `who`: its process, for people."""

    text: str
    scan: str
    who: str
    since: datetime.datetime
    link: SparkLink


class Leases:
    def __init__(self) -> None:
        self._held: dict[str, Lease] = {}

    def check(self, consumer: str, text: str, scan: str, who: str) -> None:
        """Raises RequestRefused if another connection has the lease."""
        held = self._held.get(consumer)
        if held is not None and held.text != text:
            raise _refusal(consumer, held, scan, who)

    def take(self, consumer: str, text: str, scan: str, who: str, link: SparkLink) -> None:
        """Takes the lease. The same text takes over from an older connection, which is closed.
        Raises RequestRefused."""
        self.check(consumer, text, scan, who)
        held = self._held.get(consumer)
        now = datetime.datetime.now(datetime.UTC)
        self._held[consumer] = Lease(text, scan, who, now, link)
        if held is not None and held.link is not link:
            held.link.abort()

    def scan_of(self, consumer: str) -> str:
        """The scan of the present planner; empty if there is none, or its client does not say."""
        held = self._held.get(consumer)
        return held.scan if held is not None else ""

    def ended(self, link: SparkLink) -> Sequence[str]:
        """The consumers that it planned for."""
        over = [consumer for consumer, lease in self._held.items() if lease.link is link]
        for consumer in over:
            del self._held[consumer]
        return over


def _refusal(consumer: str, held: Lease, scan: str, who: str) -> RequestRefused:
    """The refusal. A second planner with the same checkpoint may follow one that is just ending; two checkpoints stay
    two."""
    holder = f"{held.who} since {held.since:%Y-%m-%dT%H:%M:%SZ}"
    if scan and held.scan and scan != held.scan:
        return RequestRefused(
            Code.TAKEN,
            f"consumer {consumer!r} is read by {holder}, and {who} asks for it too. A consumer is read once: a "
            "second query, or a second read of the stream within one query, needs a load() with a consumer of its "
            "own, which the flow declares",
        )
    return RequestRefused(
        Code.LEASED, f"consumer {consumer!r} is planned by {holder}; stop that query, or declare another consumer"
    )
