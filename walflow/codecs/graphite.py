"""A metric of Graphite's plaintext protocol: `disk.free 7 1620649445`. Names are tremor's.

The timestamp is in seconds. `-1` means the time at which the server gets it: such an event has no `timestamp`, and is
written with `-1`. (tremor takes its own time then, in nanoseconds.)
"""

import re
from collections.abc import Mapping
from typing import Final

from walflow.codecs.parts import bytes_of, number_of, number_text, record_of, string_in, text_of
from walflow.codecs.per_event import EventCodec
from walflow.errors import CannotDecode, CannotEncode
from walflow.plugins import known_keys

_is_path = re.compile(r"[^\s\x00-\x1f]+").fullmatch
NOW: Final = "-1"


class GraphitePlaintext(EventCodec):
    name = "graphite-plaintext"

    def decode(self, payload: bytes) -> object:
        words = text_of(payload).split(None, 3)
        if len(words) != 3:
            raise CannotDecode("not graphite: it is a path, a value and a timestamp")
        path, written, seconds = words
        value = number_of(written)
        if value is None:
            raise CannotDecode("not graphite: the value is no number")
        event: dict[str, object] = {"metric": path, "value": value}
        if seconds != NOW:
            timestamp = number_of(seconds)
            if timestamp is None or timestamp < 0:
                raise CannotDecode("not graphite: the timestamp is no number of seconds, and not -1")
            event["timestamp"] = timestamp
        return event

    def encode(self, value: object) -> bytes:
        event = record_of(value, self.name)
        path, timestamp = string_in(event, "metric"), event.get("timestamp")
        if _is_path(path) is None:
            raise CannotEncode(f"metric is {path[:40]!r}: it has at least one character, and no space")
        seconds = NOW if timestamp is None else number_text(timestamp, "timestamp")
        if timestamp is not None and seconds.startswith("-"):
            raise CannotEncode("timestamp is below 0")
        return bytes_of(f"{path} {number_text(event.get('value'), 'value')} {seconds}")


GRAPHITE_PLAINTEXT: Final = GraphitePlaintext()


def graphite_codec(config: Mapping[str, object]) -> GraphitePlaintext:
    """A metric of Graphite's plaintext protocol: `disk.free 7 1620649445`."""
    known_keys("codec graphite-plaintext", config)
    return GRAPHITE_PLAINTEXT
