"""The examples of Avro's specification, what fastavro itself writes and reads,
and bytes and schemas that are a trap."""

import io
import json
import math
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings, strategies as st

from tests.codecs.adversarial import linear, look_at, repeated
from tests.examples import examples
from walflow.codecs import make
from walflow.codecs.avro import Avro, avro_codec
from walflow.errors import CannotDecode, CannotEncode, WalflowError

SCHEMA: dict[str, object] = {
    "type": "record",
    "name": "test",
    "fields": [
        {"name": "int", "type": "int", "default": 42},
        {"name": "long", "type": "long", "default": 42},
        {"name": "string", "type": "string"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}, "default": ""},
        {"name": "tags", "type": {"type": "map", "values": "double"}, "default": {}},
        {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["A", "B"]}, "default": "A"},
        {"name": "also", "type": {"type": "array", "items": "kind"}, "default": []},
    ],
}  # fmt: skip
EVENT = {
    "int": 1,
    "long": -(1 << 63),
    "string": "caf\xe9",
    "at": 5,
    "price": b"\1",
    "tags": {"a": 1.5},
    "kind": "B",
    "also": ["A"],
}


def datum(schema: object) -> Avro:
    return avro_codec({"schema": schema, "format": "datum"})


# Avro 1.12, "Binary encoding"
VECTORS: list[tuple[object, object, bytes]] = [
    ("null", None, b""),
    ("boolean", True, b"\x01"),
    ("long", -2, b"\x03"),
    ("long", 64, b"\x80\x01"),
    ("string", "foo", b"\x06foo"),
    ({"type": "record", "name": "test", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]},
     {"a": 27, "b": "foo"}, b"\x36\x06foo"),
    ({"type": "enum", "name": "Foo", "symbols": ["A", "B", "C", "D"]}, "D", b"\x06"),
    ({"type": "array", "items": "long"}, [3, 27], b"\x04\x06\x36\x00"),
    (["null", "string"], None, b"\x00"),
    (["null", "string"], "a", b"\x02\x02a"),
    ({"type": "fixed", "name": "f", "size": 2}, b"\1\2", b"\1\2"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "data"), VECTORS)
def test_vectors(schema: object, value: object, data: bytes) -> None:
    assert datum(schema).encode(value) == data
    assert datum(schema).decode(data) == value


@pytest.mark.parametrize("form", ["container", "datum"])
def test_logical_types_are_what_is_below_them(form: str) -> None:
    codec = avro_codec({"schema": SCHEMA, "format": form})
    assert codec.decode(codec.encode(EVENT)) == EVENT
    short = {"string": "x", "price": b"", "beyond the schema": 1}
    expected = {"int": 42, "long": 42, "string": "x", "at": None, "price": b"", "tags": {}, "kind": "A", "also": []}
    assert codec.decode(codec.encode(short)) == expected


def test_containers_are_fastavros() -> None:
    codec = avro_codec({"schema": SCHEMA})
    bare = {**EVENT, "at": None, "price": b"\0"}
    (read,) = fastavro.reader(io.BytesIO(codec.encode(bare)))
    assert read == bare
    written = io.BytesIO()
    fastavro.writer(written, fastavro.parse_schema(_bare()), [EVENT])
    assert codec.decode(written.getvalue()) == EVENT


def _bare() -> dict[str, Any]:
    text = (
        json.dumps(SCHEMA)
        .replace(', "logicalType": "timestamp-millis"', "")
        .replace(', "logicalType": "decimal", "precision": 4', "")
    )
    made: dict[str, Any] = json.loads(text)
    return made


def _container(schema: Any, values: list[object], codec: str = "null") -> bytes:
    written = io.BytesIO()
    fastavro.writer(written, fastavro.parse_schema(schema), values, codec=codec, sync_marker=b"0123456789abcdef")
    return written.getvalue()


GOOD = avro_codec({"schema": "long"}).encode(5)
REFUSED = [
    (b"", "no container"),
    (b"\x0a", "set `format` to datum"),
    (GOOD[:-1], "damaged"),
    (GOOD[:-17], "not avro"),
    (GOOD[:30], "not avro"),
    (GOOD + b"x", "1 bytes follow"),
    (GOOD[:-1] + b"\0", "damaged"),
    (_container("long", [5, 6]), "2 are in the first block"),
    (_container("string", ["x"]), "names another one"),
    (_container("long", [5], "deflate"), "compressed with b'deflate'"),
    (GOOD.replace(b'"long"', b'"lon1"'), "names another one"),
]


@pytest.mark.parametrize(("payload", "reason"), REFUSED)
def test_containers_that_are_refused(payload: bytes, reason: str) -> None:
    with pytest.raises(CannotDecode, match=reason):
        avro_codec({"schema": "long"}).decode(payload)


@pytest.mark.parametrize(
    ("schema", "payload", "reason"),
    [
        ("long", b"", "not avro"),
        ("long", b"\x01\x01", "1 bytes follow"),
        ("string", b"\x06fo", "not avro"),
        ("string", b"\x02\xff", "UnicodeDecodeError"),
        ("string", b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "not avro"),
        ("double", b"\0\0\0\0\0\0\xf0\x7f", "infinity or NaN"),
        ({"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x02", "not avro"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x08", "not avro"),
        (["null", "long"], b"\x08", "not avro"),
    ],
)
def test_data_that_is_refused(schema: object, payload: bytes, reason: str) -> None:
    with pytest.raises(CannotDecode, match=reason):
        datum(schema).decode(payload)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (3, "expected"),
        ({}, "test.string"),
        ({"string": 1, "price": b""}, "test.string is <1>"),
        ({"string": "x", "price": b"", "int": 1 << 31}, "test.int"),
        ({"string": "x", "price": b"", "kind": "C"}, "test.kind"),
        ({"string": "\ud800", "price": b""}, "surrogates"),
        ({"string": "x", "price": b"", "long": 1 << 63}, "test.long"),
    ],
)
def test_what_cannot_be_written(value: object, reason: str) -> None:
    with pytest.raises(CannotEncode, match=reason):
        avro_codec({"schema": SCHEMA}).encode(value)


NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
NOTHING = {"type": "record", "name": "Nothing", "fields": []}
TRAPS = [
    (NODE, "Node contains itself"),
    ({**NODE, "namespace": "a.b", "fields": [{"name": "next", "type": ["null", "a.b.Node"]}]}, "contains itself"),
    ({**NODE, "aliases": ["N"], "fields": [{"name": "next", "type": {"type": "array", "items": "N"}}]},
     "contains itself"),
    (
        {"type": "record", "name": "A", "namespace": "x",
         "fields": [{"name": "b", "type": {**NODE, "name": "B",
         "fields": [{"name": "a", "type": {"type": "map", "values": "x.A"}}]}}]},
        "x.A contains itself",
    ),
    ({"type": "array", "items": "null"}, "may take no bytes"),
    ({"type": "array", "items": NOTHING}, "may take no bytes"),
    ({"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}, "may take no bytes"),
    (
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": NOTHING},
         {"name": "b", "type": {"type": "array", "items": "Nothing"}}]},
        "may take no bytes",
    ),
    ({"type": "array", "items": {"type": "null"}}, "may take no bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "reason"), TRAPS)
def test_schemas_whose_size_a_peer_could_choose(schema: object, reason: str) -> None:
    """A megabyte of `Node` ended the process with a signal;
    an array of `null` has as many items as its count says."""
    with pytest.raises(WalflowError, match=reason):
        datum(schema)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "either a schema or a schema_file"),
        ({"schema": "long", "schema_file": "x"}, "either a schema or a schema_file"),
        ({"schema": "lon"}, "cannot use this schema"),
        ({"schema": {"type": "record"}}, "cannot use this schema"),
        ({"schema": 5}, "cannot use this schema"),
        ({"schema": "long", "format": "bare"}, "container and datum, not 'bare'"),
        ({"schema": "long", "compression": "snappy"}, "has no key compression"),
        ({"schema_file": "/nowhere.avsc"}, "cannot read /nowhere.avsc: No such file"),
        ({"schema_file": 1}, "the path of a file"),
        ({"schema_file": __file__}, "is no schema of avro"),
    ],
)
def test_configuration_that_cannot_be_used(config: dict[str, object], reason: str) -> None:
    with pytest.raises(WalflowError, match=reason):
        make("avro", config)


def test_a_log_keeps_the_schema_not_the_file(tmp_path: Path) -> None:
    file = tmp_path / "test.avsc"
    file.write_text(json.dumps(SCHEMA))
    codec = make("avro", {"schema_file": str(file)})
    file.unlink()
    again = make("avro", json.loads(json.dumps(codec.config)))
    assert again.decode(codec.encode(EVENT)) == EVENT


VALUE = st.fixed_dictionaries(
    {
        "int": st.integers(-(1 << 31), (1 << 31) - 1),
        "long": st.integers(-(1 << 63), (1 << 63) - 1),
        "string": st.text(st.characters(exclude_categories=["Cs"])),
        "at": st.none() | st.integers(0, 1 << 50),
        "price": st.binary(),
        "tags": st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"])), st.floats(allow_nan=False, allow_infinity=False)
        ),
        "kind": st.sampled_from("AB"),
        "also": st.lists(st.sampled_from("AB")),
    }
)


@settings(max_examples=examples(100))
@given(VALUE, st.sampled_from(["container", "datum"]))
def test_values_come_back(value: object, form: str) -> None:
    codec = make("avro", {"schema": SCHEMA, "format": form})
    assert codec.decode(codec.encode(value)) == value


@settings(max_examples=examples(200))
@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_refused(payload: bytes) -> None:
    look_at(make("avro", {"schema": SCHEMA, "format": "datum"}), payload)
    look_at(make("avro", {"schema": SCHEMA}), GOOD[:40] + payload)


@linear
@pytest.mark.parametrize(
    "schema", [SCHEMA, {"type": "array", "items": ["null", "boolean"]}, "long"], ids=["record", "array", "long"]
)
@pytest.mark.test
def test_a_megabyte(schema: object) -> None:
    for payload in repeated("\2", "\0", "\x7f", "\1\2"):
        look_at(make("avro", {"schema": schema, "format": "datum"}), payload)
    look_at(make("avro", {"schema": schema, "format": "datum"}), b"\x80" * (1 << 20) + b"\1")


def test_infinite_values() -> None:
    with pytest.raises(CannotDecode, match="infinity"):
        datum({"type": "array", "items": "double"}).decode(
            datum({"type": "array", "items": "double"}).encode([math.inf])
        )
