"""RFC 4180's rules, tremor's examples, and records that come back."""

import csv

import pytest
from hypothesis import given, strategies as st

from tests.codecs.adversarial import linear, look_at, repeated
from walflow.codecs.csv import CSV
from walflow.errors import CannotDecode, CannotEncode

READ = [
    (b"a,b,c,123", ["a", "b", "c", "123"]),
    (
        b'"some "" field",1234567,other_text,"2020-01-01 00:00:00"',
        ['some " field', "1234567", "other_text", "2020-01-01 00:00:00"],
    ),
    (b"aaa,bbb,ccc\r\n", ["aaa", "bbb", "ccc"]),  # RFC 4180, 2.1
    (b'"aaa","b\r\nbb","ccc"', ["aaa", "b\r\nbb", "ccc"]),  # 2.6
    (b'"aaa","b""bb","ccc"', ["aaa", 'b"bb', "ccc"]),  # 2.7
    (b" a , b ", [" a ", " b "]),  # 2.4: spaces are part of a field
    (b",", ["", ""]),
    (b'""', [""]),
    ("caf\xe9;x".encode(), ["caf\xe9;x"]),
]


@pytest.mark.parametrize(("payload", "record"), READ)
def test_records(payload: bytes, record: list[str]) -> None:
    assert CSV.decode(payload) == record
    assert CSV.decode(CSV.encode(record)) == record


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "no record"),
        (b"\r\n", "no record"),
        (b"a\nb", "others follow"),
        (b'"a', "unexpected end of data"),
        (b'"a"b', "expected after"),
        (b"a\rb", "new-line character"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_what_is_no_record(payload: bytes, reason: str) -> None:
    with pytest.raises(CannotDecode, match=reason):
        CSV.decode(payload)


def test_what_is_no_string_is_written_as_json() -> None:
    assert CSV.encode(["a", "b", "c", 123]) == b"a,b,c,123"
    assert CSV.encode([None, True, 1.5, {"a": [1]}]) == b'null,true,1.5,"{""a"":[1]}"'


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({}, "only an array"),
        ("a,b", "only an array"),
        ([], "empty array"),
        (["\ud800"], "surrogate"),
        ([b"x"], "not JSON"),
    ],
)
def test_what_cannot_be_written(value: object, reason: str) -> None:
    with pytest.raises(CannotEncode, match=reason):
        CSV.encode(value)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_records_come_back(record: list[str]) -> None:
    assert CSV.decode(CSV.encode(record)) == record


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), min_size=1))
def test_without_newlines_a_record_is_a_line(record: list[str]) -> None:
    assert b"\n" not in CSV.encode(record)


@given(st.text(st.sampled_from('a",\r\n ')).map(str.encode) | st.binary(max_size=20))
def test_any_bytes_are_a_record_or_refused(payload: bytes) -> None:
    look_at(CSV, payload)


@linear
@pytest.mark.parametrize("parts", [('"', '""', "a"), ("a,", ","), ("a", "\r\n"), ('"a"', '","')])
def test_a_megabyte(parts: tuple[str, ...]) -> None:
    for payload in repeated(*parts):
        look_at(CSV, payload)


def test_a_field_may_be_as_large_as_an_event() -> None:
    assert csv.field_size_limit() > 1 << 30
    assert CSV.decode(b"x" * (1 << 20)) == ["x" * (1 << 20)]
