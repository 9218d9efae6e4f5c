"""The examples of Protobuf's own documentation of its encoding, every type of field,
and bytes that are no message."""

import base64
import math
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2 as pb
from hypothesis import given, settings, strategies as st

from tests.codecs.adversarial import linear, look_at, repeated
from tests.examples import examples
from walflow.codecs import make
from walflow.codecs.protobuf import Protobuf
from walflow.errors import CannotDecode, CannotEncode, WalflowError

Field: Any = pb.FieldDescriptorProto
MANY = Field.LABEL_REPEATED
SCALARS = {
    "double": Field.TYPE_DOUBLE,
    "float": Field.TYPE_FLOAT,
    "int64": Field.TYPE_INT64,
    "uint64": Field.TYPE_UINT64,
    "int32": Field.TYPE_INT32,
    "bool": Field.TYPE_BOOL,
    "string": Field.TYPE_STRING,
    "bytes": Field.TYPE_BYTES,
}


def file() -> Any:
    """What `protoc` writes for

    syntax = "proto3";
    package t;
    enum Kind { A = 0; B = 1; }
    message Point { int32 x = 1; }
    message Test { optional int32 a = 1; string b = 2; Test c = 3; repeated int32 f = 6; Kind kind = 7; repeated Point
    points = 8;
                   map<int32, Point> places = 9; map<string, int64> counts = 10; optional Kind maybe = 11; map<bool,
                   Kind> kinds = 12; }
    message All { double double = 1; … }
    """
    made = pb.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    made.enum_type.add(name="Kind").value.extend(
        [pb.EnumValueDescriptorProto(name=name, number=number) for number, name in enumerate("AB")]
    )
    made.message_type.add(name="Point").field.add(name="x", number=1, type=Field.TYPE_INT32, label=1)
    test = made.message_type.add(name="Test")
    for number, (name, kind) in enumerate((("a", Field.TYPE_INT32), ("maybe", Field.TYPE_ENUM))):
        test.oneof_decl.add(name=f"_{name}")
        test.field.add(
            name=name,
            number=11 if number else 1,
            type=kind,
            label=1,
            oneof_index=number,
            proto3_optional=True,
            type_name=".t.Kind" if number else None,
        )
    test.field.add(name="b", number=2, type=Field.TYPE_STRING, label=1)
    test.field.add(name="c", number=3, type=Field.TYPE_MESSAGE, label=1, type_name=".t.Test")
    test.field.add(name="f", number=6, type=Field.TYPE_INT32, label=MANY)
    test.field.add(name="kind", number=7, type=Field.TYPE_ENUM, label=1, type_name=".t.Kind")
    test.field.add(name="points", number=8, type=Field.TYPE_MESSAGE, label=MANY, type_name=".t.Point")
    maps = {
        "places": (9, Field.TYPE_INT32, Field.TYPE_MESSAGE, ".t.Point"),
        "counts": (10, Field.TYPE_STRING, Field.TYPE_INT64, None),
        "kinds": (12, Field.TYPE_BOOL, Field.TYPE_ENUM, ".t.Kind"),
    }
    for name, (number, key, value, of) in maps.items():
        entry = test.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=key, label=1)
        entry.field.add(name="value", number=2, type=value, label=1, type_name=of)
        test.field.add(
            name=name, number=number, type=Field.TYPE_MESSAGE, label=MANY, type_name=f".t.Test.{name.title()}Entry"
        )
    every = made.message_type.add(name="All")
    for number, (name, kind) in enumerate(SCALARS.items(), 1):
        every.field.add(name=name, number=number, type=kind, label=1)
    return made  # fmt: skip


DESCRIPTORS = bytes(pb.FileDescriptorSet(file=[file()]).SerializeToString())
TEST = Protobuf(DESCRIPTORS, "t.Test")
ALL = Protobuf(DESCRIPTORS, "t.All")
EMPTY = {"b": "", "f": [], "kind": "A", "points": [], "places": {}, "counts": {}, "kinds": {}}

# protobuf.dev, "Encoding"
VECTORS: list[tuple[bytes, dict[str, object]]] = [
    (bytes.fromhex("089601"), {"a": 150}),
    (bytes.fromhex("120774657374696e67"), {"b": "testing"}),
    (bytes.fromhex("1a03089601"), {"c": {**EMPTY, "a": 150}}),
    (bytes.fromhex("3206038e029ea705"), {"f": [3, 270, 86942]}),
    (b"", {}),
    (b"\x08\x00\x58\x01", {"a": 0, "maybe": "B"}),
    (b"\x38\x63", {"kind": 99}),
    (b"\x42\x02\x08\x05\x42\x00", {"points": [{"x": 5}, {"x": 0}]}),
    (b"\x4a\x06\x08\x07\x12\x02\x08\x05", {"places": {"7": {"x": 5}}}),
    (b"\x52\x05\x0a\x01k\x10\x03", {"counts": {"k": 3}}),
    (b"\x62\x04\x08\x01\x10\x01", {"kinds": {"true": "B"}}),
]


@pytest.mark.parametrize(("data", "members"), VECTORS)
def test_vectors(data: bytes, members: dict[str, object]) -> None:
    assert TEST.decode(data) == {**EMPTY, **members}
    assert TEST.encode({**EMPTY, **members}) == data
    assert TEST.encode({**members, "a": members.get("a")}) == data


EVENT = st.fixed_dictionaries(
    {
        "double": st.floats(allow_nan=False, allow_infinity=False),
        "float": st.floats(allow_nan=False, allow_infinity=False, width=32),
        "int64": st.integers(-(1 << 63), (1 << 63) - 1),
        "uint64": st.integers(0, (1 << 64) - 1),
        "int32": st.integers(-(1 << 31), (1 << 31) - 1),
        "bool": st.booleans(),
        "string": st.text(st.characters(exclude_categories=["Cs"])),
        "bytes": st.binary(),
    }
)


@settings(max_examples=examples(200))
@given(EVENT)
def test_every_scalar_comes_back(event: object) -> None:
    assert ALL.decode(ALL.encode(event)) == event


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\x08", "not protobuf"),
        (b"\x00", "not protobuf"),
        (b"\x12\x05a", "not protobuf"),
        (b"\x12\x01\xff", "not protobuf"),
        (b"\x1a\x02\x1a\x7f", "not protobuf"),
    ],
)
def test_what_is_no_message(payload: bytes, reason: str) -> None:
    with pytest.raises(CannotDecode, match=reason):
        TEST.decode(payload)


def test_infinities_are_refused() -> None:
    with pytest.raises(CannotDecode, match="infinity or NaN"):
        ALL.decode(ALL.encode({"double": math.inf}))


@pytest.mark.parametrize(
    ("codec", "value", "reason"),
    [
        (TEST, [], "t.Test is an array, and no record"),
        (TEST, {"zz": 1}, "t.Test.zz is no field"),
        (TEST, {"a": "x"}, "t.Test.a is a string"),
        (TEST, {"a": 1 << 31}, "t.Test.a is a whole number"),
        (TEST, {"a": True}, "t.Test.a is true"),
        (TEST, {"b": 5}, "t.Test.b is a whole number"),
        (TEST, {"b": "\ud800"}, "t.Test"),
        (TEST, {"c": {"zz": 1}}, "t.Test.c.zz is no field"),
        (TEST, {"f": 1}, "t.Test.f is a whole number, and no array"),
        (TEST, {"f": [1, None]}, "t.Test.f"),
        (TEST, {"kind": "Z"}, "no name of Kind"),
        (TEST, {"points": {}}, "and no array"),
        (TEST, {"places": []}, "and no record"),
        (TEST, {"places": {"x": {}}}, "t.Test.places"),
        (TEST, {"kinds": {"x": "A"}}, "t.Test.kinds"),
        (ALL, {"bool": 1}, "t.All.bool is a whole number"),
        (ALL, {"uint64": -1}, "t.All.uint64"),
        (ALL, {"bytes": 1}, "t.All.bytes"),
    ],
)
def test_what_cannot_be_written(codec: Protobuf, value: object, reason: str) -> None:
    with pytest.raises(CannotEncode, match=reason):
        codec.encode(value)


def test_a_text_is_written_as_bytes() -> None:
    read = ALL.decode(ALL.encode({"bytes": "caf\xe9", "float": 1}))
    assert isinstance(read, dict)
    assert (read["bytes"], read["float"]) == ("caf\xe9".encode(), 1.0)


@settings(max_examples=examples(200))
@given(st.binary(max_size=30))
def test_any_bytes_are_a_message_or_refused(payload: bytes) -> None:
    look_at(TEST, payload)
    look_at(ALL, payload)


@linear
@pytest.mark.test
def test_a_megabyte() -> None:
    for payload in repeated("\x1a\x02", "\x08\x01", "2\x01\x01", "B\0", "J\0", "\x1b", "\x7f"):
        look_at(TEST, payload)
    look_at(TEST, b"\x80" * (1 << 20))


def test_a_message_within_itself_is_refused_where_it_is_too_deep() -> None:
    data = b""
    for _ in range(200):
        data = (
            b"\x1a" + bytes([len(data)]) + data
            if len(data) < 128
            else b"\x1a" + bytes([len(data) & 127 | 128, len(data) >> 7]) + data
        )
    with pytest.raises(CannotDecode, match="not protobuf"):
        TEST.decode(data)


def test_a_log_keeps_the_descriptors_not_the_file(tmp_path: Path) -> None:
    path = tmp_path / "types.pb"
    path.write_bytes(DESCRIPTORS)
    codec = make("protobuf", {"descriptor_file": str(path), "message": "t.Test"})
    path.unlink()
    assert make("protobuf", codec.config).decode(codec.encode({"a": 1})) == {**EMPTY, "a": 1}
    assert repr(codec) == "<Protobuf t.Test>"


INLINE = base64.b64encode(DESCRIPTORS).decode()


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"descriptors": INLINE}, "full name of a message"),
        ({"message": "t.Test"}, "either a descriptor_file or descriptors"),
        ({"message": "t.Nix", "descriptors": INLINE}, "no message 't.Nix'"),
        ({"message": "t.Test", "descriptors": "?"}, "no base64"),
        ({"message": "t.Test", "descriptors": "AAAA"}, "no descriptors of protobuf"),
        ({"message": "t.Test", "descriptor_file": "/nowhere.pb"}, "cannot read /nowhere.pb"),
        ({"message": "t.Test", "descriptor_file": 1}, "protobuf"),
        ({"message": "t.Test", "file": "x"}, "has no key file"),
    ],
)
def test_configuration_that_cannot_be_used(config: dict[str, object], reason: str) -> None:
    with pytest.raises(WalflowError, match=reason):
        make("protobuf", config)
