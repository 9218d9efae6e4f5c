"""What the metadata of an event says of its message: `$kafka_producer` with tremor's keys."""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeGuard, cast

from walflow import WalflowError

KEYS: Final = ("key", "headers", "partition", "timestamp")
ANY: Final = -1  # partition: by the key, or any
NOW: Final = 0  # timestamp

Header = tuple[str, bytes | str | None]


class BadMeta(WalflowError):
    """`$kafka_producer` of an event has what no message can have."""


class MessageParts(NamedTuple):
    key: bytes | str | None = None
    partition: int = ANY
    timestamp_ms: int = NOW
    headers: list[Header] | None = None


def parts_of(meta: Mapping[str, object], key: str | None) -> MessageParts:
    """Raises BadMeta."""
    if (own := meta.get("kafka_producer")) is None:
        return MessageParts(key)
    given = _record(own, "$kafka_producer")
    unknown = given.keys() - set(KEYS)
    if unknown:
        raise BadMeta(f"$kafka_producer has no key {min(unknown)}: it takes {', '.join(KEYS)}")
    return MessageParts(
        _key(given.get("key"), key),
        _number(given.get("partition"), "partition", ANY, (1 << 31) - 1),
        _number(given.get("timestamp"), "timestamp", NOW, (1 << 63) - 1) // 1_000_000,
        _headers(given.get("headers")),
    )


def _record(given: object, name: str) -> Mapping[str, object]:
    if not isinstance(given, Mapping):
        raise BadMeta(f"{name} is no record")
    return cast(Mapping[str, object], given)


def _is_bytes(value: object) -> TypeGuard[bytes | str]:
    return isinstance(value, bytes | str)


def _key(given: object, otherwise: str | None) -> bytes | str | None:
    if given is None:
        return otherwise
    if not _is_bytes(given):
        raise BadMeta("$kafka_producer.key is neither a string nor binary")
    return given


def _number(given: object, name: str, otherwise: int, most: int) -> int:
    if given is None:
        return otherwise
    if type(given) is not int or not 0 <= given <= most:
        raise BadMeta(f"$kafka_producer.{name} is no number from 0 on")
    return given


def _headers(given: object) -> list[Header] | None:
    """A list stands for a header that is there several times."""
    if given is None:
        return None
    headers: list[Header] = []
    for name, values in _record(given, "$kafka_producer.headers").items():
        for value in cast(list[object], values) if isinstance(values, list) else [values]:
            if value is not None and not _is_bytes(value):
                raise BadMeta(f"$kafka_producer.headers.{name} is neither a string nor binary")
            headers.append((name, value))
    return headers or None
