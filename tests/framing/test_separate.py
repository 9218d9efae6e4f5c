"""However a stream is cut into reads, the same events come out."""

import pytest
from hypothesis import given, strategies as st

from walflow.errors import WalflowError
from walflow.framing import LINES, WHOLE, make


def events_of(reads: list[bytes]) -> tuple[list[bytes], bytes]:
    tail = bytearray()
    events: list[bytes] = []
    for read in reads:
        whole = LINES.cut(tail, read)
        if whole:
            events += LINES.payloads(whole)
    return events, bytes(tail)


@given(st.lists(st.binary(max_size=20).filter(lambda event: b"\n" not in event)), st.data())
def test_any_cutting_gives_the_same_events(events: list[bytes], data: st.DataObject) -> None:
    stream = LINES.join(events) if events else b""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    reads = [stream[low:high] for low, high in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert events_of([read for read in reads if read]) == (events, b"")


def test_what_has_no_end_yet_waits() -> None:
    assert events_of([b"a\nb", b"c", b"\nd"]) == ([b"a", b"bc"], b"d")


def test_a_read_of_whole_lines_is_not_copied() -> None:
    data = b"a\nb\n"
    assert LINES.cut(bytearray(), data) is data


def test_the_last_event_may_lack_its_separator() -> None:
    tail = bytearray(b"last")
    assert LINES.finish(tail) == b"last\n"
    assert not tail
    assert LINES.finish(tail) == b""


@pytest.mark.parametrize(("data", "rest"), [(b"aaa", None), (b"aa\nb", b"b"), (b"\n", b"")])
def test_skipping_ends_behind_the_separator(data: bytes, rest: bytes | None) -> None:
    assert LINES.skip(data) == rest


def test_index_and_count_agree() -> None:
    data = b"a\n\nbcd\n"
    assert list(LINES.index(data)) == [2, 3, 7]
    assert LINES.count(data) == 3
    assert LINES.payloads(data) == [b"a", b"", b"bcd"]


def test_the_same_framing_is_the_same_object() -> None:
    assert make([("separate", {})]) is LINES
    assert make([("separate", {"separator": "|"})]) is make([("separate", {"separator": "|"})])
    assert make([]) is WHOLE


@pytest.mark.parametrize(
    ("name", "config", "line"),
    [
        ("separate", {"separator": "ab"}, "separate wants a separator of exactly one byte, not 'ab'"),
        ("separate", {"separator": 1}, "separate wants a separator of exactly one byte, not 1"),
        ("separate", {"max_length": 0}, "separate wants a max_length of at least 1 byte, not 0"),
        ("separate", {"buffered": False}, "separate with buffered = false is not supported"),
        ("separate", {"seperator": "\n"}, "separate has no key seperator: it takes separator, max_length, buffered"),
        ("seperate", {}, "Unknown framing seperate"),
    ],
)
def test_mistakes_are_named(name: str, config: dict[str, object], line: str) -> None:
    with pytest.raises(WalflowError) as caught:
        make([(name, config)])
    assert str(caught.value).startswith(line)
