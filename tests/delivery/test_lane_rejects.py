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
    ("cause", "given_up"),
    [(LOST, 1), (PeerAway("not there"), 1), (SinkGone("it has stopped"), 0), (NotDelivered("it has stopped"), 0)],
)
def test_no_event_is_given_up_for_a_cause_that_is_not_the_event(cause: Exception, given_up: int) -> None:
    """A connection that ended, or a sink that was run again, took an attempt of what was under way. So the first
    failure counts against none, whatever the cause."""
    flow = Apart(FAN + DEAD, SINKS, config='"lanes": "apart", "max_attempts": 1')
    flow.give(1)
    far = flow.sinks["far"]
    for number, letters in ((2, 0), (3, given_up)):
        flow.give(number)
        first, second = sorted(far.waiting, key=lambda block: block.frames.data)
        far.waiting.clear()
        far.node.ack(second)
        far.node.fail(first, cause)
        flow.scheduler.advance(1.0)
        flow.settle()
        assert [len(errors(flow)), len(far.waiting)] == [letters, 1 - letters]
    for name in SINKS:
        flow.ack(name)
    flow.close()


def test_what_fails_together_again_counts_against_none_of_it() -> None:
    """A connection ended twice with the same two events under way: one may be to blame, and the other is good."""
    flow = Apart(FAN + DEAD, SINKS, config='"lanes": "apart", "max_attempts": 1')
    flow.give(1)
    flow.give(2)
    far = flow.sinks["far"]
    for number in (3, 4):
        flow.give(number)
        *both, good = sorted(far.waiting, key=lambda block: block.frames.data)
        far.waiting.clear()
        far.node.ack(good)
        cause = PeerAway("it went away")
        for block in both:
            far.node.fail(block, cause)
        flow.scheduler.advance(1.0)
        flow.settle()
        assert errors(flow) == []
    flow.give(5)
    flow.give(6)
    bad, good, newer = sorted(far.waiting, key=lambda block: block.frames.data)
    assert bad.values[0]["id"] == 1  # type: ignore[index]  # the other one waits until it has an outcome
    far.waiting.clear()
    far.node.ack(good)
    cause = PeerAway("it went away")
    for block in (newer, bad):
        far.node.fail(block, cause)
    flow.scheduler.advance(1.0)
    flow.settle()
    assert sorted(block.values[0]["id"] for block in far.waiting) == [2]  # type: ignore[index]
    flow.ack("far")
    flow.scheduler.advance(1.0)
    flow.settle()
    assert [sink for sink, _ in errors(flow)] == ["main::log"], "the newer one had not failed before"
    for name in SINKS:
        flow.ack(name)
    flow.close()


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
