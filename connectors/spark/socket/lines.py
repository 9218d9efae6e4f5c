"""A log's events as Spark's socket source takes them: each is one line.

That source, Java's `readLine` under it, ends a line at a newline and at a carriage return. In JSON both can only
stand between tokens, and become spaces there. In any other event they are written as JSON would escape them, `\\n`
and `\\r`, and nothing else is: every other event is the bytes it was.
"""

from typing import NamedTuple

from msgspec import MsgspecError

from walflow import Frames, Half, WalflowError
from walflow.delivery import Tags
from walflow.wal import Fetch, Log, Record


class SparkLine(NamedTuple):
    """`after`: the position after its event."""

    after: int
    data: bytes


class Lines:
    """Reads events from `position`."""

    def __init__(self, log: Log, position: int, half: Half) -> None:
        self._records = log.reader(position)
        self._tags = Tags()
        self._half = half
        self._told = 0
        self.position = position  # of the next line

    def cold(self, max_bytes: int) -> Fetch | None:
        """What `read` would wait for."""
        return self._records.cold(max_bytes)

    def read(self, max_bytes: int) -> list[SparkLine]:
        """Returns lines; none if no more events are durable. Raises DiskFull if no file can be opened now."""
        lines: list[SparkLine] = []
        records = self._records.read(max_bytes)
        self._tell_gaps()
        for record in records:
            lines += self._lines_of(record)
        self.position = self._records.position
        return lines

    def _lines_of(self, record: Record) -> list[SparkLine]:
        try:
            tag = self._tags.decode(record.tag)
        except (MsgspecError, WalflowError) as error:
            self._half.log.error(
                "events not sent as lines", position=record.position, events=record.count, reason=str(error)
            )
            return []
        skip = max(self.position - record.position, 0)
        payloads = Frames(record.payload, record.count, tag.framing).payloads()
        return [
            SparkLine(record.position + number + 1, line(payload, tag.codec.name))
            for number, payload in enumerate(payloads)
            if number >= skip
        ]

    def _tell_gaps(self) -> None:
        for gap in self._records.gaps[self._told :]:
            self._half.log.error("events not sent as lines", reason=str(gap))
        self._told = len(self._records.gaps)


def line(payload: bytes, codec: str) -> bytes:
    if b"\n" in payload or b"\r" in payload:
        newline, carriage_return = (b" ", b" ") if codec == "json" else (rb"\n", rb"\r")
        payload = payload.replace(b"\n", newline).replace(b"\r", carriage_return)
    return payload + b"\n"
