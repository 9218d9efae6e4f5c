"""What the log holds is what Spark gets: position, time, key and bytes of each event, whatever the events are."""

import tempfile
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StringType, StructType, TimestampType

from pyspark_walflow.columns import Columns, find_crc
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.tags import NEWLINE
from pyspark_walflow.wire import Damaged
from tests.examples import examples
from tests.pyspark_walflow.logs import FAR, Given, records, whole
from walflow.event import Framing
from walflow.framing import LINES, MESSAGES, WHOLE, Separate

TABS = Separate(b"\t")

lines = st.lists(st.binary(max_size=20), min_size=1, max_size=8)
keys = st.none() | st.text(st.characters(codec="utf-8"), max_size=5)
times = st.integers(-(2**53), 2**62)


@st.composite
def given_blocks(draw: st.DrawFn) -> Given:
    framings: list[Framing] = [LINES, TABS, WHOLE, MESSAGES]
    framing = draw(st.sampled_from(framings))
    if framing is WHOLE:
        return whole(draw(st.binary(min_size=1, max_size=30)))
    events = draw(lines)
    if isinstance(framing, Separate):
        events = [event.replace(framing.separator, b"_") for event in events]
    own = draw(st.none() | st.lists(keys, min_size=len(events), max_size=len(events)))
    return Given(events, framing, draw(keys), own, draw(times))


def keys_of(block: Given) -> Sequence[object]:
    own = block.keys or [None] * len(block.events)
    return [block.key if key is None else key for key in own]


def rows(batches: Sequence[pa.RecordBatch]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]


def read(
    directory: Path, blocks: Sequence[Given], *, binary: bool = False, first: int = 1, end: int = FAR
) -> list[dict[str, object]]:
    seed, data = records(directory, blocks)
    return rows(list(Columns(binary=binary, crc=find_crc()).batches(seed, data, first, end)))


@pytest.mark.nightly
@settings(max_examples=examples(50))  # each of them is written to the disk
@given(st.lists(given_blocks(), min_size=1, max_size=8), st.data())
def test_a_range_of_a_log(blocks: list[Given], data: st.DataObject) -> None:
    stamps = accumulate((block.ingest_ns for block in blocks), max)  # time in a log never goes back
    events = [
        (stamp // 1000, key, event)
        for stamp, block in zip(stamps, blocks, strict=True)
        for key, event in zip(keys_of(block), block.events, strict=True)
    ]
    expected = [(position, *event) for position, event in enumerate(events, 1)]
    first = data.draw(st.integers(1, len(expected)), "first")
    end = data.draw(st.integers(first, len(expected) + 1), "end")
    with tempfile.TemporaryDirectory() as directory:
        seed, raw = records(Path(directory), blocks)
        for crc in (find_crc(), None):
            batches = list(Columns(binary=True, crc=crc).batches(seed, raw, first, end))
            found = [
                (position, ingest, key, value)
                for batch in batches
                for position, ingest, key, value in zip(
                    batch["position"].to_pylist(),
                    batch["ingest_ts"].cast(pa.int64()).to_pylist(),
                    batch["key"].to_pylist(),
                    batch["value"].to_pylist(),
                    strict=True,
                )
            ]
            assert found == expected[first - 1 : end - 1]
            for batch in batches:
                batch.validate(full=True)


@pytest.mark.parametrize("binary", [False, True])
def test_the_schema_is_the_one_that_spark_compares_with(binary: bool) -> None:
    spark = StructType()
    for name, kind in [("position", LongType()), ("ingest_ts", TimestampType()), ("key", StringType())]:
        spark = spark.add(name, kind)
    spark = spark.add("value", BinaryType() if binary else StringType())
    assert Columns(binary=binary, crc=None).schema.equals(to_arrow_schema(spark, timezone="UTC"))


@pytest.mark.parametrize("needed", [["value"], ["position", "value"], ["key"], ["ingest_ts", "ingest_ns"], ["meta"]])
def test_what_is_not_needed_is_not_made(tmp_path: Path, needed: list[str]) -> None:
    seed, data = records(tmp_path, [Given([b"a", b"b", b"c"], key="k"), Given([b"d"])])
    every = Columns(binary=False, crc=find_crc(), metadata=True)
    some = Columns(binary=False, crc=find_crc(), metadata=True, needed=needed)
    assert some.schema.names == needed
    found = [some.shown(batch) for batch in some.batches(seed, data, 2, 5)]
    assert all(batch.schema == some.schema for batch in found)
    whole = rows(list(every.batches(seed, data, 2, 5)))
    assert rows(found) == [{name: row[name] for name in needed} for row in whole]


def test_empty_events_and_carriage_returns_are_kept(tmp_path: Path) -> None:
    assert [row["value"] for row in read(tmp_path, [Given([b"", b"a\r", b"", b""])])] == ["", "a\r", "", ""]


def test_a_key_that_is_no_text_is_its_json(tmp_path: Path) -> None:
    found = read(tmp_path, [Given([b"a"], key=12), Given([b"b"], key=True), Given([b"c"], key={"x": [1, None]})])
    assert [row["key"] for row in found] == ["12", "true", '{"x":[1,null]}']


BAD = [Given([b"fine", "schön".encode()]), Given([b"first", "ö".encode("latin-1"), b"last"])]


def test_an_event_that_is_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(WalflowError, match=r"^the event at position 4 is not UTF-8, from its byte 0 on: .*binary"):
        read(tmp_path, BAD)


def test_only_the_events_that_were_asked_for_have_to_be_text(tmp_path: Path) -> None:
    assert [row["value"] for row in read(tmp_path, BAD, end=4)] == ["fine", "schön", "first"]


def test_a_letter_that_two_events_make_together_is_none(tmp_path: Path) -> None:
    with pytest.raises(WalflowError, match="position 1 is not UTF-8"):
        read(tmp_path, [whole(b"\xc3"), whole(b"\xb6")])


def test_bytes_are_read_as_bytes(tmp_path: Path) -> None:
    assert [row["value"] for row in read(tmp_path, BAD, binary=True)][3] == b"\xf6"


@cache
def two_records() -> tuple[int, bytes]:
    with tempfile.TemporaryDirectory() as directory:
        return records(Path(directory), [Given([b"one", b"two"], key="k"), Given([b"three"], stream=2)])


@given(st.data())
def test_a_flipped_bit_is_never_a_row(data: st.DataObject) -> None:
    seed, raw = two_records()
    at = data.draw(st.integers(0, len(raw) * 8 - 1))
    flipped = bytearray(raw)
    flipped[at // 8] ^= 1 << at % 8
    before = rows(list(Columns(binary=True, crc=None).batches(seed, raw, 1, FAR)))
    try:
        after = rows(list(Columns(binary=True, crc=find_crc()).batches(seed, bytes(flipped), 1, FAR)))
    except Damaged:
        return
    assert after == before, "a bit of the padding, which nothing reads"


@given(st.data())
def test_bytes_that_are_cut_are_never_rows(data: st.DataObject) -> None:
    seed, raw = two_records()
    cut = raw[: data.draw(st.integers(1, len(raw) - 1))]
    try:
        found = rows(list(Columns(binary=True, crc=None).batches(seed, cut, 1, FAR)))
    except Damaged:
        return
    assert [row["position"] for row in found] == [1, 2]


def test_a_record_that_counts_wrongly_is_damage(tmp_path: Path) -> None:
    seed, raw = records(tmp_path, [Given([b"one", b"two"])])
    more = raw[:32] + (3).to_bytes(4, "little") + raw[36:]
    with pytest.raises(Damaged, match="not as many as their records say"):
        list(Columns(binary=True, crc=None).batches(seed, more, 1, FAR))


def test_records_that_do_not_follow_one_another_are_damage(tmp_path: Path) -> None:
    seed, raw = records(tmp_path, [Given([b"one"]), Given([b"two"])])
    size = len(raw) // 2
    with pytest.raises(Damaged, match="do not follow one another"):
        list(Columns(binary=True, crc=find_crc()).batches(seed, raw[size:] + raw[:size], 1, FAR))


def test_a_framing_that_is_not_known_is_named_and_where(tmp_path: Path) -> None:
    class Later(Separate):
        name = "length-prefixed"

    with pytest.raises(
        WalflowError, match=r"^the record at position 2 cannot be read: its framing is .length-prefixed"
    ):
        read(tmp_path, [Given([b"a"]), Given([b"b"], Later(), stream=2)])


def test_many_streams_in_one_piece(tmp_path: Path) -> None:
    blocks = [Given([b"%d" % number], LINES if number % 3 else TABS, stream=number) for number in range(300)]
    assert [row["value"] for row in read(tmp_path, blocks)] == [str(number) for number in range(300)]


def test_headers_and_tags_may_have_the_separator_in_them(tmp_path: Path) -> None:
    """A header counts ten events with the byte of a newline, and a tag names its stream with it."""
    blocks = [Given([b"%d" % event for event in range(10)], stream=NEWLINE) for _ in range(3)]
    _, raw = records(tmp_path / "log", blocks)
    assert raw.count(b"\n") > 30
    assert [row["value"] for row in read(tmp_path / "again", blocks)] == [str(event) for event in range(10)] * 3


def test_rows_outlive_the_bytes_that_they_came_in(tmp_path: Path) -> None:
    """A connection receives the next bytes into the same place."""
    seed, raw = records(tmp_path, [Given([b"one", b"two"]), whole(b"three"), Given([b"four"], MESSAGES)])
    buffer = bytearray(raw)
    batches = list(Columns(binary=False, crc=find_crc()).batches(seed, memoryview(buffer).toreadonly(), 1, FAR))
    buffer[:] = bytes(len(buffer))
    assert [row["value"] for row in rows(batches)] == ["one", "two", "three", "four"]


@pytest.mark.test
def test_nanoseconds_and_metadata_on_demand(tmp_path: Path) -> None:
    blocks = [
        Given([b"1", b"2"], key="a", keys=[None, "b"], ingest_ns=1_800_000_000_123_456_789),
        Given([b"3"], ingest_ns=1_800_000_000_123_456_790),
    ]
    seed, data = records(tmp_path / "log", blocks)
    columns = Columns(binary=False, crc=find_crc(), metadata=True)
    found = rows(list(columns.batches(seed, data, 1, FAR)))
    assert [(row["ingest_ns"], row["meta"]) for row in found] == [
        (1_800_000_000_123_456_789, '{"spark":{"key":"a"}}'),
        (1_800_000_000_123_456_789, '{"spark":{"key":"b"}}'),
        (1_800_000_000_123_456_790, None),
    ]
