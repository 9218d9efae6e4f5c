"""From the members of an event to text."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, tzinfo
from typing import cast

from walflow.codecs.syslog.names import DAY, EPOCH, FACILITIES, MONTHS, SEVERITIES
from walflow.errors import CannotEncode
from walflow_kernel.values import kind_of

_to_escape = re.compile(r'["\\\]]')
_is_word = re.compile(r"[^\s\x00-\x1f\x7f]+").fullmatch
_is_name = re.compile(r'[^\s\x00-\x1f\x7f="\[\]]+').fullmatch


def written(event: Mapping[str, object], zone: tzinfo, now: int) -> str:
    """Raises CannotEncode."""
    protocol = event.get("protocol", "RFC5424")
    if protocol == "RFC5424":
        return _write_ietf(event)
    if protocol == "RFC3164":
        return _write_bsd(event, zone, now)
    raise CannotEncode(f"protocol is {protocol!r}, which is neither 'RFC5424' nor 'RFC3164'")


def _write_bsd(event: Mapping[str, object], zone: tzinfo, now: int) -> str:
    nanoseconds = _integer(event, "timestamp")
    seconds = now if nanoseconds is None else nanoseconds // 10**9
    when = datetime.fromtimestamp(seconds, zone) if _is_writable(seconds) else None
    if when is None:
        raise CannotEncode(f"timestamp {nanoseconds} is not between the years 1 and 9999")
    host = _text(event, "hostname") or "-"
    app, process = _text(event, "appname"), _text(event, "procid")
    tag = f"{app or '-'}[{process}]:" if process else f"{app or ''}:"
    head = f"<{_priority(event)}>{MONTHS[when.month - 1]} {when.day:2} {when:%H:%M:%S} {host} {tag}"
    parts = [head, _write_structured(event), _msg(event)]
    return " ".join([part for part in parts if part])


def _write_ietf(event: Mapping[str, object]) -> str:
    version = event.get("protocol_version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= 999:
        raise CannotEncode(f"protocol_version is {version!r}, and no number from 1 to 999")
    words = [_text(event, name) or "-" for name in ("hostname", "appname", "procid", "msgid")]
    head = [f"<{_priority(event)}>{version}", _write_time(event), *words, _write_structured(event) or "-"]
    msg = _msg(event)
    return " ".join([*head, msg] if msg else head)


def _write_time(event: Mapping[str, object]) -> str:
    nanoseconds = _integer(event, "timestamp")
    if nanoseconds is None:
        return "-"
    seconds, rest = divmod(nanoseconds, 10**9)
    if not _is_writable(seconds):
        raise CannotEncode(f"timestamp {nanoseconds} is not between the years 1 and 9999")
    fraction = f".{rest // 1000:06}".rstrip("0").rstrip(".")  # RFC 5424 has six digits
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _write_structured(event: Mapping[str, object]) -> str:
    data = event.get("structured_data")
    if data is None:
        return ""
    if not isinstance(data, dict):
        raise CannotEncode(f"structured_data is {kind_of(data)}, and no record")
    elements = cast(Mapping[str, object], data)
    return "".join([f"[{_name(key)}{_write_parameters(key, value)}]" for key, value in elements.items()])


def _write_parameters(element: str, parameters: object) -> str:
    if not isinstance(parameters, list):
        raise CannotEncode(f"structured_data.{element} is {kind_of(parameters)}, and no array of records")
    written: list[str] = []
    for parameter in cast(list[object], parameters):
        if not isinstance(parameter, dict):
            raise CannotEncode(f"structured_data.{element} has {kind_of(parameter)}, which is no record")
        for name, value in cast(Mapping[str, object], parameter).items():
            if not isinstance(value, str):
                raise CannotEncode(f"structured_data.{element}.{name} is {kind_of(value)}, and no string")
            written.append(f' {_name(name)}="{_to_escape.sub(_escape, value)}"')
    return "".join(written)


def _escape(found: re.Match[str]) -> str:
    return f"\\{found[0]}"


def _name(name: str) -> str:
    if _is_name(name) is None:
        raise CannotEncode(f"{name!r} cannot be a name in structured data")
    return name


def _priority(event: Mapping[str, object]) -> int:
    return _number_of(event, "facility", FACILITIES, "user") * 8 + _number_of(event, "severity", SEVERITIES, "notice")


def _number_of(event: Mapping[str, object], name: str, known: tuple[str, ...], default: str) -> int:
    value = event.get(name)
    if value is None:
        value = default  # RFC 3164, 4.3.3
    if value not in known:
        raise CannotEncode(f"{name} is {value!r}: it is one of {', '.join(known)}")
    return known.index(value)


def _integer(event: Mapping[str, object], name: str) -> int | None:
    value = event.get(name)
    if value is not None and type(value) is not int:
        raise CannotEncode(f"{name} is {kind_of(value)}, and no integer")
    return value


def _text(event: Mapping[str, object], name: str) -> str:
    """One word; empty if there is none."""
    value = event.get(name)
    if value is None or value == "":
        return ""
    if name == "procid" and type(value) is int:
        return str(value)
    if not isinstance(value, str):
        raise CannotEncode(f"{name} is {kind_of(value)}, and no string")
    if _is_word(value) is None:
        raise CannotEncode(f"{name} {value!r} has a space or a control character")
    return value


def _msg(event: Mapping[str, object]) -> str:
    value = event.get("msg")
    if value is not None and not isinstance(value, str):
        raise CannotEncode(f"msg is {kind_of(value)}, and no string")
    return value or ""


def _is_writable(seconds: int) -> bool:
    return (2 - EPOCH) * DAY < seconds < (date.max.toordinal() - EPOCH) * DAY
