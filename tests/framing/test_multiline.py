"""Several lines that are one event: the same events wherever the reads cut the bytes, and the bytes as they came."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from tests.examples import examples
from tests.nodes.world import Taker, World
from walflow.codecs import STRING
from walflow.errors import WalflowError
from walflow.framing import BadChainOrder, Multiline, incoming

JAVA = b"""\
12:00:01 INFO up
12:00:02 ERROR cannot pay
com.example.NoMoneyException: 3 are missing
\tat com.example.Pay.pay(Pay.java:12)
\tat com.example.Main.main(Main.java:3)
Caused by: java.lang.IllegalStateException: no account
\tat com.example.Account.find(Account.java:7)
\t... 2 more
12:00:03 INFO down
"""
PYTHON = b"""\
ERROR:root:cannot pay
Traceback (most recent call last):
  File "pay.py", line 3, in find
    accounts[name]
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "pay.py", line 5, in <module>
    raise NoMoneyError(3)
pay.NoMoneyError: 3 are missing
INFO:root:down
"""
GO = b"""\
2024/01/01 12:00:00 up
panic: runtime error: index out of range [3] with length 3

goroutine 1 [running]:
main.pay(...)
\t/src/pay.go:12
main.(*Account).find(0xc000012345, 0x3)
\t/src/pay.go:7 +0x1d
created by main.main in goroutine 1
\t/src/main.go:3 +0x2f
exit status 2
2024/01/01 12:00:01 up
"""


def framing(**config: object) -> Multiline:
    made = incoming([("multiline", config)]).framing
    assert isinstance(made, Multiline)
    return made


def events(by: Multiline, reads: Sequence[bytes], limit: int = 1 << 20) -> list[bytes]:
    """As a stream that ends gives them."""
    taker = Taker(ack=True)
    out = World().source(taker, Taker(ack=True), codec=STRING, framing=by)
    out.max_event_bytes = limit
    stream = out.stream({}, marks=True)
    for read in reads:
        stream.feed(read)
    stream.eof(complete=True)
    return [event for block in taker.blocks for event in block.frames.payloads()]


@pytest.mark.parametrize(
    ("config", "data", "lines"),
    [
        ({"start": r"^\d\d:"}, JAVA, [1, 7, 1]),
        ({"rule": "java"}, JAVA, [1, 7, 1]),
        ({"rule": "python"}, PYTHON, [12, 1]),
        ({"rule": "go"}, GO, [1, 10, 1]),
        ({"indent": True}, b"a\n b\n\tc\nd\n e\n", [3, 2]),
        ({"continue": r"^\s"}, b"a\n b\n\nc\n", [2, 1, 1]),  # an empty line has no space
        ({"continue": "more$"}, b"a\nb more\nmore\nmore c\n", [3, 1]),
        ({"end": ";$"}, b"select\n  1;\nselect 2;\nselect\n", [2, 1, 1]),
        ({"start": "BEGIN"}, b"x\ny BEGIN\nz\nBEGIN\n", [1, 2, 1]),
        ({"start": "^a", "max_lines": 2}, b"a\n1\n2\n3\n4\na\n", [2, 2, 1, 1]),
        ({"start": "^a", "max_bytes": 5}, b"a\n12\n34\n5678901\n2\na\n", [2, 1, 1, 1, 1]),
    ],
)
def test_lines_that_are_one_event(config: dict[str, object], data: bytes, lines: list[int]) -> None:
    by = framing(**config)
    found = events(by, [data])
    assert [event.count(b"\n") + 1 for event in found] == lines
    assert b"".join(event + b"\n" for event in found) == data
    for size in (1, 2, 7):
        assert events(by, [data[at : at + size] for at in range(0, len(data), size)]) == found
    assert by.payloads(data) == found


WAYS: list[dict[str, object]] = [
    {"start": "^a"}, {"start": "b"}, {"start": r"^a\s+b"}, {"continue": "^[ \t]"}, {"continue": r"^[^a]"},
     {"end": "b$"}, {"end": r"\W"},
    {"indent": True}, {"rule": "java"}, {"rule": "python"}, {"rule": "go"},
    {"start": "^a", "max_lines": 3}, {"continue": "^ ", "max_bytes": 7}, {"end": "a", "max_lines": 2, "max_bytes": 4},
]  # fmt: skip
TEXT = st.text(alphabet="ab \t\r\n\n", max_size=60).map(str.encode)


@given(st.sampled_from(WAYS), TEXT, st.lists(st.integers(0, 60), max_size=8), st.sampled_from([3, 12, 1 << 20]))
@settings(max_examples=examples(2000))
def test_wherever_the_reads_cut_the_events_are_the_same(
    config: dict[str, object], data: bytes, cuts: list[int], limit: int
) -> None:
    by = framing(**config)
    at = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    reads = [data[begin:end] for begin, end in pairwise(at)]
    assert events(by, reads, limit) == events(by, [data], limit)


@given(st.sampled_from(WAYS), TEXT)
@settings(max_examples=examples(500))
def test_no_byte_is_lost(config: dict[str, object], data: bytes) -> None:
    found = b"".join(event + b"\n" for event in events(framing(**config), [data]))
    assert found == (data if not data or data.endswith(b"\n") else data + b"\n")


def test_a_line_over_max_event_bytes_leaves_by_err_and_the_lines_before_it_do_not() -> None:
    taker, errors = Taker(ack=True), Taker(ack=True)
    out = World().source(taker, errors, codec=STRING, framing=framing(start="^a"))
    out.max_event_bytes = 10
    stream = out.stream({}, marks=True)
    for read in (b"a\n1\n", b"2345678", b"9012345\n", b"more\na\n"):
        stream.feed(read)
    assert [event for block in taker.blocks for event in block.frames.payloads()] == [b"a\n1", b"more"]
    assert len(errors.blocks) == 1


def test_of_a_connection_what_is_there_after_a_while_is_an_event() -> None:
    world, taker = World(), Taker(ack=True)
    out = world.source(taker, codec=STRING, framing=framing(start="^a", timeout=2_000_000_000))
    stream = out.stream({})
    stream.feed(b"a\n1\nha")
    world.scheduler.advance(1)
    world.scheduler.run()
    assert not taker.blocks
    world.scheduler.advance(1.5)
    world.scheduler.run()
    assert taker.data == [b"\x00\x00\x00\x03a\n1"]
    stream.feed(b"lf\n")
    stream.feed(b"a\n")
    assert [each.frames.payloads() for each in taker.blocks[1:]] == [[b"half"]]
    stream.abandon()
    world.scheduler.advance(10)
    world.scheduler.run()
    assert len(taker.blocks) == 2


def test_of_a_connection_that_is_not_read_it_may_go_on() -> None:
    world, taker = World(), Taker()
    out = world.source(taker, codec=STRING, framing=framing(start="^a", timeout=1_000_000_000))
    out.window = 4
    stream = out.stream({})
    stream.feed(b"abcdef\na\n1\n")  # the window is full
    for _ in range(10):
        world.scheduler.advance(1)
        world.scheduler.run()
    assert [block.frames.payloads() for block in taker.blocks] == [[b"abcdef"]]
    taker.blocks[0].receipt.ack()
    for _ in range(3):
        world.scheduler.advance(1)
        world.scheduler.run()
    assert [block.frames.payloads() for block in taker.blocks] == [[b"abcdef"], [b"a\n1"]]
    taker.blocks[1].receipt.ack()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "multiline wants one of start, continue, end, indent, rule"),
        ({"start": "a", "end": "b"}, "multiline wants one of start"),
        ({"rule": "rust"}, "multiline has no rule 'rust'; there are java, python, go"),
        ({"start": "(?!a)"}, "is no pattern of RE2"),
        ({"start": ")|("}, "is no pattern of RE2"),
        ({"start": 1}, "multiline wants a pattern for start, not 1"),
        ({"indent": False}, "multiline wants indent = true"),
        ({"indent": True, "max_lines": 0}, "multiline wants a max_lines of at least 1, not 0"),
        ({"begin": "a"}, "begin"),
    ],
)
def test_configurations_that_are_none(config: dict[str, object], said: str) -> None:
    with pytest.raises(WalflowError) as caught:
        framing(**config)
    assert said in str(caught.value)


def test_it_stands_last_and_alone() -> None:
    with pytest.raises(BadChainOrder, match="would join again"):
        incoming([("separate", {}), ("multiline", {"indent": True})])
    with pytest.raises(WalflowError, match="it stands last"):
        incoming([("multiline", {"indent": True}), ("base64", {})])
