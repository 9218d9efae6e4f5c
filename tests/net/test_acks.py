"""Echoes, told from other events: first in, first out, byte for byte, however the bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from walflow.framing import LINES, WHOLE
from walflow.net.acks import NoEcho, WhenEchoed
from walflow.testing import MemoryInlet, VirtualScheduler


class Wire:
    def __init__(self) -> None:
        self.scheduler = VirtualScheduler()
        self.inlet = MemoryInlet(self.scheduler)
        self.acks = WhenEchoed(self.inlet, self.scheduler.time)

    def send(self, *events: bytes) -> None:
        self.acks.sent([self.inlet.lines_of(*events)])

    def lose(self) -> list[bytes]:
        """What failed."""
        self.acks.lost((), ConnectionError("lost"))
        return [data for data, _ in self.inlet.failed]


def test_an_echo_acks_its_block_when_its_last_byte_is_there() -> None:
    wire = Wire()
    wire.send(b"1", b"2")
    assert wire.acks.received(b"1\n2") == b""
    assert wire.inlet.acked == []
    assert wire.acks.received(b"\n") == b""
    assert wire.inlet.acked == [b"1\n2\n"]
    assert wire.lose() == []


def test_what_was_echoed_is_not_failed() -> None:
    wire = Wire()
    wire.send(b"1", b"2", b"33", b"4")
    wire.send(b"5")
    wire.acks.received(b"1\n2\n3")
    assert wire.lose() == [b"33\n4\n", b"5\n"]


def test_other_events_between_and_within_blocks() -> None:
    wire = Wire()
    wire.send(b"1", b"2")
    wire.send(b"3")
    assert wire.acks.received(b"x\n1\ny\n2\n3\nz\n") == b"x\ny\nz\n"
    assert wire.inlet.acked == [b"1\n2\n", b"3\n"]


def test_an_event_that_begins_like_an_echo_and_goes_on_differently() -> None:
    wire = Wire()
    wire.send(b"111", b"2")
    assert wire.acks.received(b"11") == b""
    assert wire.acks.received(b"7") == b"117"
    assert wire.acks.received(b"111\n11") == b"111\n"  # all of it the end of that other event
    assert wire.acks.received(b"1\n2\n") == b""
    assert wire.inlet.acked == [b"111\n2\n"]


def test_the_end_of_an_event_that_began_before_anything_was_sent_is_no_echo() -> None:
    wire = Wire()
    assert wire.acks.received(b"ready\nx") == b"ready\nx"
    wire.send(b"1")
    assert wire.acks.received(b"1\n1\n") == b"1\n"
    assert wire.inlet.acked == [b"1\n"]


def test_echoes_in_another_order_are_events() -> None:
    wire = Wire()
    wire.send(b"1")
    wire.send(b"2")
    assert wire.acks.received(b"2\n1\n") == b"2\n"
    assert wire.inlet.acked == [b"1\n"]
    assert wire.lose() == [b"2\n"]


def test_the_peer_owes_since_the_last_echo() -> None:
    wire = Wire()
    assert wire.acks.waiting_since() is None
    wire.send(b"1", b"2")
    wire.scheduler.advance(3)
    assert wire.acks.waiting_since() == 0
    wire.acks.received(b"other\n")
    assert wire.acks.waiting_since() == 0
    wire.acks.received(b"1\n")
    assert wire.acks.waiting_since() == 3
    wire.acks.received(b"2\n")
    assert wire.acks.waiting_since() is None


def test_a_new_connection_begins_between_events() -> None:
    wire = Wire()
    wire.send(b"1")
    wire.acks.received(b"oth")
    assert wire.lose() == [b"1\n"]
    wire.send(b"1")
    assert wire.acks.received(b"1\n") == b""
    assert wire.inlet.acked == [b"1\n"]


def test_events_without_an_end_have_no_echo() -> None:
    wire = Wire()
    block = wire.inlet.block(b"1", framing=WHOLE)
    with pytest.raises(NoEcho, match="separate"):
        wire.acks.sent([block])
    wire.inlet.ack(block)


SHORT = st.binary(max_size=3).map(lambda raw: raw.translate(bytes(48 + byte % 3 for byte in range(256))))
BLOCKS = st.lists(st.lists(SHORT, min_size=1, max_size=4), max_size=5)


@given(
    blocks=BLOCKS,
    others=st.lists(st.tuples(st.integers(0, 20), SHORT), max_size=6),
    cuts=st.lists(st.integers(0, 100), max_size=12),
    end=st.integers(0, 100),
)
def test_any_mixture_cut_anywhere(
    blocks: list[list[bytes]], others: list[tuple[int, bytes]], cuts: list[int], end: int
) -> None:
    """Against a model that takes whole lines one at a time."""
    sent = [event for block in blocks for event in block]
    came = list(sent)
    for at, event in others:
        came.insert(min(at, len(came)), event)
    data = LINES.join(came)[:end] if came else b""
    expected, strange = list(sent), []
    for event in data.split(b"\n")[:-1]:
        if expected and event == expected[0]:
            expected.pop(0)
        else:
            strange.append(event)
    wire = Wire()
    for block in blocks:
        wire.send(*block)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    passed = b"".join(wire.acks.received(data[low:high]) for low, high in pairwise(edges))
    wire.lose()
    assert passed.startswith(b"".join(event + b"\n" for event in strange))  # then perhaps an unended one
    failed = [event for part in wire.inlet.failed for event in part[0].split(b"\n")[:-1]]
    assert failed == expected
