"""A line of InfluxDB's line protocol: `weather,location=us temperature=82 1465839830100400200`. Names are tremor's.

It is read as the extractor `influx` reads it. A line without a timestamp is an event without one, and is written so.
"""

import re
from collections.abc import Mapping
from typing import Final, cast

from walflow.codecs.parts import bytes_of, number_text, record_of, string_in, text_of
from walflow.codecs.per_event import EventCodec
from walflow.errors import CannotDecode, CannotEncode
from walflow.plugins import known_keys
from walflow_kernel.extractors.contract import NO_MATCH
from walflow_kernel.extractors.influx import MEMBERS, extractor
from walflow_kernel.values import kind_of

_read = extractor("")
LATEST: Final = (1 << 63) - 2  # nanoseconds; InfluxDB keeps the last one for itself
_in_key = re.compile(r"[,= ]")
_in_measurement = re.compile(r"[, ]")
_unsure = re.compile(
    r"[\x00-\x1f\x7f]|\\\\|e-3\d\d"
).search  # what readers take differently, if it stands in a certain place
_quotes = re.compile(r'["\\]')


class Influx(EventCodec):
    name = "influx"

    def decode(self, payload: bytes) -> object:
        if payload.count(b",") > MEMBERS:
            raise CannotDecode(f"more than {MEMBERS} commas in a line of the line protocol")
        event = _read(text_of(payload))
        if event is NO_MATCH:
            raise CannotDecode("not a line of the line protocol")
        return event

    def encode(self, value: object) -> bytes:
        event = record_of(value, self.name)
        tags, fields = _members(event, "tags"), _members(event, "fields")
        if not fields:
            raise CannotEncode("fields is missing or empty")
        measurement = string_in(event, "measurement")
        if measurement.startswith("#"):
            raise CannotEncode("measurement begins with #: the line would be a comment")
        written = [f",{_key(name)}={_key(string_in(tags, name))}" for name in sorted(tags)]
        values = ",".join([f"{_key(name)}={_field(name, fields[name])}" for name in sorted(fields)])
        timestamp = event.get("timestamp")
        if timestamp is not None and (type(timestamp) is not int or abs(timestamp) > LATEST):
            raise CannotEncode(f"timestamp is {kind_of(timestamp)}, and no number of nanoseconds in 64 bits")
        line = f"{_key(measurement, _in_measurement)}{''.join(written)} {values}"
        made = bytes_of(line if timestamp is None else f"{line} {timestamp}")
        if _unsure(line) is not None and not self._reads(made, measurement, tags, fields):
            raise CannotEncode(
                "the line protocol does not hold it: a control character, a backslash before a separator, "
                "or a number below 2.3e-308"
            )
        return made

    def _reads(
        self, written: bytes, measurement: str, tags: Mapping[str, object], fields: Mapping[str, object]
    ) -> bool:
        """Whether it is read again as what it was. Readers differ in what they take for white space."""
        try:
            read = cast("Mapping[str, object]", self.decode(written))
        except CannotDecode:
            return False
        return (read["measurement"], read["tags"], read["fields"]) == (measurement, tags, fields)


def _members(event: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = event.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise CannotEncode(f"{name} is {kind_of(value)}, and no record")
    return cast(Mapping[str, object], value)


def _key(text: str, to_escape: re.Pattern[str] = _in_key) -> str:
    if not text or text.endswith("\\") or "\n" in text or "\0" in text:
        raise CannotEncode(
            f"{text[:40]!r} cannot be a name or a tag: it is empty, ends in a backslash, or has a newline"
        )
    return to_escape.sub(_escape, text)


def _field(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{_quotes.sub(_escape, value)}"'
    text = number_text(value, name)
    return text if isinstance(value, float) else f"{text}{'i' if int(text) < 1 << 63 else 'u'}"


def _escape(found: re.Match[str]) -> str:
    return f"\\{found[0]}"


INFLUX: Final = Influx()


def influx_codec(config: Mapping[str, object]) -> Influx:
    """A line of InfluxDB's line protocol: `weather,location=us temperature=82 1465839830100400200`."""
    known_keys("codec influx", config)
    return INFLUX
