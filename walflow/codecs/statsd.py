"""A metric of statsd: `sam:7|c|@0.1`. Names and types are tremor's.

In statsd a sign of a gauge's value says that the gauge is changed by it: that is `action`, "add" or "sub".
"""

import re
from collections.abc import Mapping
from typing import Final

from walflow.codecs.parts import bytes_of, number_of, number_text, record_of, string_in, text_of
from walflow.codecs.per_event import EventCodec
from walflow.errors import CannotDecode, CannotEncode
from walflow.plugins import known_keys

TYPES: Final = ("c", "ms", "g", "h", "s")
ACTIONS: Final = {"+": "add", "-": "sub"}
SIGNS: Final = {action: sign for sign, action in ACTIONS.items()}

_line = re.compile(r"([^:|\n]++):([^|\n]++)\|(c|ms|g|h|s)(?:\|@([^|\n]++))?").fullmatch
is_name = re.compile(r"[^:|\n]+").fullmatch
is_text = re.compile(r"[^|\n]+").fullmatch


class Statsd(EventCodec):
    name = "statsd"

    def decode(self, payload: bytes) -> object:
        text = text_of(payload)
        found = _line(text)
        if found is None:
            raise CannotDecode("not statsd: it is name:value|type, or name:value|type|@rate")
        metric, written, kind, rate = found.groups()
        event: dict[str, object] = {"metric": metric, "type": kind}
        if kind == "g" and (action := ACTIONS.get(written[0])) is not None:
            event["action"] = action
            written = written[1:]
        value: object = None if written[:1] in ACTIONS and "action" in event else number_of(written)
        if kind == "s" and repr(value) != written:
            value = written  # a member of a set may be any text
        if value is None:
            raise CannotDecode(f"not statsd: the value is {_short(written)}, and no number")
        event["value"] = value
        if rate is not None:
            sample_rate = number_of(rate)
            if sample_rate is None:
                raise CannotDecode(f"not statsd: the sample rate is {_short(rate)}, and no number")
            event["sample_rate"] = float(sample_rate)
        return event

    def encode(self, value: object) -> bytes:
        event = record_of(value, self.name)
        metric, kind = string_in(event, "metric"), string_in(event, "type")
        if is_name(metric) is None:
            raise CannotEncode(f"metric is {_short(metric)}: it has at least one character, and no : | or newline")
        if kind not in TYPES:
            raise CannotEncode(f"type is {_short(kind)}: it is one of {', '.join(TYPES)}")
        text = f"{metric}:{_value_text(event, kind)}|{kind}"
        if event.get("sample_rate") is not None:
            text += f"|@{number_text(event['sample_rate'], 'sample_rate')}"
        return bytes_of(text)


def _value_text(event: Mapping[str, object], kind: str) -> str:
    value, action = event.get("value"), event.get("action")
    if kind == "s" and isinstance(value, str):
        if is_text(value) is None:
            raise CannotEncode(f"value is {_short(value)}: it has at least one character, and no | or newline")
        return value
    text = number_text(value, "value")
    if kind != "g" or (action is None and not text.startswith("-")):
        return text
    if text.startswith("-"):
        raise CannotEncode('a gauge has a value below 0: statsd takes the sign for a change; write {"action": "sub"}')
    if action not in SIGNS:
        raise CannotEncode(f"action is {action!r}: it is one of {', '.join(SIGNS)}")
    return SIGNS[str(action)] + text


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}…")


STATSD: Final = Statsd()


def statsd_codec(config: Mapping[str, object]) -> Statsd:
    """A metric of statsd: `sam:7|c|@0.1`."""
    known_keys("codec statsd", config)
    return STATSD
