"""Syslog messages: RFC 5424 and RFC 3164 (BSD), read as tremor reads them, and written.

Any text is a message of some kind: what is no RFC 5424 is read as RFC 3164, and what has no header of that either is all
`msg`. So only text that is not UTF-8 is refused, a whole read is validated at once, and no part of a text is dropped.

An RFC 3164 timestamp has no year, so reading one needs today's date: the year is the latest in which the time is not
more than a week ahead. Replayed from a log within 51 weeks, an event has the same year again.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from typing import Final, cast
from zoneinfo import ZoneInfo

from walflow.codecs.parts import bytes_of, record_of, text_of
from walflow.codecs.string import STRING
from walflow.codecs.syslog.reading import SyslogReader
from walflow.codecs.syslog.writing import written
from walflow.errors import WalflowError
from walflow.event import Framing, Verdict
from walflow.plugins import known_keys


class Syslog:
    name = "syslog"
    transparent = True

    def __init__(
        self,
        config: Mapping[str, object],
        zone: tzinfo = UTC,
        *,
        keep_newlines: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`now`: seconds since 1970, for the year of an RFC 3164 timestamp, and to write one where an event has none."""
        self.config = config
        self._zone = zone
        self._keep_newlines = keep_newlines
        self._now = now
        self._read = SyslogReader(zone, now).read

    def __repr__(self) -> str:
        return f"<Syslog {dict(self.config) or ''}>".replace(" >", ">")

    def validate(self, data: bytes, framing: Framing, count: int | None = None) -> Verdict:
        return STRING.validate(data, framing, count)

    def whole(self, payload: bytes) -> bool:
        return False

    def decode(self, payload: bytes) -> object:
        return self._read(text_of(payload).rstrip("\r\n\0"))

    def encode(self, value: object) -> bytes:
        text = written(record_of(value, self.name), self._zone, self._now)
        if "\n" in text and not self._keep_newlines:
            text = text.replace("\n", "#012")  # as rsyslog: a newline would end the message, and begin a forged one
        return bytes_of(text)


SYSLOG: Final = Syslog({})


def syslog_codec(config: Mapping[str, object]) -> Syslog:
    """A syslog message: RFC 5424 or RFC 3164. It is written by its `protocol`. `timezone` (`"UTC"`) is that of RFC 3164
    timestamps. In place of a newline it writes `#012`, unless `newlines` is `"keep"`.

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
