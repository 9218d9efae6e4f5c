"""tremor's binary format, byte by byte as its source describes it, and null."""

import math
import struct

import pytest
from hypothesis import given, settings, strategies as st

from tests.codecs.adversarial import linear, look_at, repeated
from tests.codecs.test_msgpack import VALUE
from tests.examples import examples
from walflow.codecs import make
from walflow.codecs.null import NULL
from walflow.codecs.tremor import TREMOR
from walflow.errors import CannotDecode, CannotEncode
from walflow.framing import LINES
from walflow_kernel.json import DEEPEST

EIGHT = bytes(7)

VECTORS: list[tuple[bytes, object]] = [
    (b"\0", None),
    (b"\1", True),
    (b"\2", False),
    (b"\3" + struct.pack(">q", -42), -42),
    (b"\3" + EIGHT + b"\x2a", 42),
    (b"\4\x80" + EIGHT, 1 << 63),
    (b"\5" + struct.pack(">d", 42.0), 42.0),
    (b"\6" + EIGHT + b"\x07" + "42 \U0001f9a1".encode(), "42 \U0001f9a1"),
    (b"\7" + EIGHT + b"\3*+,", b"*+,"),
    (b"\x08" + EIGHT + b"\2\0\1", [None, True]),
    (b"\x09" + EIGHT + b"\1" + EIGHT + b"\1a\2", {"a": False}),
    (b"\x08" + EIGHT + b"\1\x08" + EIGHT + b"\0", [[]]),
]


@pytest.mark.parametrize(("data", "value"), VECTORS)
def test_vectors(data: bytes, value: object) -> None:
    assert TREMOR.decode(b"\0\0" + data) == value
    assert TREMOR.encode(value) == b"\0\0" + data


@settings(max_examples=examples(100))
@given(VALUE)
def test_values_come_back(value: object) -> None:
    again = TREMOR.decode(TREMOR.encode(value))
    assert again == value
    assert repr(again) == repr(value)


REFUSED = [
    (b"", "version 0"),
    (b"\0\1\0", "version 0"),
    (b"\0\0", "too early"),
    (b"\0\0\x0a", "no type 10"),
    (b"\0\0\0\0", "1 bytes follow"),
    (b"\0\0\6" + b"\xff" * 8, "too early"),
    (b"\0\0\6" + EIGHT + b"\1\xff", "not UTF-8"),
    (b"\0\0\x08" + b"\xff" * 8, "too early"),
    (b"\0\0\x09" + EIGHT + b"\1" + b"\xff" * 8, "too early"),
    (b"\0\0\5" + struct.pack(">d", math.inf), "infinity or NaN"),
    (b"\0\0" + (b"\x08" + EIGHT + b"\1") * (DEEPEST + 1) + b"\0", "nested deeper"),
]


@pytest.mark.parametrize(("payload", "reason"), REFUSED)
def test_what_is_refused(payload: bytes, reason: str) -> None:
    with pytest.raises(CannotDecode, match=reason):
        TREMOR.decode(payload)


def test_it_nests_as_deep_as_json_may() -> None:
    value: object = None
    for _ in range(DEEPEST):
        value = [value]
    assert TREMOR.decode(TREMOR.encode(value)) == value
    with pytest.raises(CannotEncode, match="nested deeper"):
        TREMOR.encode([value])


@pytest.mark.parametrize("value", [1 << 64, math.nan, object(), ["\ud800"], {"\ud800": 1}])
def test_what_cannot_be_written(value: object) -> None:
    with pytest.raises(CannotEncode):
        TREMOR.encode(value)


@settings(max_examples=examples(200))
@given(st.binary(max_size=40).map(lambda tail: b"\0\0" + tail))
def test_any_bytes_are_a_value_or_refused(payload: bytes) -> None:
    look_at(TREMOR, payload)


@linear
def test_a_megabyte() -> None:
    for payload in repeated(
        "\0\0", "\x08\0\0\0\0\0\0\0\1", "\x08\0\0\0\0\0\0\0\0", "\x09\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0", "\0"
    ):
        look_at(TREMOR, payload)
        look_at(TREMOR, b"\0\0\x08" + EIGHT[1:] + b"\x7f\xff" + payload)


def test_null_reads_anything_and_writes_nothing() -> None:
    verdict = NULL.validate(b"a\n\xff\n", LINES)
    assert verdict.good is not None
    assert verdict.good.count == 2
    assert NULL.decode(b"\xff") is None
    assert NULL.encode({"a": 1}) == b""
    assert not NULL.transparent
    assert make("null") is NULL
