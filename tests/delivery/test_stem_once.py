"""The selects before several lanes: evaluated once for lanes at the same position,
and by a lane that is elsewhere for itself."""

import pytest

from tests.delivery.apart import Apart

THREE = ["near", "far", "odd"]


def behind(pipeline: str, *, into: str = "out") -> str:
    links = "".join(f"connect /pipeline/p/out to /connector/{sink};" for sink in THREE)
    return f"""
  define pipeline p into {into} pipeline {pipeline} end;
  create pipeline p;
  connect /connector/log to /pipeline/p;
  {links}
"""


MADE = behind('select {"id": event.id, "seen": true} from in into out;')


WHOLE = behind('select {"id": event.id, "x": event.x} from in into out;')


def data_of(flow: Apart, sink: str) -> bytes:
    (block,) = flow.sinks[sink].waiting
    return block.frames.data


def test_lanes_at_the_same_position_share_what_a_select_makes() -> None:
    flow = Apart(MADE, THREE)
    flow.give(1, 2, 3)
    near = data_of(flow, "near")
    assert near == b'{"id":1,"seen":true}\n{"id":2,"seen":true}\n{"id":3,"seen":true}\n'
    assert data_of(flow, "far") is near
    assert data_of(flow, "odd") is near
    flow.ack(*THREE)
    assert flow.lanes() == {"near": 0, "far": 0, "odd": 0}
    flow.close()


def test_a_lane_that_is_behind_evaluates_for_itself_and_gets_the_same() -> None:
    flow = Apart(WHOLE, THREE, away=["far"], config='"lanes": "apart", "chunk_size": 1048576, "max_chunks": 16')
    for number in range(60):
        flow.give(number, size=100_000)
        flow.ack("near", "odd")
    flow.sinks["far"].start()
    flow.settle()
    flow.ack("far")
    assert flow.ids("far") == flow.ids("near") == list(range(60))
    assert flow.sinks["far"].got == flow.sinks["near"].got
    assert flow.lanes() == {"near": 0, "far": 0, "odd": 0}
    flow.close()


def test_no_outcome_waits_for_another_lanes_copy() -> None:
    flow = Apart(MADE, THREE)
    flow.give(1, 2, 3)
    flow.ack("near")
    flow.sinks["far"].fail(done=1)
    assert flow.lanes() == {"near": 0, "far": 2, "odd": 3}
    flow.scheduler.advance(1.0)
    flow.settle()
    flow.ack("far")
    assert (flow.ids("near"), flow.ids("far"), flow.ids("odd")) == ([1, 2, 3], [1, 2, 3, 2, 3], [1, 2, 3])
    assert flow.lanes() == {"near": 0, "far": 0, "odd": 3}
    flow.ack("odd")
    flow.close()


TWO_WAYS = behind(
    """
    create stream marked; create stream seen;
    define script mark script let $way = 1; event end; create script mark;
    define script see script let event.way = $way; event end; create script see;
    select event from in into mark;
    select event from mark into see;
    select event from see into out;
"""
)
DRAWN = behind("""use std::random; select {"id": event.id, "drawn": random::integer(0, 1000000)} from in into out;""")
FILTERED = behind(
    """
    create stream few;
    select event from in where event.id % 2 == 1 into few;
    select {"id": event.id, "few": true} from few into out;
"""
)


@pytest.mark.parametrize("flow_text", [TWO_WAYS, DRAWN, FILTERED], ids=["metadata", "random", "a filter before"])
def test_each_lane_gets_the_same_whoever_evaluates(flow_text: str) -> None:
    flow = Apart(flow_text, THREE, away=["far"])
    for number in range(0, 40, 4):
        flow.give(*range(number, number + 4))
        flow.ack("near")
    flow.sinks["far"].start()
    flow.settle()
    flow.ack("near", "far", "odd")
    assert flow.sinks["near"].got == flow.sinks["far"].got == flow.sinks["odd"].got
    assert len(flow.ids("near")) in (20, 40)
    assert flow.lanes() == {"near": 0, "far": 0, "odd": 0}
    flow.close()


def test_what_is_refused_goes_to_err_once_and_counts_once() -> None:
    text = behind('select {"half": event.half} from in into out;', into="out, err")
    flow = Apart(f"{text} connect /pipeline/p/err to /connector/rejected;", [*THREE, "rejected"], away=["far"])
    flow.give(1, 2)
    flow.sinks["far"].start()
    flow.settle()
    assert len(flow.sinks["rejected"].got) == 2
    assert flow.world.count("rejected_events_total") == 2
    flow.ack("rejected")
    assert not any(flow.lanes().values())
    flow.close()
