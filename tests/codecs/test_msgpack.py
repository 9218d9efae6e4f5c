"""What decodes is what JSON could hold, and bytes; all else is refused with its reason, whatever the bytes are."""

import struct
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.examples import examples
from walflow.codecs import JSON, MSGPACK
from walflow.errors import CannotDecode, CannotEncode
from walflow.framing import MESSAGES

INTEGER = st.integers(-(1 << 63), (1 << 64) - 1)
LEAF = st.none() | st.booleans() | INTEGER | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUE = st.recursive(
    LEAF | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(st.lists(VALUE, min_size=1, max_size=10))
def test_values_come_back(values: list[object]) -> None:
    verdict = MSGPACK.validate(MESSAGES.join([MSGPACK.encode(value) for value in values]), MESSAGES)
    assert verdict.good is not None
    assert not verdict.bad
    assert [MSGPACK.decode(payload) for payload in verdict.good.payloads()] == values


@given(VALUE)
def test_it_is_what_another_encoder_writes(value: object) -> None:
    assert MSGPACK.decode(msgspec.msgpack.encode(value)) == value


REFUSED = [
    (b"", "truncated"),
    (b"\xc1", "invalid opcode"),
    (b"\x01\x02", "trailing"),
    (b"\x81\x01\x02", "key must be str"),
    (b"\x91\x81\xc4\x01a\x01", "key must be str"),
    (b"\x91\x81\xc3\x01", "key must be str"),
    (b"\xc7\x00\x05", "extension type 5"),
    (b"\x91\xd4\x05\x00", "extension type 5"),
    (msgspec.msgpack.encode([datetime(2026, 1, 1, tzinfo=UTC)]), "a timestamp"),
    (b"\xa1\xff", "utf-8"),
    (b"\xdd\xff\xff\xff\xff", "truncated"),
    (b"\x91" * 300 + b"\x01", "limit"),
    (b"\x91" * 5000 + b"\x01", "ecursion"),
    (b"\xcb\x7f\xf0" + bytes(6), "infinity or NaN"),
    (b"\x91\x81\xa1a\xca\x7f\xc0\x00\x00", "infinity or NaN"),
]


@pytest.mark.parametrize(("payload", "reason"), REFUSED)
def test_what_is_refused(payload: bytes, reason: str) -> None:
    good = msgspec.msgpack.encode({"a": 1})
    verdict = MSGPACK.validate(MESSAGES.join([good, payload, good]), MESSAGES)
    assert verdict.good is not None
    assert verdict.good.payloads() == [good, good]
    ((refused, said),) = verdict.bad
    assert refused == payload
    assert reason in said


def verdict_of(payload: bytes) -> str:
    try:
        MSGPACK.decode(payload)
    except CannotDecode as error:
        return str(error)
    return ""


LOOKS_INFINITE = st.sampled_from([b"\xc4\x03\xcb\x7f\xf0", b"\xa2\xca\x7f", b"\xcf" + b"\xca\xff\xff\x80" * 2])
PIECE = (
    VALUE.map(MSGPACK.encode)
    | LOOKS_INFINITE
    | st.sampled_from([payload for payload, _ in REFUSED])
    | st.binary(max_size=3)
)


@settings(max_examples=examples(1000))
@given(st.lists(PIECE, min_size=1, max_size=5), st.data())
def test_many_have_the_verdicts_that_each_has_alone(payloads: list[bytes], data: st.DataObject) -> None:
    """Also where neighbours would be good values if they were cut elsewhere."""
    if len(payloads) > 1 and data.draw(st.booleans()):
        number = data.draw(st.integers(1, len(payloads) - 1))
        both = payloads[number - 1] + payloads[number]
        at = data.draw(st.integers(0, len(both)))
        payloads[number - 1 : number + 1] = [both[:at], both[at:]]
    verdict = MSGPACK.validate(MESSAGES.join(payloads), MESSAGES)
    assert (verdict.good.payloads() if verdict.good is not None else []) == [p for p in payloads if not verdict_of(p)]
    assert list(verdict.bad) == [(p, said) for p in payloads if (said := verdict_of(p))]


@settings(max_examples=examples(1000))
@given(st.binary(max_size=30) | st.binary(max_size=8).map(lambda tail: b"\x92\xcb\x7f\xf0" + tail))
def test_arbitrary_bytes_are_refused_or_can_be_written(payload: bytes) -> None:
    try:
        value = MSGPACK.decode(payload)
    except CannotDecode:
        return
    assert MSGPACK.decode(MSGPACK.encode(value)) == value
    try:
        json = JSON.decode(JSON.encode(value))
    except CannotEncode as error:
        assert "binary data" in str(error)  # noqa: PT017
    else:
        assert json == value


def test_floats_of_either_size_are_numbers() -> None:
    assert MSGPACK.decode(b"\xca" + struct.pack(">f", 1.5)) == 1.5
    assert MSGPACK.decode(b"\x92\xcb\x7f\xef" + b"\xff" * 6 + b"\x01") == [1.7976931348623157e308, 1]


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1, object()])
def test_what_it_cannot_hold(value: object) -> None:
    with pytest.raises(CannotEncode, match="not msgpack"):
        MSGPACK.encode(value)
