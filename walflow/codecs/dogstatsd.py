"""DogStatsD, version 1.2 and the timestamps of 1.3: a metric, an event or a service check.

An event is a record with one member, `metric`, `event` or `service_check`; names and types are tremor's.

    page.views:1:2|c|@0.5|#env:dev,eu|c:1f2e            metric
    _e{5,4}:title|text|d:1620649445|h:web-1|#env:dev    event: the sizes are those in UTF-8
    _sc|Redis|2|d:1620649445|#env:dev|m:timed out       service check
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, cast

from walflow.codecs.parts import bytes_of, number_of, number_text, record_of, string_in, text_of
from walflow.codecs.per_event import EventCodec
from walflow.errors import CannotDecode, CannotEncode
from walflow.plugins import known_keys
from walflow_kernel.values import kind_of

TYPES: Final = ("c", "d", "g", "h", "ms", "s")
STATUSES: Final = range(4)
LARGEST_TIME: Final = (1 << 32) - 1
_sizes = re.compile(rb"_e\{(\d{1,10}),(\d{1,10})\}:").match
_is_digits = re.compile(r"\d{1,10}", re.ASCII).fullmatch
_is_name = re.compile(r"[^:|\n]+").fullmatch
_has_no_bar = re.compile(r"[^|\n]*").fullmatch


class Section(NamedTuple):
    """A part behind the first ones: what it begins with, what tremor calls it, and both directions."""

    mark: str
    name: str
    read: Callable[[str], object]
    write: Callable[[Mapping[str, object], str], str]


def _time(text: str) -> int:
    if _is_digits(text) is None or int(text) > LARGEST_TIME:
        raise CannotDecode("not dogstatsd: a timestamp is a number of seconds")
    return int(text)


def _rate(text: str) -> float:
    value = number_of(text)
    if value is None:
        raise CannotDecode("not dogstatsd: the sample rate is no number")
    return float(value)


def _tags(text: str) -> list[str]:
    return text.split(",")


def _write_time(record: Mapping[str, object], name: str) -> str:
    value = record[name]
    if type(value) is not int or not 0 <= value <= LARGEST_TIME:
        raise CannotEncode(f"{name} is {kind_of(value)}, and no number of seconds")
    return str(value)


def _write_rate(record: Mapping[str, object], name: str) -> str:
    return number_text(record[name], name)


def _write_text(record: Mapping[str, object], name: str) -> str:
    text = string_in(record, name)
    if _has_no_bar(text) is None:
        raise CannotEncode(f"{name} has a | or a newline")
    return text


def _write_tags(record: Mapping[str, object], name: str) -> str:
    tags = record[name]
    if not isinstance(tags, list):
        raise CannotEncode(f"tags is {kind_of(tags)}, and no array")
    for tag in cast(list[object], tags):
        if not isinstance(tag, str) or _has_no_bar(tag) is None or "," in tag:
            raise CannotEncode("a tag is no string, or has a comma, a | or a newline")
    return ",".join(cast(list[str], tags))


RATE: Final = Section("@", "sample_rate", _rate, _write_rate)
TIME: Final = Section("d:", "timestamp", _time, _write_time)
METRIC_TIME: Final = Section("T", "timestamp", _time, _write_time)
TAGS: Final = Section("#", "tags", _tags, _write_tags)


def _texts(**names: str) -> list[Section]:
    return [Section(f"{mark}:", name, str, _write_text) for mark, name in names.items()]


METRIC: Final = (RATE, TAGS, *_texts(c="container_id"), METRIC_TIME)
EVENT: Final = (
    TIME,
    *_texts(h="hostname", k="aggregation_key", p="priority", s="source", t="type"),
    TAGS,
    *_texts(c="container_id"),
)
CHECK: Final = (TIME, *_texts(h="hostname"), TAGS, *_texts(m="message", c="container_id"))


class Dogstatsd(EventCodec):
    name = "dogstatsd"

    def decode(self, payload: bytes) -> object:
        if payload.startswith(b"_e{"):
            return {"event": _read_event(payload)}
        text = text_of(payload)
        if text.startswith("_sc|"):
            return {"service_check": _read_check(text)}
        return {"metric": _read_metric(text)}

    def encode(self, value: object) -> bytes:
        record = record_of(value, self.name)
        for name, write in WRITERS.items():
            if name in record:
                return bytes_of(write(record_of(record[name], f"dogstatsd's {name}")))
        raise CannotEncode(f"a record that has none of {', '.join(WRITERS)} cannot be written as dogstatsd")


def _read_metric(text: str) -> dict[str, object]:
    metric, colon, rest = text.partition(":")
    written, _, rest = rest.partition("|")
    kind, bar, rest = rest.partition("|")
    if not metric or not colon or kind not in TYPES:
        raise CannotDecode("not dogstatsd: a metric is name:value|type")
    values: list[object] = []
    for value in written.split(":"):
        number = number_of(value)
        if kind == "s" and value and (number is None or _integer_text(number) != value):
            values.append(value)  # a member of a set may be any text
        elif number is None:
            raise CannotDecode("not dogstatsd: a value is no number")
        else:
            values.append(float(number))
    return _with_sections({"metric": metric, "type": kind, "values": values}, METRIC, rest if bar else None)


def _read_event(payload: bytes) -> dict[str, object]:
    found = _sizes(payload)
    if found is None:
        raise CannotDecode("not dogstatsd: an event is _e{size,size}:title|text")
    title_end = found.end() + int(found[1])
    end = title_end + 1 + int(found[2])
    if end > len(payload) or payload[title_end : title_end + 1] != b"|" or payload[end : end + 1] not in (b"", b"|"):
        raise CannotDecode("not dogstatsd: an event's title and text are not as long as it says")
    event: dict[str, object] = {
        "title": text_of(payload[found.end() : title_end]),
        "text": text_of(payload[title_end + 1 : end]),
    }
    return _with_sections(event, EVENT, text_of(payload[end + 1 :]) if end < len(payload) else None)


def _read_check(text: str) -> dict[str, object]:
    parts = text.split("|", 3)
    if len(parts) < 3 or not parts[1] or parts[2] not in map(str, STATUSES):
        raise CannotDecode("not dogstatsd: a service check is _sc|name|status, and a status is 0 to 3")
    return _with_sections({"name": parts[1], "status": int(parts[2])}, CHECK, parts[3] if len(parts) > 3 else None)


def _with_sections(event: dict[str, object], known: tuple[Section, ...], text: str | None) -> dict[str, object]:
    """What is not known is left out, as Datadog's own agent leaves it out."""
    for part in text.split("|") if text is not None else ():
        section = next((section for section in known if part.startswith(section.mark)), None)
        if section is not None:
            event[section.name] = section.read(part.removeprefix(section.mark))
    return event


def _write_metric(record: Mapping[str, object]) -> str:
    metric, kind, values = string_in(record, "metric"), string_in(record, "type"), record.get("values")
    if _is_name(metric) is None or metric.startswith("_e{"):
        raise CannotEncode("metric is empty, has a : | or newline, or begins as an event does")
    if kind not in TYPES:
        raise CannotEncode(f"type is {kind[:40]!r}: it is one of {', '.join(TYPES)}")
    if not isinstance(values, list) or not values:
        raise CannotEncode("values is no array of at least one value")
    written = ":".join([_value_text(value, kind) for value in cast(list[object], values)])
    return f"{metric}:{written}|{kind}{_sections(record, METRIC)}"


def _value_text(value: object, kind: str) -> str:
    if kind == "s" and isinstance(value, str) and _is_name(value):
        return value
    text = number_text(value, "a value")
    return _integer_text(value) if isinstance(value, float) else text


def _integer_text(number: float) -> str:
    return str(int(number)) if abs(number) < 1 << 53 and number == int(number) else repr(number)


def _write_event(record: Mapping[str, object]) -> str:
    title, text = string_in(record, "title"), string_in(record, "text")
    if "\n" in title or "\n" in text:
        raise CannotEncode("title or text has a newline: DogStatsD writes it as \\n")
    sizes = f"{len(bytes_of(title))},{len(bytes_of(text))}"
    return f"_e{{{sizes}}}:{title}|{text}{_sections(record, EVENT)}"


def _write_check(record: Mapping[str, object]) -> str:
    name, status = _write_text(record, "name"), record.get("status")
    if not name or type(status) is not int or status not in STATUSES:
        raise CannotEncode("name is empty, or status is not 0 to 3")
    return f"_sc|{name}|{status}{_sections(record, CHECK)}"


def _sections(record: Mapping[str, object], known: tuple[Section, ...]) -> str:
    present = [section for section in known if record.get(section.name) is not None]
    return "".join([f"|{section.mark}{section.write(record, section.name)}" for section in present])


WRITERS: Final[Mapping[str, Callable[[Mapping[str, object]], str]]] = {
    "metric": _write_metric,
    "event": _write_event,
    "service_check": _write_check,
}
DOGSTATSD: Final = Dogstatsd()


def dogstatsd_codec(config: Mapping[str, object]) -> Dogstatsd:
    """A metric, an event or a service check of DogStatsD: `page.views:1|c|#env:dev`."""
    known_keys("codec dogstatsd", config)
    return DOGSTATSD
