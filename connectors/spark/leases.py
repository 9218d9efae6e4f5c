"""Who plans for which consumer: one connection each, for as long as it lives."""

import datetime
from typing import NamedTuple

from connectors.spark.link import Link
from pyspark_walflow.wire import Code, Refused


class Lease(NamedTuple):
    text: str
    peer: str
    since: datetime.datetime
    link: Link


class Leases:
    def __init__(self) -> None:
        self._held: dict[str, Lease] = {}

    def take(self, consumer: str, text: str, peer: str, link: Link) -> None:
        """The same text takes over from an older connection, which is closed. Raises Refused."""
        held = self._held.get(consumer)
        if held is not None and held.text != text:
            raise Refused(
                Code.LEASED,
                f"consumer {consumer!r} is planned by {held.peer} since {held.since:%Y-%m-%dT%H:%M:%SZ}; "
                "stop that query, or declare another consumer",
            )
        now = datetime.datetime.now(datetime.UTC)
        self._held[consumer] = Lease(text, peer, now, link)
        if held is not None and held.link is not link:
            held.link.abort()

    def ended(self, link: Link) -> None:
        self._held = {consumer: lease for consumer, lease in self._held.items() if lease.link is not link}
