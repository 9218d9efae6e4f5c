"""What fails or is rejected in one lane, while the others go on."""

import pytest

from tests.delivery.apart import Apart
from tests.delivery.test_lanes import BATCH, BY_WHERE, FAN, pipeline
from tests.operators.flows import LOST
from walflow import NotDelivered, PeerAway
from walflow.nodes.sink import SinkGone

DEAD = """
  create pipeline rejects from pipelines::passthrough;
  connect /connector/near/err to /pipeline/rejects;
  connect /connector/far/err to /pipeline/rejects;
  connect /connector/log/err to /pipeline/rejects;
  connect /pipeline/rejects to /connector/dead;
"""
SINKS = ["near", "far", "dead"]


def errors(flow: Apart) -> list[tuple[str, str]]:
    return [(record["source"], record["error"]) for record in flow.sinks["dead"].got]  # type: ignore[index]


def test_one_file_of_rejected_events_for_all_joins_no_lanes() -> None:
    flow = Apart(FAN + DEAD, SINKS)
    assert list(flow.outlet.lanes) == ["near", "far"]
    flow.give(1, 2)
    for name in ("near", "far"):
        sink = flow.sinks[name]
        sink.node.reject(sink.waiting.pop(), f"{name} does not take it")
    flow.ack("dead")
    told = [("main::near", "near does not take it")] * 2 + [("main::far", "far does not take it")] * 2
    assert errors(flow) == told
    assert flow.lanes() == {"near": 0, "far": 0}
    flow.close()


def fails_the_first(flow: Apart) -> None:
    """Of the two events that wait for far; the other one is taken."""
    far = flow.sinks["far"]
    poison, good = sorted(far.waiting, key=lambda block: block.frames.data)
    far.waiting.clear()
    far.node.ack(good)
    far.node.fail(poison, LOST)
    flow.scheduler.advance(1.0)
    flow.settle()


def test_what_a_lane_gives_up_leaves_by_the_err_of_the_log() -> None:
    flow = Apart(FAN + DEAD, SINKS, config='"lanes": "apart", "max_attempts": 2')
    flow.give(1)
    for number in (2, 3, 4):
        flow.give(number)
        fails_the_first(flow)
    flow.ack("near")
    assert errors(flow) == [("main::log", "failed 2 times at main::far: gone (position 1)")]
    assert flow.lanes() == {"near": 0, "far": 1}, "the lane waits for the sink of rejected events"
    flow.ack("dead")
    assert flow.lanes() == {"near": 0, "far": 0}
    assert flow.ids("near") == [1, 2, 3, 4]
    flow.close()


@pytest.mark.parametrize(
    ("cause", "given_up"), [(LOST, 1), (SinkGone("it has stopped"), 0), (NotDelivered("it has stopped"), 0)]
)
def test_no_event_is_given_up_for_a_cause_that_is_not_the_event(cause: Exception, given_up: int) -> None:
    """A sink that was run again took an attempt of what was under way. So the first failure counts against none,
    whatever the cause."""
    flow = Apart(FAN + DEAD, SINKS, config='"lanes": "apart", "max_attempts": 1')
    flow.give(1)
    for number, letters in ((2, 0), (3, given_up)):
        flow.give(number)
        fails(flow, {1}, cause)
        assert [len(errors(flow)), len(flow.sinks["far"].waiting)] == [letters, 1 - letters]
    for name in SINKS:
        flow.ack(name)
    flow.close()


def test_what_ends_a_connection_is_given_up_only_if_it_was_under_way_alone() -> None:
    """A connection ended twice with the same two events under way, and one of them was good: each may be to blame. So
    may a newer one that is under way with them."""
    flow = Apart(FAN + DEAD, SINKS, config='"lanes": "apart", "max_attempts": 1')
    flow.give(1)
    flow.give(2)
    for number in (3, 4):
        flow.give(number)
        fails(flow, {1, 2}, PeerAway("it went away"))
    assert errors(flow) == []
    tries = 0
    for number in range(5, 25):
        flow.give(number)
        under_way = waiting(flow)
        assert len(under_way) == 1 or not {1, 2} & set(under_way), "newer ones wait until it has an outcome"
        tries += 1 in under_way
        fails(flow, {1}, PeerAway("it went away"))
        if errors(flow):
            break
    assert [sink for sink, _ in errors(flow)] == ["main::log"]
    assert tries == 2, "after the first one, nothing had been taken since the failure before"
    flow.give(30)
    assert 30 in waiting(flow), "an error record that has no outcome yet holds up nothing"
    assert 2 in flow.ids("far")
    for name in SINKS:
        flow.ack(name)
    assert flow.lanes() == {"near": 0, "far": 0}
    flow.close()


def test_what_goes_alone_holds_up_newer_ones_for_half_a_minute_at_most() -> None:
    flow = Apart(FAN + DEAD, SINKS, config='"lanes": "apart", "max_attempts": 1')
    flow.give(1)
    for number in (2, 3):
        flow.give(number)
        fails(flow, {1}, PeerAway("it went away"))
    assert waiting(flow) == [1]
    flow.give(4)
    flow.scheduler.advance(20.0)
    assert waiting(flow) == [1]
    flow.scheduler.advance(11.0)
    flow.settle()
    assert waiting(flow) == [1, 4], "it may stand for ever"
    fails(flow, {1}, PeerAway("it went away"), seconds=0.0)
    assert errors(flow) == [], "it was not alone"
    flow.give(5)
    assert waiting(flow) == [5]
    flow.scheduler.advance(10.0)
    flow.settle()
    for number in (6, 7, 8, 9):
        flow.give(number)
    assert 9 not in waiting(flow), "some have their turn, then the others wait, until it was sent alone"
    flow.scheduler.advance(31.0)
    flow.settle()
    assert waiting(flow) == [1, 5, 6, 7, 8, 9], "which may stand for ever, too"
    for name in SINKS:
        flow.ack(name)
    flow.close()


def waiting(flow: Apart) -> list[int]:
    return sorted(value["id"] for block in flow.sinks["far"].waiting for value in block.values)  # type: ignore[index]


def fails(flow: Apart, ids: set[int], cause: Exception, seconds: float = 1.0) -> None:
    """Of what waits for far; the rest is taken before. So many seconds go by."""
    far = flow.sinks["far"]
    blocks = sorted(far.waiting, key=lambda block: block.values[0]["id"] in ids)  # type: ignore[index]
    far.waiting.clear()
    for block in blocks:
        if block.values[0]["id"] in ids:  # type: ignore[index]
            far.node.fail(block, cause)
        else:
            far.node.ack(block)
    flow.scheduler.advance(seconds)
    flow.settle()


def test_an_error_record_that_failed_comes_again_as_it_was() -> None:
    """It said neither sink nor position, attempts nor cause the second time."""
    flow = Apart(FAN + DEAD, SINKS, config='"lanes": "apart", "max_attempts": 1')
    flow.give(1)
    for number in (2, 3):
        flow.give(number)
        fails_the_first(flow)
    dead = flow.sinks["dead"]
    dead.node.fail(dead.waiting.pop(), LOST)
    flow.scheduler.advance(1.0)
    first, again = dead.got
    assert isinstance(first, dict)
    assert first.keys() >= {"sink", "position", "attempts", "cause"}
    assert again == first
    flow.ack("dead")
    flow.ack("near")
    flow.close()


def test_a_block_is_halved_in_its_lane_until_the_poison_event_is_alone() -> None:
    flow = Apart(FAN, ["near", "far"], config='"lanes": "apart", "max_attempts": 1')
    flow.give(*range(8))
    flow.ack("near")
    sizes: list[int] = []
    for number in range(8, 20):
        far = flow.sinks["far"]
        waiting, far.waiting = far.waiting, []
        for block in waiting:
            ids = [value["id"] for value in block.values]  # type: ignore[index]
            if 3 in ids:
                sizes.append(len(ids))
                far.node.fail(block, LOST)
            else:
                far.node.ack(block)
        flow.give(number)
        flow.ack("near")
        flow.scheduler.advance(30.0)
        flow.settle()
    flow.ack("far")
    assert sizes == [8, 8, 4, 2, 1]
    assert flow.ids("near") == list(range(20)), "each once, and in order"
    assert {*range(20)} == {*flow.ids("far")}
    assert flow.lanes() == {"near": 0, "far": 0}
    assert flow.world.count("rejected_events_total") == 1
    flow.close()


def test_within_a_lane_only_the_sink_that_failed_gets_events_again() -> None:
    """A batch joins two sinks to one lane; a third one has a lane of its own."""
    other = """
  create pipeline after from pipelines::passthrough;
  connect /connector/log to /pipeline/after;
  connect /pipeline/after to /connector/odd;
"""
    flow = Apart(pipeline(BATCH) + BY_WHERE + other, ["near", "far", "odd"])
    assert list(flow.outlet.lanes) == ["near+far", "odd"]
    flow.give(1)
    flow.ack("near")
    flow.sinks["far"].fail()
    flow.ack("odd")
    flow.scheduler.advance(1.0)
    flow.settle()
    flow.ack("near", "far")
    assert (flow.ids("near"), flow.ids("far"), flow.ids("odd")) == ([1], [1, 1], [1])
    assert flow.lanes() == {"near+far": 0, "odd": 0}
    flow.close()
