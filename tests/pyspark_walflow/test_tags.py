"""Our own msgpack reads what the daemon's writes, and nothing else makes it do more than raise ValueError."""

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from pyspark_walflow.tags import KEPT, LENGTHS, Shape, TagDecoder, decode

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8")),
    st.binary(),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner, max_size=20)
)
encode = msgspec.msgpack.encode


@given(values)
@example("x" * 40)
@example("x" * 300)
@example("x" * 70_000)
@example(b"x" * 300)
@example(b"x" * 70_000)
@example(list(range(20)))
@example(list(range(70_000)))
@example({str(number): number for number in range(20)})
@example({str(number): number for number in range(70_000)})
@example(
    [0, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**64 - 1, -1, -32, -33, -128, -129, -32769, -(2**31) - 1]
)
@pytest.mark.nightly
def test_it_decodes_what_msgspec_encodes(value: object) -> None:
    assert decode(encode(value)) == value


@given(st.binary(max_size=60))
@example(b"\x91" * 5000)
@example(b"\xdf\xff\xff\xff\xff")
@example(b"\x81\x90\x00")
@example(b"\xc1")
def test_anything_else_is_a_value_error(data: bytes) -> None:
    try:
        value = decode(data)
    except ValueError:
        return
    assert repr(decode(encode(value))) == repr(value)  # a NaN is not equal to itself


def tag(framing: object, meta: object = None, metas: object = None) -> bytes:
    return encode(["tcp", 1, 2, "json", framing, meta or {}, metas])


@pytest.mark.parametrize(
    ("encoded", "shape"),
    [
        (tag("separate"), Shape(10)),
        (tag("whole"), Shape(None)),
        (tag("messages"), Shape(LENGTHS)),
        (tag(["separate", {"separator": "\t"}]), Shape(9)),
        (tag("whole", {"spark": {"key": "k"}}), Shape(None, "k")),
        (tag("whole", {"spark": {"key": 1.5}}), Shape(None, "1.5")),
        (tag("whole", {"spark": "k"}), Shape(None)),
        (tag("whole", {"spark": {"key": None}}), Shape(None)),
        (tag("separate", {}, [{"spark": {"key": "a"}}, {}]), Shape(10, None, ("a", None))),
        (tag("separate", {"spark": {"key": "b"}}, [{}, {}]), Shape(10, "b", None)),
        (tag("separate", {"spark": {"key": "b"}}, [{}, {"spark": {"key": "c"}}]), Shape(10, "b", ("b", "c"))),
    ],
)
def test_the_shape_of_a_tag(encoded: bytes, shape: Shape) -> None:
    assert TagDecoder().shape(encoded) == shape


@pytest.mark.parametrize(
    "encoded", [tag("netstring"), tag(["separate", {"separator": "ab"}]), encode([1, 2]), encode({}), b"", tag(7)]
)
def test_a_tag_of_another_version_is_a_value_error(encoded: bytes) -> None:
    with pytest.raises(ValueError, match=r"^its "):
        TagDecoder().shape(encoded)


def test_tags_are_forgotten_before_they_fill_the_memory() -> None:
    tags = TagDecoder()
    for number in range(KEPT + 10):
        tags.shape(encode(["tcp", 1, number, "json", "whole", {}, None]))
    assert len(tags._shapes) <= KEPT
