"""Messages in a block, parted by their length where they cannot be lines."""

from collections.abc import Callable, Sequence

from hypothesis import given, strategies as st

from walflow.codecs import STRING
from walflow.contract import Timer
from walflow.delivery.tag import Tags
from walflow.event import Block, Codec, Frames, StreamId
from walflow.framing import LINES
from walflow.framing.messages import MESSAGES
from walflow.nodes.ingress import IngressStream
from walflow.offsets import EventEnds
from walflow.testing import MemoryInlet, VirtualScheduler

PAYLOADS = st.lists(st.binary(max_size=20), max_size=8)


class Taker:
    """What a stream hands its blocks to."""

    def __init__(self) -> None:
        self.frames: list[Frames] = []
        self.refused: list[tuple[bytes, str]] = []

    def deliver(self, stream: IngressStream, frames: Frames, codec: Codec, ends: EventEnds | None = None) -> None:
        self.frames.append(frames)

    def refuse(self, stream: IngressStream, bad: Sequence[tuple[bytes, str]]) -> None:
        self.refused += bad

    def ended(self, stream: IngressStream) -> None: ...

    def next_turn(self, call: Callable[[], None]) -> None:
        raise AssertionError("so few events take one turn")

    def later(self, delay: float, call: Callable[[], None]) -> Timer:
        raise AssertionError("a message waits for no more of it")


def stream_to(taker: Taker) -> IngressStream:
    return IngressStream(taker, StreamId("a", 1, 1), {}, STRING, MESSAGES, 10, _nothing, _nothing)


def _nothing() -> None: ...


@given(PAYLOADS)
def test_they_come_out_as_they_went_in(payloads: list[bytes]) -> None:
    data = MESSAGES.join(payloads)
    assert MESSAGES.payloads(data) == payloads
    assert MESSAGES.count(data) == len(payloads)
    frames = Frames(data, len(payloads), MESSAGES)
    assert [frames.slice(at, at + 1).payloads() for at in range(len(payloads))] == [[one] for one in payloads]


def test_the_messages_of_a_read_are_one_block_and_lines_if_they_can_be() -> None:
    taker = Taker()
    stream = stream_to(taker)
    stream.feed_messages([b"a", b"", b"b"])
    stream.feed_messages([b"a\nb", b"c"])
    stream.feed_messages([b"\xff", b"\n", b"x" * 11, b"d"])
    stream.feed_messages([])
    stream.reject("unread")
    assert [(frames.framing, frames.count) for frames in taker.frames] == [(LINES, 3), (MESSAGES, 2), (MESSAGES, 2)]
    assert [frames.payloads() for frames in taker.frames] == [[b"a", b"", b"b"], [b"a\nb", b"c"], [b"\n", b"d"]]
    assert [reason for _, reason in taker.refused] == [
        "event of 11 bytes exceeds max_event_bytes, 10",
        "not UTF-8",
        "unread",
    ]


def test_a_log_knows_them_again() -> None:
    inlet = MemoryInlet(VirtualScheduler())
    block: Block = inlet.block(MESSAGES.join([b"1\n"]), framing=MESSAGES)
    tags = Tags()
    assert Tags().decode(tags.encode(block)).framing is MESSAGES
    inlet.ack(block)
