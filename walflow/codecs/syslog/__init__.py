"""Syslog messages: RFC 5424 and RFC 3164 (BSD), read as tremor reads them, and written.

Any text is a message of some kind: what is no RFC 5424 is read as RFC 3164, and what has no header of that either is
all `msg`. So only text that is not UTF-8 is refused, a whole read is validated at once, and no part of a text is
dropped.

An RFC 3164 timestamp has no year: it is the latest in which the time is not more than a week ahead of the time at
which walflow has received the event. No clock is read, so an event that comes from a log has the same year again,
whenever it comes.
"""

from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import Final, cast
from zoneinfo import ZoneInfo

from walflow.codecs.parts import bytes_of, record_of, text_of
from walflow.codecs.string import STRING
from walflow.codecs.syslog.reader import reader
from walflow.codecs.syslog.writer import written
from walflow.errors import WalflowError
from walflow.event import Framing, TimedCodec, Verdict
from walflow.plugins import known_keys


class Syslog(TimedCodec):
    name = "syslog"
    transparent = True

    def __init__(
        self,
        config: Mapping[str, object],
        zone: tzinfo = UTC,
        *,
        keep_newlines: bool = False,
        ingest_ns: int = 0,
    ) -> None:
        """`ingest_ns`: for the year of an RFC 3164 timestamp, and to write one where an event has none."""
        self.config = config
        self._zone = zone
        self._keep_newlines = keep_newlines
        self._seconds = ingest_ns // 10**9

    def __repr__(self) -> str:
        return f"<Syslog {dict(self.config) or ''}>".replace(" >", ">")

    def at(self, ingest_ns: int) -> "Syslog":
        return Syslog(self.config, self._zone, keep_newlines=self._keep_newlines, ingest_ns=ingest_ns)

    def validate(self, data: bytes, framing: Framing, count: int | None = None) -> Verdict:
        return STRING.validate(data, framing, count)

    def whole(self, payload: bytes) -> bool:
        return False

    def decode(self, payload: bytes) -> object:
        return reader(self._zone).read(text_of(payload).rstrip("\r\n\0"), self._seconds)

    def encode(self, value: object) -> bytes:
        text = written(record_of(value, self.name), self._zone, self._seconds)
        if "\n" in text and not self._keep_newlines:
            text = text.replace("\n", "#012")  # as rsyslog: a newline would end the message, and begin a forged one
        return bytes_of(text)


SYSLOG: Final = Syslog({})


def syslog_codec(config: Mapping[str, object]) -> Syslog:
    """A syslog message: RFC 5424 or RFC 3164. It is written by its `protocol`. `timezone` (`"UTC"`) is that of RFC
    3164 timestamps. In place of a newline it writes `#012`, unless `newlines` is `"keep"`.

    Raises WalflowError.
    """
    known_keys("codec syslog", config, ("timezone", "newlines"))
    newlines = config.get("newlines", "escape")
    if newlines not in ("escape", "keep"):
        raise WalflowError(f"syslog has for newlines escape and keep, not {newlines!r}")
    zone = config.get("timezone", "UTC")
    if not config:
        return SYSLOG
    try:
        return Syslog(config, ZoneInfo(cast(str, zone)), keep_newlines=newlines == "keep")
    except (KeyError, ValueError, TypeError, OSError) as error:  # as ZoneInfo's way to look for it ends
        raise WalflowError(f"syslog has no time zone {zone!r}") from error
