"""Rows to lines: what a consumer of `out` gets for each of Spark's types, and for any nesting of them."""

import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st

pa = pytest.importorskip("pyarrow")

from pyspark_walflow.errors import WalflowError
from pyspark_walflow.rows import lines_of
from walflow.codecs import JSON
from walflow.framing import LINES

BERLIN = pa.timestamp("us", "Europe/Berlin")


def one(values: list[Any], kind: Any, name: str = "a") -> list[bytes]:
    batch = pa.record_batch([pa.array(values, kind)], names=[name])
    return lines_of(batch).splitlines()


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.int64(), 2**63 - 1, b"9223372036854775807"),
        (pa.int8(), -1, b"-1"),
        (pa.bool_(), True, b"true"),
        (pa.float64(), 1.0, b"1.0"),
        (pa.float64(), 1e300, b"1e+300"),
        (pa.float64(), math.nan, b'"NaN"'),
        (pa.float64(), math.inf, b'"Infinity"'),
        (pa.float64(), -math.inf, b'"-Infinity"'),
        (pa.float32(), 0.1, b"0.1"),
        (pa.float32(), 2.0, b"2.0"),
        (pa.float32(), -0.0, b"-0.0"),
        (pa.float32(), 1e30, b"1e+30"),
        (pa.float32(), math.nan, b'"NaN"'),
        (pa.float32(), -math.inf, b'"-Infinity"'),
        (pa.decimal128(38, 10), Decimal("12345678901234567890.5000000000"), b"12345678901234567890.5000000000"),
        (pa.decimal128(10, 0), Decimal(-100), b"-100"),
        (pa.decimal128(20, 18), Decimal("0E-18"), b"0.000000000000000000"),
        (pa.string(), 'a"\\\n\u2028é\x00', '"a\\"\\\\\\n\u2028é\\u0000"'.encode()),
        (pa.large_string(), "x", b'"x"'),
        (pa.binary(), b"\x00\xff", b'"AP8="'),
        (pa.large_binary(), b"", b'""'),
        (pa.date32(), date(1, 1, 1), b'"0001-01-01"'),
        (pa.date32(), date(9999, 12, 31), b'"9999-12-31"'),
        (BERLIN, datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), b'"2026-01-02T03:04:05.678901Z"'),
        (pa.timestamp("us", "UTC"), datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), b'"1969-12-31T23:59:59.000000Z"'),
        (pa.timestamp("us"), datetime(2026, 1, 2, 3, 4, 5), b'"2026-01-02T03:04:05.000000"'),
        (pa.time64("ns"), time(12, 34, 56), b'"12:34:56"'),
        (pa.duration("us"), timedelta(days=1, microseconds=500_000), b'"PT86400.5S"'),
        (pa.duration("us"), timedelta(seconds=-1), b'"-PT1S"'),
        (pa.list_(pa.int32()), [1, None], b"[1,null]"),
        (pa.list_(pa.int32()), [], b"[]"),
        (pa.map_(pa.string(), pa.int32()), [("x", 1), ("y", None)], b'{"x":1,"y":null}'),
        (pa.map_(pa.int32(), pa.bool_()), [(1, True)], b'{"1":true}'),
        (pa.map_(pa.date32(), pa.int32()), [(date(2026, 1, 2), 1)], b'{"2026-01-02":1}'),
        (
            pa.struct([("p%s", pa.int32()), ("s", pa.list_(pa.struct([("r", pa.string())])))]),
            {"p%s": 1, "s": [{"r": "q"}, None]},
            b'{"p%s":1,"s":[{"r":"q"},null]}',
        ),
        (pa.struct([]), {}, b"{}"),
    ],
)
def test_each_type(kind: Any, value: Any, text: bytes) -> None:
    assert one([value, None, value], kind) == [b'{"a":%s}' % text, b'{"a":null}', b'{"a":%s}' % text]
    assert JSON.validate(b'{"a":%s}\n' % text, LINES).bad == ()


def test_a_column_of_nothing() -> None:
    assert one([None, None], pa.null()) == [b'{"a":null}'] * 2


def test_a_variant_is_the_json_it_holds() -> None:
    from pyspark.sql.types import VariantVal

    variant = VariantVal.parseJson('{"b":[1,2.5,"x\\n",null]}')
    kind = pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
        ]
    )
    found = one([{"value": variant.value, "metadata": variant.metadata}, None], kind)
    assert [json.loads(line) for line in found] == [{"a": {"b": [1, 2.5, "x\n", None]}}, {"a": None}]


def test_columns_keep_their_order_and_their_names() -> None:
    batch = pa.record_batch([pa.array([1]), pa.array(["x"])], names=['b"', "a%s\n"])
    assert lines_of(batch) == b'{"b\\"":1,"a%s\\n":"x"}\n'


def test_a_column_called_value_is_written_as_it_is() -> None:
    assert one(['{"a": 1}', None, "[1,\r\n 2]", "17", "not json"], pa.string(), "value") == [
        b'{"a": 1}',
        b"null",
        b"[1,   2]",
        b"17",
        b"not json",  # the daemon refuses it, and says which row it was
    ]


def test_spark_does_not_mind_the_case_of_a_columns_name() -> None:
    assert one(["17"], pa.string(), "VALUE") == [b"17"]


def test_text_of_several_lines_that_is_not_json_is_refused() -> None:
    with pytest.raises(WalflowError, match="several lines"):
        one(['{"a": "x\ny"}'], pa.string(), "value")


def test_a_column_called_value_that_is_no_text_is_one_like_others() -> None:
    assert one([1], pa.int32(), "value") == [b'{"value":1}']


def test_text_that_is_not_utf8_is_refused_with_its_column() -> None:
    column = pa.array([b"\xff"], pa.binary()).view(pa.string())
    with pytest.raises(WalflowError, match=r"column a .* not UTF-8"):
        lines_of(pa.record_batch([column], names=["a"]))


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(WalflowError, match="two columns are called a"):
        lines_of(pa.record_batch([pa.array([1]), pa.array([2])], names=["a", "a"]))


def test_a_type_without_json_is_refused_with_its_column() -> None:
    with pytest.raises(WalflowError, match=r"column a has values of type month_day_nano_interval"):
        one([(1, 2, 3)], pa.month_day_nano_interval())


def test_no_rows_and_no_columns() -> None:
    assert lines_of(pa.record_batch([pa.array([], pa.int32())], names=["a"])) == b""
    rows = pa.record_batch([pa.array([{}, {}], pa.struct([]))], names=["a"])
    assert lines_of(rows) == b'{"a":{}}\n{"a":{}}\n'


Typed = tuple[Any, Any]

leaves = st.sampled_from(
    [
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.string(), st.text()),
        (pa.bool_(), st.booleans()),
        (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    ]
)


def nested(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    def listed(of: Typed) -> Typed:
        return pa.list_(of[0]), st.lists(st.none() | of[1], max_size=3)

    def mapped(of: Typed) -> Typed:
        return pa.map_(pa.string(), of[0]), st.dictionaries(st.text(), st.none() | of[1], max_size=3)

    def structured(of: list[Typed]) -> Typed:
        names = [f"f{at}" for at in range(len(of))]
        kind = pa.struct([(name, each[0]) for name, each in zip(names, of, strict=True)])
        return kind, st.fixed_dictionaries({name: st.none() | each[1] for name, each in zip(names, of, strict=True)})

    return inner.map(listed) | inner.map(mapped) | st.lists(inner, min_size=1, max_size=3).map(structured)


@given(st.data())
def test_any_nesting_comes_back_from_its_line(data: st.DataObject) -> None:
    kind, values = data.draw(st.recursive(leaves, nested, max_leaves=4))
    rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=6))
    column = pa.array([_as_arrow(row, kind) for row in rows], kind)
    start = data.draw(st.integers(0, len(rows) - 1))
    batch = pa.record_batch([column], names=["a"]).slice(start)
    lines = lines_of(batch).split(b"\n")[:-1]
    assert [json.loads(line)["a"] for line in lines] == rows[start:]


def _as_arrow(value: Any, kind: Any) -> Any:
    """Maps are lists of pairs there."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(key, _as_arrow(item, kind.item_type)) for key, item in value.items()]
    if pa.types.is_list(kind):
        return [_as_arrow(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {name: _as_arrow(item, kind.field(name).type) for name, item in value.items()}
    return value
