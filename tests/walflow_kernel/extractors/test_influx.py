"""`influx||`: what is written as a line is read again."""

import time

import pytest
from hypothesis import given, strategies as st

from walflow_kernel.extractors import NO_MATCH, extractor

READ = extractor("influx", "")
names = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters='\\#"'), min_size=1, max_size=8
)
values = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="\\"), max_size=8),
)


def escaped(text: str, characters: str) -> str:
    return "".join(f"\\{one}" if one in characters else one for one in text)


def field(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace('"', '\\"') + '"'
    return f"{value}i" if type(value) is int else str(value)


@given(
    names,
    st.dictionaries(names, names, max_size=3),
    st.dictionaries(names, values, min_size=1, max_size=3),
    st.none() | st.integers(-(2**62), 2**63 - 2),  # InfluxDB has no later time
)
def test_a_line_is_read_as_it_was_meant(
    measurement: str, tags: dict[str, str], fields: dict[str, object], timestamp: int | None
) -> None:
    tagged = "".join(f",{escaped(key, ',= ')}={escaped(value, ',= ')}" for key, value in tags.items())
    listed = ",".join(f"{escaped(key, ',= ')}={field(value)}" for key, value in fields.items())
    line = f"{escaped(measurement, ', ')}{tagged} {listed}" + ("" if timestamp is None else f" {timestamp}")
    found = READ(line)
    assert isinstance(found, dict)
    assert found["measurement"] == measurement
    assert found["tags"] == tags
    assert found["fields"] == pytest.approx(fields)
    assert list(found["tags"]) == list(tags)
    assert list(found["fields"]) == list(fields)
    assert found.get("timestamp") == timestamp


@pytest.mark.parametrize(
    "line",
    ["", "m", "m f", "m f=", "f=1", "#m f=1", "m,a f=1", "m,a= f=1", "m f=1 x", "m,a=1,a=2 f=1",
     "m" + "a" * 65_536 + " f=1", "m f=1 2 3", "m f=nan", "m f=1e999",
     "m f=99999999999999999999i", 'm f="a', "m f=1\nm f=2", "m f=0x10", "m f=1\0", 'm f="\ud800"'],
)  # fmt: skip
def test_what_is_no_line(line: str) -> None:
    assert READ(line) is NO_MATCH


@pytest.mark.alone
def test_long_lines_take_time_in_proportion() -> None:
    lines = [
        "m" + "".join(f",t{number}=1" for number in range(4_000)) + " f=1",
        "m " + ",".join(f"f{number}=1" for number in range(4_000)),
        "m " + ",".join(f"f{number}=1" for number in range(200_000)),
        'm f="' + '\\"' * 20_000 + '"',
    ]
    for line in lines:
        began = time.process_time()
        assert (READ(line) is NO_MATCH) is (len(line) > 1_000_000)
        assert time.process_time() - began < 0.2


def test_a_line_with_more_members_than_the_parser_reads_soon_is_no_match() -> None:
    def line(members: int) -> str:
        return "m " + ",".join(f"f{number}=1" for number in range(members))

    read = READ(line(4097))
    assert isinstance(read, dict)
    assert len(read["fields"]) == 4097
    assert READ(line(4098)) is NO_MATCH
