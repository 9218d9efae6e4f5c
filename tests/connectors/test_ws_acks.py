"""What acks an event that went out as a message: a pong behind it, itself coming back, or its id."""

from collections.abc import Sequence

from hypothesis import given, strategies as st

from connectors.ws import WsClient
from connectors.ws.acks import MessagesPonged, MessagesReturned
from walflow.codecs import JSON, STRING
from walflow.framing.messages import MESSAGES
from walflow.testing import MemoryInlet, VirtualScheduler

LOST = ConnectionError("lost")


class Ponged:
    def __init__(self) -> None:
        self.scheduler = VirtualScheduler()
        self.inlet = MemoryInlet(self.scheduler)
        self.acks = MessagesPonged(WsClient(url="h:1"), self.inlet, self.scheduler.time)

    def send(self, *batches: Sequence[bytes]) -> bytes:
        """A block each; the ping behind them."""
        self.acks.sent([self.inlet.lines_of(*batch) for batch in batches])
        payload = self.acks.ping(len(batches))
        assert payload is not None
        return payload


def test_a_pong_acks_what_was_sent_before_its_ping_and_nothing_else() -> None:
    wire = Ponged()
    first, second, third = wire.send([b"1", b"2"], [b"3"]), wire.send([b"4"]), wire.send([b"5"])
    wire.acks.pong(b"")
    wire.acks.pong(b"walflow")
    wire.acks.pong(third[:8] + (1 << 40).to_bytes(8, "big"))
    assert wire.inlet.acked == []
    wire.acks.pong(first)
    assert wire.inlet.acked == [b"1\n2\n", b"3\n"]
    wire.acks.pong(first)
    wire.acks.pong(third)  # a peer may answer the last ping alone
    assert wire.inlet.acked == [b"1\n2\n", b"3\n", b"4\n", b"5\n"]
    wire.acks.pong(second)
    assert wire.acks.waiting_since() is None


def test_a_pong_of_the_connection_before_acks_nothing() -> None:
    wire = Ponged()
    old = wire.send([b"1"], [b"2"])
    again = wire.acks.lost((), LOST)
    assert [block.frames.data for block in again] == [b"1\n", b"2\n"]
    wire.acks.sent(again)
    wire.acks.pong(old)
    new = wire.acks.ping(1)
    wire.acks.pong(old)
    assert wire.inlet.acked == []
    assert new is not None
    wire.acks.pong(new)
    assert wire.inlet.acked == [b"1\n"]
    for block in wire.acks.lost((), LOST):
        wire.inlet.ack(block)


class Returned:
    def __init__(self, id_field: str | None = None) -> None:
        self.scheduler = VirtualScheduler()
        self.inlet = MemoryInlet(self.scheduler)
        config = WsClient(url="h:1", ack="message", id_field=id_field)
        self.acks = MessagesReturned(config, self.inlet, self.scheduler.time, 30, id_field=id_field, codec=JSON)

    def send(self, *events: bytes) -> None:
        self.acks.sent([self.inlet.lines_of(*events)])

    def lose(self) -> list[bytes]:
        """What is to be sent again; it is acked, to end the test."""
        again = self.acks.lost((), LOST)
        for block in again:
            block.receipt.ack()
        return [block.frames.data for block in again]


def test_events_come_back_in_their_order_and_others_between_them() -> None:
    wire = Returned()
    wire.send(b"1", b"2")
    wire.send(b"1")
    assert wire.acks.others([b"2", b"x", b"1"]) == [b"2", b"x"]
    assert wire.inlet.acked == []
    assert wire.acks.others([b"2", b"1", b"1"]) == [b"1"]
    assert wire.inlet.acked == [b"1\n2\n", b"1\n"]
    assert wire.lose() == []


def test_what_was_back_is_acked_and_not_sent_again() -> None:
    wire = Returned()
    wire.send(b"1", b"2", b"3")
    wire.send(b"4")
    wire.acks.others([b"1"])
    assert wire.lose() == [b"2\n3\n", b"4\n"]
    assert wire.inlet.acked == [b"1\n"]


def test_by_its_id_an_event_comes_back_in_any_order_and_form() -> None:
    wire = Returned("id")
    wire.send(b'{"id":1,"a":0}', b'{"id":"1"}', b'{"id":[2,{"x":null}]}')
    assert wire.acks.others([b"2", b"true", b'{"id":1.0}', b'{"no":1}', b"garbage", b'{"id":1e999}']) == [
        b"2",
        b"true",
        b'{"id":1.0}',
        b'{"no":1}',
        b"garbage",
        b'{"id":1e999}',
    ]
    assert wire.acks.others([b'[2, {"x":null}]', b'{"other": 1, "id": 1}', b"1"]) == [b"1"]
    assert wire.inlet.acked == []
    assert wire.acks.others([b'"1"']) == []
    assert wire.inlet.acked == [b'{"id":1,"a":0}\n{"id":"1"}\n{"id":[2,{"x":null}]}\n']


def test_an_event_without_the_id_is_rejected_at_once() -> None:
    wire = Returned("id")
    going = wire.acks.sent([wire.inlet.lines_of(b'{"id":1}', b"2", b'{"no":3}', b'{"id":4}')])
    assert [block.frames.data for block in going] == [b'{"id":1}\n', b'{"id":4}\n']
    assert wire.inlet.rejected == [(b'2\n{"no":3}\n', "it has no id, by which the peer could ack it")]
    assert wire.lose() == [b'{"id":1}\n', b'{"id":4}\n']


def test_text_that_is_not_utf8_is_rejected_before_it_breaks_the_protocol() -> None:
    scheduler = VirtualScheduler()
    inlet = MemoryInlet(scheduler)
    acks = MessagesPonged(WsClient(url="h:1", binary=False), inlet, scheduler.time)
    block = inlet.block(MESSAGES.join([b"a", b"\xff", "ä".encode()]), codec=STRING, framing=MESSAGES)
    assert list(acks.sent([block])) == [block]  # the codec has seen to it
    acks.lost((), LOST)
    inlet.ack(block)
    block = inlet.block(b"a\n\xff\n", codec=_Binary())
    assert [part.frames.data for part in acks.sent([block])] == [b"a\n"]
    assert inlet.rejected == [(b"\xff\n", "not UTF-8, and a text message is nothing else")]
    for part in acks.lost((), LOST):
        inlet.ack(part)


class _Binary(type(STRING)):  # type: ignore[misc]
    name = "binary"


IDS = st.integers(0, 5)
STEPS = st.lists(st.one_of(st.lists(IDS, min_size=1, max_size=6), IDS, st.none()), max_size=40)


@given(STEPS)
def test_each_event_is_acked_once_whatever_order_they_come_back_in(steps: list[list[int] | int | None]) -> None:
    """Against a model: a list of ids is a block, an id comes back, None is the end of a connection.
    Ids may repeat."""
    wire = Returned("id")
    owed: list[tuple[int, int]] = []  # id, number
    blocks = number = 0
    for step in [*steps, None, *(one for block in steps if isinstance(block, list) for one in block)]:
        if isinstance(step, list):
            events = list(enumerate(step, number))
            wire.send(*(b'{"id":%d,"n":%d}' % (one, at) for at, one in events))
            owed += [(one, at) for at, one in events]
            number += len(step)
            blocks += 1
        elif step is None:
            again = wire.acks.lost((), LOST)
            assert b"".join(block.frames.data for block in again) == b"".join(
                b'{"id":%d,"n":%d}\n' % each for each in owed
            )
            wire.acks.sent(again)
        else:
            first = next((each for each in owed if each[0] == step), None)
            assert wire.acks.others([b"%d" % step]) == ([] if first else [b"%d" % step])
            if first:
                owed.remove(first)
    assert owed == []
    assert [receipt.cause for receipt in wire.inlet.settled] == [None] * blocks
    assert wire.acks.lost((), LOST) == []
