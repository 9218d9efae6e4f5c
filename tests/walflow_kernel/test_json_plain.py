"""JSON by the standard library alone gives the answers that msgspec and orjson give, to the last byte."""

import math
from typing import Any

from hypothesis import given, strategies as st

from walflow_kernel import json_plain, json_quick
from walflow_kernel.values import OutOfRange

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | texts
finite = scalars.filter(lambda one: not isinstance(one, float) or math.isfinite(one))
values = st.recursive(finite, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)


@given(values)
def test_the_same_bytes(value: object) -> None:
    assert json_plain.encode(value) == json_quick.encode(value)
    assert json_plain.encode_sorted(value) == json_quick.encode_sorted(value)
    assert json_plain.encode_lines([value, value]) == json_quick.encode_lines([value, value])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_same_digits(number: float) -> None:
    assert json_plain.encode(number) == json_quick.encode(number)


@given(values)
def test_the_same_values(value: object) -> None:
    text = json_quick.encode(value)
    assert repr(json_plain.decode(text)) == repr(json_quick.decode(text)) == repr(value)


bad: Any = st.sampled_from([b"bytes", "\ud800", 2**64, -(2**63) - 1, OutOfRange("1e400"), {1: 2}])


@given(st.lists(values | bad | bad.map(lambda one: [one]) | bad.map(lambda one: {"a": one})))
def test_the_same_is_refused(several: list[object]) -> None:
    assert json_plain.all_hold(several) == json_quick.all_hold(several)


def fails(decode: Any, text: bytes) -> bool:
    try:
        decode(text)
    except (ValueError, RecursionError):
        return True
    return False


@given(st.binary(max_size=12) | st.text('{}[]:,"\\u0d8eE+-.1234567890 \t\r\ntruefalsn', max_size=16).map(str.encode))
def test_the_same_texts_are_no_json(text: bytes) -> None:
    assert fails(json_plain.decode, text) == fails(json_quick.decode, text)
