"""Every event becomes one line; what is a line already stays as it is."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from connectors.spark.socket.lines import Lines, line
from walflow.codecs import JSON, make
from walflow.delivery.tag import Tags
from walflow.event import Block, Codec, Framing
from walflow.framing import LINES, WHOLE
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler
from walflow.wal import Log, LogOptions

STRING = make("string", {})


def filled(path: Path, *blocks: Block) -> Log:
    log = Log(LogOptions(str(path)))
    add(log, *blocks)
    return log


def add(log: Log, *blocks: Block) -> None:
    for block in blocks:
        log.append(Tags().encode(block), block.frames.data, block.frames.count, 1)
        commit = log.commit()
        assert commit is not None
        commit.flush()
        log.committed(commit)


def block(data: bytes, codec: Codec = JSON, framing: Framing = LINES) -> Block:
    made = MemoryInlet(VirtualScheduler()).block(data, codec=codec, framing=framing)
    made.receipt.settled = lambda receipt: None
    made.receipt.ack()
    return made


@given(st.text())
def test_any_text_is_one_line(text: str) -> None:
    assert_one_line(line(text.encode(), "string"))


@given(st.text().filter(lambda text: "\n" not in text and "\r" not in text))
def test_what_is_a_line_stays_as_it_is(text: str) -> None:
    assert line(text.encode(), "string") == text.encode() + b"\n"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    ),
    st.sampled_from([None, 1, 4]),
)
def test_json_over_several_lines_keeps_its_value(value: object, indent: int | None) -> None:
    written = line(json.dumps(value, indent=indent).replace("\n", "\r\n").encode(), "json")

    assert_one_line(written)
    assert json.loads(written) == value


def assert_one_line(written: bytes) -> None:
    assert written.endswith(b"\n")
    assert written.count(b"\n") == 1
    assert b"\r" not in written


def test_newlines_in_text_are_escaped_as_json_would() -> None:
    assert line(b"a\nb\r\nc\\n", "string") == rb"a\nb\r\nc\n" + b"\n"


def test_events_of_all_framings_in_order(tmp_path: Path) -> None:
    log = filled(
        tmp_path, block(b'{"a":1}\n{"a":2}\n'), block(b'{\n"a":3}', framing=WHOLE), block(b"x\ny", STRING, WHOLE)
    )
    lines = Lines(log, 1, MemoryOutlet(VirtualScheduler()))

    assert [(one.after, one.data) for one in lines.read(1 << 20)] == [
        (2, b'{"a":1}\n'),
        (3, b'{"a":2}\n'),
        (4, b'{ "a":3}\n'),
        (5, b"x\\ny\n"),
    ]
    assert lines.position == 5
    assert lines.read(1 << 20) == []
    log.close()


@pytest.mark.parametrize("first", [1, 2, 3, 4, 5, 6, 7])
def test_it_begins_within_a_record(first: int, tmp_path: Path) -> None:
    log = filled(tmp_path, block(b"1\n2\n3\n"), block(b"4\n5\n6\n"))

    assert [int(one.data) for one in Lines(log, first, MemoryOutlet(VirtualScheduler())).read(1 << 20)] == [
        *range(first, 7)
    ]
    log.close()


def test_what_cannot_be_read_is_told_and_passed(tmp_path: Path) -> None:
    outlet = MemoryOutlet(VirtualScheduler())
    log = filled(tmp_path, block(b"1\n"))
    log.append(b"no tag", b"2\n", 1, 1)
    add(log, block(b"3\n"))

    assert [(one.after, one.data) for one in Lines(log, 1, outlet).read(1 << 20)] == [(2, b"1\n"), (4, b"3\n")]
    assert [(entry["event"], entry["position"], entry["events"]) for entry in outlet.logged] == [
        ("events not sent as lines", 2, 1)
    ]
    log.close()


def test_damage_is_told_and_passed(tmp_path: Path) -> None:
    outlet = MemoryOutlet(VirtualScheduler())
    log = Log(LogOptions(str(tmp_path), cache_bytes=0))
    add(log, block(b"1\n"), block(b'"spoilt"\n'), block(b"3\n"))
    (chunk,) = tmp_path.glob("*.wal")
    chunk.write_bytes(chunk.read_bytes().replace(b"spoilt", b"spoiLt"))

    assert [one.data for one in Lines(log, 1, outlet).read(1 << 20)] == [b"1\n", b"3\n"]
    assert [(entry["event"], "positions 2 to 2 are lost" in str(entry["reason"])) for entry in outlet.logged] == [
        ("events not sent as lines", True)
    ]
    log.close()
