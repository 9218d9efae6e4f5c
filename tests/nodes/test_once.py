"""What a stem has evaluated is kept until each lane has come, and never more than some MiB of it."""

from walflow import Block, Frames, StreamId
from walflow.codecs import JSON
from walflow.event import Origin
from walflow.framing import LINES
from walflow.nodes.once import KEPT_BYTES, Evaluations
from walflow.operators.select import Evaluated, Way
from walflow.receipt import Receipt


def evaluations(lanes: int, *, draws: bool = False) -> Evaluations:
    made = Evaluations(draws=draws)
    made.lanes = lanes
    return made


def block(position: int, data: bytes = b"{}\n", way: int = 0) -> Block:
    receipt = Receipt(_settled, 1)
    origin = Origin("log", position, position, 0)
    frames = Frames(data, 1, LINES)
    one = Block(StreamId("c", 1, 1), frames, JSON, receipt, ingest_ns=1, meta={"way": way}, origin=origin)
    receipt.ack()
    return one


def made_of(size: int) -> Evaluated:
    frames = Frames(b"x" * (size - 1) + b"\n", 1, LINES)
    return Evaluated([Way(0, [0], None, frames, (), distinct=True, whole=False, anew=True)], (), 0)


def test_it_is_kept_until_each_lane_has_come() -> None:
    kept, made = evaluations(3), made_of(10)
    kept.put(block(1), made)
    assert kept.take(block(1)) is made
    assert kept.take(block(1)) is made
    assert kept.take(block(1)) is None
    assert repr(kept) == "<Evaluations of 0 blocks, 0 bytes, for 3 lanes>"


def test_one_lane_keeps_nothing() -> None:
    kept = evaluations(1)
    kept.put(block(1), made_of(10))
    assert repr(kept) == "<Evaluations of 0 blocks, 0 bytes, for 1 lanes>"


def test_where_a_lane_is_away_the_oldest_go() -> None:
    kept, made = evaluations(2), made_of(100_000)
    for position in range(1, 201):
        kept.put(block(position), made)
    assert kept.take(block(1)) is None
    assert kept.take(block(200)) is made
    taken = sum(kept.take(block(position)) is made for position in range(1, 200))
    assert taken == KEPT_BYTES // 100_103 - 1
    assert repr(kept) == "<Evaluations of 0 blocks, 0 bytes, for 2 lanes>"


def test_what_is_too_large_is_not_kept() -> None:
    kept = evaluations(2)
    kept.put(block(1), made_of(KEPT_BYTES))
    assert kept.take(block(1)) is None
    assert repr(kept) == "<Evaluations of 0 blocks, 0 bytes, for 2 lanes>"


def test_other_events_of_the_same_positions_are_evaluated() -> None:
    """Two ways through a stem may bring them to one place."""
    kept, made = evaluations(2), made_of(10)
    kept.put(block(1), made)
    assert kept.take(block(1, b"[]\n")) is None
    assert kept.take(block(1, way=1)) is None
    assert kept.take(block(1)) is made


def test_evaluated_again_it_counts_once() -> None:
    kept, made = evaluations(2), made_of(10)
    kept.put(block(1), made_of(20))
    kept.put(block(1), made)
    assert kept.take(block(1)) is made
    assert repr(kept) == "<Evaluations of 0 blocks, 0 bytes, for 2 lanes>"


def test_what_is_drawn_goes_by_the_positions() -> None:
    kept, made = evaluations(2, draws=True), made_of(10)
    kept.put(block(1), made)
    other = block(1)
    other.positions = [7]
    assert kept.take(other) is None
    assert kept.take(block(1)) is made


def _settled(receipt: Receipt) -> None: ...
