"""A lane for each sink of a log: one that is away, slow or failing stops no other."""

import pytest

from tests.delivery.apart import Apart
from tests.operators.flows import LOST
from walflow.nodes.pauses import pause, resume
from walflow.nodes.ports import PortCounts

FAN = """
  create pipeline after from pipelines::passthrough;
  connect /connector/log to /pipeline/after;
  connect /pipeline/after to /connector/near;
  connect /pipeline/after to /connector/far;
"""


def test_a_sink_that_is_away_from_the_start_stops_no_other() -> None:
    flow = Apart(FAN, ["near", "far"], away=["far"])
    for number in range(300):
        flow.give(number, size=1000)
        flow.ack("near")
    assert flow.ids("near") == list(range(300))
    assert not flow.nodes.source.lanes["near"].gate.shut
    assert flow.nodes.source.lanes["far"].gate.shut
    assert flow.lanes() == {"near": 0, "far": 300}
    flow.close()


def test_back_again_it_catches_up_in_order_while_the_others_go_on() -> None:
    flow = Apart(FAN, ["near", "far"], away=["far"])
    for number in range(200):
        flow.give(number, size=1000)
        flow.ack("near")
    flow.sinks["far"].start()
    flow.settle()
    for number in range(200, 300):
        flow.give(number, size=1000)
        flow.ack("near")
        flow.sinks["far"].ack()
    flow.ack("far")
    assert flow.ids("near") == flow.ids("far") == list(range(300))
    flow.checkpoint()
    assert (flow.log.low, flow.lanes()) == (300, {"near": 0, "far": 0})
    flow.close()


def test_a_sink_that_is_slow_gets_its_own_window_and_no_more() -> None:
    flow = Apart(FAN, ["near", "far"])
    for number in range(300):
        flow.give(number, size=1000)
        flow.ack("near")
    assert len(flow.ids("near")) == 300
    held = sum(len(block.frames.data) for block in flow.sinks["far"].waiting)
    assert 0 < held <= flow.log.window
    flow.ack("far")
    assert flow.ids("far") == list(range(300))
    flow.close()


def test_a_sink_that_fails_gets_again_what_it_failed_and_the_other_does_not() -> None:
    flow = Apart(FAN, ["near", "far"])
    flow.give(1, 2, 3)
    flow.sinks["far"].fail(done=1)
    flow.give(4)
    flow.ack("near")
    assert flow.ids("near") == [1, 2, 3, 4]
    assert flow.lanes()["near"] == 0
    flow.scheduler.advance(1.0)
    flow.settle()
    flow.ack("far")
    assert flow.ids("far") == [1, 2, 3, 2, 3, 4]
    assert flow.lanes() == {"near": 0, "far": 0}
    assert flow.world.count("wal_acked_bytes_total") == len(b'{"id":1,"x":""}\n') * 4, "once"
    flow.close()


def test_a_full_log_stops_its_sources_and_a_lane_that_comes_back_frees_it() -> None:
    flow = Apart(FAN, ["near", "far"], away=["far"])
    number = 0
    while not flow.nodes.sink.triggered():
        flow.give(number, size=4000)
        flow.ack("near")
        number += 1
    assert flow.log.fill >= 0.9
    assert "full" in str(flow.nodes.sink.reason)
    assert flow.ids("near") == list(range(number))
    flow.sinks["far"].start()
    flow.settle()
    flow.ack("far")
    flow.checkpoint()
    assert not flow.nodes.sink.triggered()
    assert flow.ids("far") == list(range(number))
    flow.close()


def test_a_full_log_is_full_now_though_part_of_its_oldest_file_is_acked() -> None:
    flow = Apart(FAN, ["near", "far"])
    number = 0
    while not flow.nodes.sink.triggered():
        flow.give(number, size=4000)
        flow.ack("near")
        if number < 10:
            flow.ack("far")
        number += 1
    assert flow.gauges["wal_full_in_seconds", ""]() == 0
    flow.close()


def test_together_keeps_all_sinks_in_step() -> None:
    flow = Apart(FAN, ["near", "far"], away=["far"], config='"lanes": "together"')
    flow.give(1)
    assert flow.ids("near") == []
    assert list(flow.outlet.lanes) == ["main::log"]
    assert not any(lane for _, lane in flow.gauges), "all that there is to say of it is said of the log"
    flow.close()


def test_after_a_crash_no_lane_misses_an_event() -> None:
    flow = Apart(FAN, ["near", "far"], away=["far"])
    for number in range(20):
        flow.give(number)
    flow.ack("near")
    flow.checkpoint()
    flow.crash()
    again = Apart(FAN, ["near", "far"], disk=flow.disk)
    again.ack("near", "far")
    assert again.ids("far") == list(range(20))
    assert again.ids("near") == [], "its mark was stored"
    assert again.log.low == 20
    again.close()


def test_a_sink_that_leaves_the_flow_holds_nothing_and_the_others_get_nothing_twice() -> None:
    flow = Apart(FAN, ["near", "far"], away=["far"])
    flow.give(*range(20))
    flow.ack("near")
    flow.close()
    alone = Apart(FAN.replace("connect /pipeline/after to /connector/far;", ""), ["near"], disk=flow.disk)
    assert list(alone.outlet.lanes) == ["near"]
    assert alone.log.low == 20
    alone.give(20)
    alone.ack("near")
    assert alone.ids("near") == [20]
    alone.close()


def test_a_new_sink_begins_at_what_the_log_still_has() -> None:
    flow = Apart(FAN, ["near", "far"], away=["far"])
    flow.give(1, 2)
    flow.give(3, 4)
    flow.ack("near")
    flow.close()
    more = FAN + "connect /pipeline/after to /connector/new;"
    again = Apart(more, ["near", "far", "new"], disk=flow.disk)
    again.ack("near", "far", "new")
    assert (again.ids("near"), again.ids("far"), again.ids("new")) == ([], [1, 2, 3, 4], [1, 2, 3, 4])
    again.close()


TWO_WAYS = """
  create pipeline one from pipelines::passthrough;
  create pipeline two from pipelines::passthrough;
  connect /connector/log to /pipeline/one;
  connect /connector/log to /pipeline/two;
  connect /pipeline/one to /connector/near;
  connect /pipeline/two to /connector/near;
  connect /pipeline/two to /connector/far;
"""


def test_two_ways_to_one_sink_are_one_lane() -> None:
    flow = Apart(TWO_WAYS, ["near", "far"])
    assert list(flow.outlet.lanes) == ["far", "near"] or list(flow.outlet.lanes) == ["near", "far"]
    flow.give(1)
    assert flow.ids("near") == [1, 1]
    assert flow.ids("far") == [1]
    flow.ack("near", "far")
    assert flow.lanes() == {"near": 0, "far": 0}
    flow.close()


def pipeline(body: str, into: str = "out, other") -> str:
    return f"""
  define pipeline p into {into} pipeline {body} end;
  create pipeline p;
  connect /connector/log to /pipeline/p;
"""


BY_WHERE = """
  connect /pipeline/p/out to /connector/near;
  connect /pipeline/p/other to /connector/far;
"""


def test_selects_send_each_lane_what_is_its_own() -> None:
    body = pipeline(
        "select event from in where event.id < 10 into out; select event from in where event.id > 5 into other;"
    )
    flow = Apart(body + BY_WHERE, ["near", "far"], away=["far"])
    flow.give(*range(20))
    flow.ack("near")
    assert flow.ids("near") == list(range(10))
    assert flow.lanes() == {"near": 0, "far": 20}
    flow.sinks["far"].start()
    flow.settle()
    flow.ack("far")
    assert flow.ids("far") == list(range(6, 20))
    assert flow.lanes() == {"near": 0, "far": 0}
    flow.close()


BATCH = """
  define operator o from generic::batch with count = 1 end; create operator o;
  select event from in into o; select event from o into out; select event from o into other;
"""
CHOOSER = """
  define operator o from qos::roundrobin with outputs = ["a", "b"] end; create operator o;
  select event from in into o; select event from o/a into out; select event from o/b into other;
"""


@pytest.mark.parametrize("operator", [BATCH, CHOOSER])
def test_what_holds_or_chooses_makes_one_lane_of_all_behind_it(operator: str) -> None:
    flow = Apart(pipeline(operator) + BY_WHERE, ["near", "far"])
    assert len(flow.outlet.lanes) == 1
    flow.give(1)
    flow.ack("near", "far")
    assert flow.lanes() == {"near+far": 0}
    flow.close()


def test_an_event_that_the_stem_rejects_goes_to_err_once() -> None:
    body = """
  define pipeline p into out, other, err pipeline
    select {"id": event.id, "half": event.half} from in into out;
    select {"id": event.id, "half": event.half} from in into other;
  end;
  create pipeline p;
  connect /connector/log to /pipeline/p;
  connect /pipeline/p/out to /connector/near;
  connect /pipeline/p/other to /connector/far;
  connect /pipeline/p/err to /connector/rejected;
"""
    flow = Apart(body, ["near", "far", "rejected"])
    assert list(flow.outlet.lanes) == ["near", "far", "rejected"]
    flow.give(1, 2)
    assert len(flow.sinks["rejected"].got) == 4  # each of two events, for each of two selects
    flow.ack("near", "far", "rejected")
    assert flow.lanes() == {"near": 0, "far": 0, "rejected": 0}
    assert flow.world.count("rejected_events_total") == 4
    flow.close()


def test_a_poison_event_is_rejected_in_its_lane_while_the_others_go_on() -> None:
    flow = Apart(FAN, ["near", "far"], config='"lanes": "apart", "max_attempts": 2')
    flow.give(1)
    flow.give(2)
    for number in (3, 4, 5):
        far = flow.sinks["far"]
        poison = [block for block in far.waiting if block.values[0]["id"] == 1]  # type: ignore[index]
        far.waiting = [block for block in far.waiting if block not in poison]
        flow.ack("near", "far")
        for block in poison:
            far.node.fail(block, LOST)
        flow.give(number)
        flow.scheduler.advance(1.0)
        flow.settle()
    flow.ack("near", "far")
    assert flow.ids("near") == [1, 2, 3, 4, 5]
    assert flow.lanes() == {"near": 0, "far": 0}
    assert flow.world.count("rejected_events_total") == 1
    flow.close()


def test_what_all_lanes_pass_is_shown_and_counted_once() -> None:
    body = pipeline(
        "select event from in where event.id > 1 into out; select event from in where event.id > 1 into other;"
    )
    flow = Apart(body + BY_WHERE, ["near", "far"], away=["far"])
    counts = PortCounts()
    names = {str(name): name for name in flow.ports.names}
    flow.ports.watch(counts, names.values())
    flow.give(1, 2, 3)
    flow.ack("near")
    flow.sinks["far"].start()
    flow.settle()
    flow.ack("far")
    assert {
        name: counts.events[names[name]] for name in ("main/log/out", "main/p/in", "main/p/out", "main/far/in")
    } == {
        "main/log/out": 3,
        "main/p/in": 3,
        "main/p/out": 2,
        "main/far/in": 2,
    }
    assert flow.world.count("filtered_events_total") == 1
    assert flow.world.count("received_events_total") == 3
    flow.close()


def test_when_the_sink_of_rejected_events_is_away_the_lanes_that_need_it_stop() -> None:
    body = (
        FAN
        + """
  create pipeline rejects from pipelines::passthrough;
  connect /connector/near/err to /pipeline/rejects;
  connect /pipeline/rejects to /connector/dead;
"""
    )
    flow = Apart(body, ["near", "far", "dead"], away=["dead"])
    flow.give(1)
    assert (flow.ids("near"), flow.ids("far")) == ([], [1])
    flow.sinks["dead"].start()
    flow.settle()
    near = flow.sinks["near"]
    near.node.reject(near.waiting.pop(), "no")
    flow.settle()
    flow.ack("far", "dead")
    assert len(flow.sinks["dead"].got) == 1
    assert flow.lanes() == {"near": 0, "far": 0}
    flow.close()


def test_an_operator_pauses_the_log_and_all_its_lanes() -> None:
    flow = Apart(FAN, ["near", "far"])
    pause(flow.nodes)
    flow.nodes.sink.restore()
    flow.give(1)
    assert (flow.ids("near"), flow.ids("far")) == ([], [])
    resume(flow.nodes)
    flow.settle()
    flow.ack("near", "far")
    assert (flow.ids("near"), flow.ids("far")) == ([1], [1])
    flow.close()


def test_the_oldest_events_are_dropped_for_the_lane_that_lacks_them() -> None:
    flow = Apart(
        FAN,
        ["near", "far"],
        away=["far"],
        config='"lanes": "apart", "chunk_size": 4096, "max_chunks": 4, "on_full": "drop_oldest"',
    )
    for number in range(60):
        flow.give(number, size=1000)
        flow.ack("near")
        flow.checkpoint()
    assert flow.ids("near") == list(range(60))
    dropped = flow.log.dropped_events
    assert dropped > 40
    counts = {lane: flow.gauges["wal_lane_dropped_events", lane]() for lane in ("near", "far")}
    assert counts == {"near": 0, "far": dropped}
    flow.sinks["far"].start()
    flow.settle()
    flow.ack("far")
    assert flow.ids("far") == list(range(dropped, 60))
    assert flow.lanes() == {"near": 0, "far": 0}
    flow.close()


def test_what_is_dropped_counts_for_each_lane_that_had_not_acked_it() -> None:
    flow = Apart(
        FAN + "connect /pipeline/after to /connector/odd;",
        ["near", "far", "odd"],
        away=["far"],
        config='"lanes": "apart", "chunk_size": 4096, "max_chunks": 4, "on_full": "drop_oldest"',
    )
    while not flow.log.dropped_events:
        flow.give(*range(4), size=200)
        flow.ack("near")
        odd = flow.sinks["odd"]
        if odd.waiting and not flow.ids("odd")[4:]:
            odd.ack()  # the first block, and none after it
        flow.checkpoint()
    counts = {lane: flow.gauges["wal_lane_dropped_events", lane]() for lane in ("near", "far", "odd")}
    dropped = flow.log.dropped_events
    assert counts == {"near": 0, "far": dropped, "odd": dropped - 4}
    flow.close()


def test_the_age_of_what_a_lane_lacks() -> None:
    """Of an event that came in an hour ago, and another of a minute ago, as a log upstream would send them."""
    flow = Apart(FAN, ["near", "far"])
    ages = {lane: flow.gauges["wal_lane_oldest_seconds", lane] for lane in ("near", "far")}
    assert (ages["near"](), ages["far"]()) == (0, 0)
    now = flow.clock.wall_ns()
    flow.give(1, ingest_ns=now - 3600 * 10**9)
    flow.give(2, ingest_ns=now - 60 * 10**9)
    flow.give(3, ingest_ns=now - 60 * 10**9 + 1)
    flow.sinks["near"].ack()
    assert ages["near"]() == 0
    assert ages["far"]() == 3600
    flow.scheduler.advance(5)
    assert ages["far"]() == 3605
    far = flow.sinks["far"]
    for _ in range(2):
        far.node.ack(far.waiting.pop(0))
        flow.settle()
        assert ages["far"]() == 65
    flow.ack("far")
    assert ages["far"]() == 0
    flow.close()


def test_the_age_is_known_to_the_second() -> None:
    flow = Apart(FAN, ["near", "far"])
    now = flow.clock.wall_ns()
    flow.give(1, ingest_ns=now - 9 * 10**9)
    flow.give(2, ingest_ns=now - 8 * 10**9)
    far = flow.sinks["far"]
    far.node.ack(far.waiting.pop(0))
    flow.settle()
    assert flow.gauges["wal_lane_oldest_seconds", "far"]() == 8
    flow.ack("near", "far")
    flow.close()


@pytest.mark.parametrize("turn", [-3600, 3600])
def test_the_age_follows_no_wall_clock_that_is_set(turn: int) -> None:
    flow = Apart(FAN, ["near", "far"])
    of_lane, of_log = flow.gauges["wal_lane_oldest_seconds", "far"], flow.gauges["wal_oldest_seconds", ""]
    flow.give(1, ingest_ns=flow.clock.wall_ns())
    flow.clock.turn(turn)
    flow.scheduler.advance(10)
    assert (of_lane(), of_log()) == (10, 10)
    flow.give(2, ingest_ns=flow.clock.wall_ns())
    for sink in flow.sinks.values():
        sink.node.ack(sink.waiting.pop(0))
    flow.scheduler.advance(5)
    assert (of_lane(), of_log()) == (5, 5)
    flow.ack("near", "far")
    flow.close()


def test_a_sink_that_is_away_knows_the_age_after_a_restart() -> None:
    flow = Apart(FAN, ["near", "far"], away=["far"])
    flow.give(1, ingest_ns=flow.clock.wall_ns() - 3600 * 10**9)
    flow.ack("near")
    flow.close()
    again = Apart(FAN, ["near", "far"], disk=flow.disk, away=["far"], wall_ns=flow.clock.wall_ns())
    assert again.gauges["wal_lane_oldest_seconds", "near"]() == 0
    assert again.gauges["wal_lane_oldest_seconds", "far"]() == 3600
    again.close()


def test_the_age_of_what_an_earlier_process_left_with_a_stamp_that_is_ahead() -> None:
    """How long the log was closed, nobody knows;
    what the stamps say of each other is true, and so is the time since."""
    flow = Apart(FAN, ["near", "far"], away=["far"])
    flow.give(1, ingest_ns=flow.clock.wall_ns())
    flow.scheduler.advance(60)
    flow.give(2, ingest_ns=flow.clock.wall_ns())
    flow.ack("near")
    flow.close()
    again = Apart(FAN, ["near", "far"], disk=flow.disk, away=["far"], wall_ns=flow.clock.wall_ns() - 3600 * 10**9)
    again.scheduler.advance(7)
    assert again.gauges["wal_lane_oldest_seconds", "far"]() == 67
    assert again.gauges["wal_oldest_seconds", ""]() == 67
    assert again.gauges["wal_clock_lead_seconds", ""]() == 3600
    again.close()
