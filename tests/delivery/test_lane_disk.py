"""A disk that is slow, or fails now and then, while one lane is far behind and reads from it."""

import errno
from collections.abc import Callable
from itertools import count

import pytest
from structlog.testing import capture_logs

from tests.delivery.apart import Apart
from tests.delivery.test_lanes import FAN
from walflow.delivery.ahead import SLOW_READ
from walflow.testing import Fatal, MemoryDisk
from walflow.wal.chunk import PAGE

SINKS = ["near", "far"]
SMALL = '"lanes": "apart", "chunk_size": 65536, "max_chunks": 96'
BEHIND = 60
SIZE = 40_000  # more than twice of what a lane reads at a time
NEW = range(BEHIND, BEHIND + 20)


def behind(disk: MemoryDisk) -> Apart:
    """`far` lacks events that no cache has, in many files, and is away; `near` has them."""
    before = Apart(FAN, SINKS, disk=disk, config=SMALL, away=["far"])
    for number in range(BEHIND):
        before.give(number, size=SIZE)
        before.ack("near")
    before.checkpoint()
    before.close()
    flow = Apart(FAN, SINKS, disk=disk, config=SMALL, away=["far"])
    assert flow.lanes() == {"near": 0, "far": BEHIND}
    return flow


def counted(flow: Apart, wanted: str) -> int:
    return sum(value for name, _, value in flow.world.metrics if name == wanted)


def fails(operation: str, number: int, when: Callable[[int], bool]) -> Callable[[str, str], int | None]:
    """Those of such calls, of a file of events, whose number `when` chooses."""
    calls = count(1)

    def fault(called: str, path: str) -> int | None:
        return number if called == operation and path.endswith(".wal") and when(next(calls)) else None

    return fault


def test_a_file_that_cannot_be_opened_now_and_then_stops_the_lane_alone_that_reads_it() -> None:
    flow = behind(MemoryDisk())
    flow.disk.fault = fails("open", errno.EMFILE, lambda call: True)
    flow.sinks["far"].start()
    flow.settle()
    for number in NEW:
        flow.give(number, size=SIZE)
        flow.ack("near", "far")
        assert flow.ids("near")[-1] == number, "at once"
    assert flow.ids("far") == list(range(len(flow.ids("far")))), "what it had read before"
    lacks = BEHIND + len(NEW) - len(flow.ids("far"))
    assert flow.gauges["wal_lane_backlog_events", "far"]() == lacks > BEHIND // 2, "status names it"
    assert flow.gauges["wal_lane_backlog_events", "near"]() == 0
    flow.disk.fault = fails("open", errno.EMFILE, lambda call: call % 7 == 0)
    for _ in range(40):
        flow.scheduler.advance(1.0)
        flow.ack("far")
    assert flow.ids("far") == [*range(BEHIND), *NEW]
    assert flow.log.gaps == []
    flow.close()


@pytest.mark.parametrize("seconds", [SLOW_READ, 90.0])
def test_a_read_that_takes_long_holds_up_its_own_lane_alone(seconds: float) -> None:
    flow = behind(MemoryDisk())
    flow.disk.cold = flow.scheduler.slow = True
    flow.sinks["far"].start()
    flow.settle()
    for number in NEW:
        flow.give(number, size=SIZE)
        flow.ack("near", "far")
        assert flow.ids("near")[-1] == number, "at once"
    had = len(flow.ids("far"))  # what it had read before
    assert flow.ids("far") == list(range(had))
    assert flow.lanes() == {"near": 0, "far": BEHIND + len(NEW) - had}, "status names it"
    assert len(flow.scheduler.fetches) == 1
    flow.scheduler.advance(seconds)
    file, said = flow.outlet.lanes["far"].waits_for().removeprefix("a read of ").split(", ")
    assert (file.endswith(".wal"), said, flow.outlet.lanes["near"].waits_for()) == (True, f"for {seconds:.0f} s", "")
    reads = 0
    with capture_logs() as lines:
        while flow.scheduler.fetches:
            reads += 1
            flow.scheduler.work_reads()
            flow.settle()
            flow.ack("far")
    assert flow.ids("far") == [*range(BEHIND), *NEW]
    assert reads > 1, "one after the other"
    slow = [line for line in lines if line["event"] == "slow read"]
    assert [(line["seconds"], line["position"]) for line in slow] == [(seconds, had + 1)], (
        "and the others took no time"
    )
    flow.close()


def test_a_read_that_ends_after_the_lane_has_stopped_reads_no_more() -> None:
    flow = behind(MemoryDisk())
    flow.disk.cold = flow.scheduler.slow = True
    flow.sinks["far"].start()
    flow.settle()
    flow.ack("far")
    had = flow.ids("far")
    assert len(flow.scheduler.fetches) == 1
    flow.running.stop()
    flow.scheduler.work_reads()
    flow.settle()
    assert (flow.ids("far"), len(flow.scheduler.fetches)) == (had, 0)
    flow.close()


def test_a_read_that_fails_now_and_then_is_tried_again_page_by_page_and_nothing_is_lost() -> None:
    flow = behind(MemoryDisk())
    flow.disk.fault = fails("read", errno.EIO, lambda call: call % 40 == 0)  # not so often that the page fails, too
    flow.sinks["far"].start()
    flow.settle()
    for number in NEW:
        flow.give(number, size=SIZE)
        flow.ack("near", "far")
    assert flow.ids("near") == list(NEW)
    assert flow.ids("far") == [*range(BEHIND), *NEW]
    assert flow.log.gaps == []
    flow.close()


@pytest.mark.parametrize("cold", [False, True])
def test_a_second_in_which_nothing_can_be_read_stops_the_lane_alone_that_reads_and_loses_nothing(cold: bool) -> None:
    flow = behind(MemoryDisk())
    flow.disk.cold = cold
    flow.disk.fault = fails("read", errno.EIO, lambda call: True)
    with capture_logs() as lines:
        flow.sinks["far"].start()
        flow.settle()
        for number in NEW:
            flow.give(number, size=SIZE)
            flow.ack("near", "far")
            assert flow.ids("near")[-1] == number, "at once"
    had = flow.ids("far")
    assert had == list(range(len(had))), "what a cache had"
    assert flow.log.gaps == []
    assert (flow.gauges["wal_cannot_read", ""](), counted(flow, "wal_read_failures_total")) == (1, 1)
    (said,) = [line for line in lines if line["event"] == "log not read"]
    chunk = next(chunk for chunk in flow.log.chunks if chunk.last > len(had))
    assert chunk.name in said["reason"]
    assert "at byte" in said["reason"]
    assert said["reason"].endswith("walflow wal repair /log")
    flow.disk.fault = None
    flow.scheduler.advance(1.0)
    flow.settle()
    for _ in NEW:
        flow.ack("far")
    assert flow.ids("far") == [*range(BEHIND), *NEW]
    assert flow.gauges["wal_cannot_read", ""]() == 0
    flow.close()


def test_a_page_that_stays_bad_is_asked_for_less_and_less_often_and_what_comes_before_it_is_delivered() -> None:
    flow = behind(MemoryDisk())
    flow.disk.cold = True
    chunk = flow.log.chunks[BEHIND // 2]
    path = flow.log.directory.file(chunk.name)
    flow.disk.bad_from = {path: PAGE}
    flow.sinks["far"].start()
    flow.settle()
    for _ in range(BEHIND):
        flow.ack("far")
    assert flow.ids("far") == list(range(chunk.first - 1))
    reads = 0

    def count_reads(operation: str, read: str) -> None:
        nonlocal reads
        reads += operation == "read" and read == path

    flow.disk.fault = count_reads
    for _ in range(120):
        flow.scheduler.advance(1.0)
        flow.settle()
    assert 0 < reads < 120, "a few pages each time, and on the thread for reads alone"
    assert flow.log.gaps == []
    flow.disk.bad_from = {}
    for _ in range(30):
        flow.scheduler.advance(1.0)
        flow.ack("far")
    assert flow.ids("far") == list(range(BEHIND))
    flow.close()


def test_while_a_sync_takes_its_time_a_lane_catches_up_with_what_is_durable() -> None:
    flow = behind(MemoryDisk())
    flow.scheduler.hanging = True
    receipts = [flow.give(number, size=SIZE) for number in NEW]
    assert len(flow.scheduler.urgent) == 1
    assert flow.lanes()["far"] == BEHIND
    flow.sinks["far"].start()
    flow.settle()
    flow.ack("far")
    assert flow.ids("far") == list(range(BEHIND))
    assert flow.ids("near") == [], "what is not synced is sent to no lane"
    assert all(receipt.pending for receipt in receipts), "nor acked"
    while flow.scheduler.urgent:
        flow.scheduler.work_urgent()
        flow.settle()
        flow.ack("near", "far")
    flow.scheduler.hanging = False
    assert flow.ids("near") == list(NEW)
    assert flow.ids("far") == [*range(BEHIND), *NEW]
    assert not any(receipt.pending for receipt in receipts)
    flow.close()


@pytest.mark.parametrize("synced", ["cursor", "marks", ".wal"])
def test_after_a_sync_that_fails_no_lane_lacks_an_event_and_none_gets_again_what_a_checkpoint_has(
    synced: str,
) -> None:
    flow = behind(MemoryDisk())
    flow.sinks["far"].start()
    flow.settle()
    sinks = flow.sinks["far"]
    for _ in range(BEHIND // 2):
        sinks.node.ack(sinks.waiting.pop(0))
    flow.checkpoint()
    flow.disk.fault = lambda operation, path: errno.EIO if operation == "sync" and path.endswith(synced) else None

    def work() -> None:
        for number in NEW:
            flow.give(number, size=SIZE)
            flow.ack("near", "far")
            flow.checkpoint()

    with pytest.raises(Fatal):
        work()
    first = {name: flow.ids(name) for name in SINKS}
    flow.disk.fault = None
    flow.crash()
    again = Apart(FAN, SINKS, disk=flow.disk, config=SMALL)
    again.ack(*SINKS)
    assert {*first["near"], *again.ids("near")} >= set(range(NEW[0], again.log.durable))
    assert {*first["far"], *again.ids("far")} == set(range(again.log.durable))
    assert set(again.ids("near")).isdisjoint(range(BEHIND))
    assert set(again.ids("far")).isdisjoint(range(BEHIND // 2))
    again.close()
