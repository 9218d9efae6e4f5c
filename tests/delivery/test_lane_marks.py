"""What lanes have acked, over restarts: with other links, after damage, after an operator's skip."""

import pytest

from tests.delivery.apart import Apart
from tests.delivery.test_lanes import BY_WHERE, FAN, pipeline
from walflow.testing import MemoryDisk
from walflow.testing.disk import Kept
from walflow.wal import Log, LogOptions
from walflow.wal.tools.skip import skip

SINKS = ["near", "far"]
JOINED = (
    pipeline(
        """
    define operator o from qos::dedupe with key = "id" end; create operator o;
    select event from in into o; select event from o into out; select event from o into other;
"""
    )
    + BY_WHERE
)


def ahead(disk: MemoryDisk, count: int = 20) -> None:
    """`near` has all events, `far` has none; both are known on disk."""
    flow = Apart(FAN, SINKS, disk=disk, away=["far"])
    for number in range(count):
        flow.give(number)
    flow.ack("near")
    flow.checkpoint()
    flow.close()


@pytest.fixture(autouse=True)
def _keys_in_a_directory_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("keys"))


ODD = "connect /pipeline/else to /connector/odd;"
THREE = FAN + "create pipeline else from pipelines::passthrough; connect /connector/log to /pipeline/else;" + ODD
TWO_JOINED = (
    JOINED + "create pipeline else from pipelines::passthrough; connect /connector/log to /pipeline/else;" + ODD
)


def test_lanes_that_other_links_merge_begin_at_what_both_have_and_lose_nothing() -> None:
    """`near` has 20 events, `far` 8, `odd` none."""
    disk = MemoryDisk()
    flow = Apart(THREE, [*SINKS, "odd"], disk=disk, away=["odd"])
    for number in range(20):
        flow.give(number)
    flow.ack("near")
    for _ in range(8):
        flow.sinks["far"].node.ack(flow.sinks["far"].waiting.pop(0))
    flow.checkpoint()
    flow.close()
    merged = Apart(TWO_JOINED, [*SINKS, "odd"], disk=disk, away=["odd"])
    assert merged.lanes() == {"near+far": 12, "odd": 20}
    merged.checkpoint()
    merged.close()
    parted = Apart(THREE, [*SINKS, "odd"], disk=disk)
    parted.ack("near", "far", "odd")
    assert (parted.ids("near"), parted.ids("far")) == ([], list(range(8, 20)))
    assert parted.ids("odd") == list(range(20))
    parted.close()
    again = Apart(TWO_JOINED, [*SINKS, "odd"], disk=disk)
    assert again.lanes() == {"near+far": 0, "odd": 0}
    again.close()


def test_lanes_that_other_links_part_go_on_from_what_both_had() -> None:
    disk = MemoryDisk()
    flow = Apart(JOINED, SINKS, disk=disk)
    flow.give(1, 2)
    flow.ack("near", "far")
    flow.give(3, 4)
    flow.ack("near")
    flow.checkpoint()
    flow.close()
    parted = Apart(FAN, SINKS, disk=disk)
    assert list(parted.outlet.lanes) == SINKS
    parted.ack("near", "far")
    assert parted.ids("far") == parted.ids("near") == [3, 4]
    parted.close()
    again = Apart(FAN, SINKS, disk=disk)
    assert (again.ids("near"), again.ids("far")) == ([], [])
    again.close()


def test_a_sink_that_comes_back_to_the_flow_misses_nothing() -> None:
    disk = MemoryDisk()
    ahead(disk)
    three = FAN + "connect /pipeline/after to /connector/odd;"
    with_odd = Apart(three, [*SINKS, "odd"], disk=disk, away=["odd"])
    with_odd.ack("far")
    with_odd.give(20)
    with_odd.ack("near", "far")
    with_odd.close()
    back = Apart(three, [*SINKS, "odd"], disk=disk)
    back.ack("near", "far", "odd")
    assert (back.ids("near"), back.ids("far"), back.ids("odd")) == ([], [], list(range(21)))
    back.close()


def spoiled(disk: MemoryDisk, number: int) -> MemoryDisk:
    """A bit of that event is another one."""

    def change(path: str, kept: Kept) -> Kept:
        wanted = b'{"id":%d,' % number
        if not path.endswith(".wal") or kept.data is None:
            return kept
        return kept._replace(data=kept.data.replace(wanted, b'{"iD":%d,' % number))

    return MemoryDisk({path: change(path, kept) for path, kept in disk.snapshot().items()})


def test_damage_that_every_lane_comes_to_is_told_once() -> None:
    disk = MemoryDisk()
    flow = Apart(FAN, SINKS, disk=disk, away=SINKS)
    for number in range(20):
        flow.give(number)
    flow.close()
    hurt = Apart(FAN, SINKS, disk=spoiled(disk, 7))
    hurt.ack("near", "far")
    left = [number for number in range(20) if number != 7]
    assert (hurt.ids("near"), hurt.ids("far")) == (left, left)
    assert hurt.world.count("quarantined_events_total") == 1
    assert len(hurt.log.gaps) == 1
    assert hurt.lanes() == {"near": 0, "far": 0}
    hurt.close()


def test_damage_that_one_lane_has_passed_is_found_by_the_other() -> None:
    disk = MemoryDisk()
    ahead(disk)
    hurt = Apart(FAN, SINKS, disk=spoiled(disk, 7))
    hurt.ack("near", "far")
    assert (hurt.ids("near"), hurt.ids("far")) == ([], [number for number in range(20) if number != 7])
    assert hurt.world.count("quarantined_events_total") == 1
    assert hurt.lanes() == {"near": 0, "far": 0}
    hurt.close()


def test_what_an_operator_skips_is_skipped_for_the_lane_that_lacks_it() -> None:
    disk = MemoryDisk()
    ahead(disk)
    log = Log(LogOptions("/log", 65536, 8), disk)
    assert len(skip(log, 5, 9, "anna")) == 5
    log.close()
    flow = Apart(FAN, SINKS, disk=disk)
    assert flow.lanes() == {"near": 0, "far": 15}
    flow.ack("near", "far")
    assert (flow.ids("near"), flow.ids("far")) == ([], [*range(4), *range(9, 20)])
    flow.close()


def test_at_a_drain_the_open_lane_is_emptied_and_the_shut_one_keeps_its_events() -> None:
    """The daemon waits for what was sent; the rest stays in the log, and comes after the next start."""
    disk = MemoryDisk()
    flow = Apart(FAN, SINKS, disk=disk, away=["far"])
    flow.give(1, 2, 3)
    assert not flow.outlet.quiet
    flow.ack("near")
    assert flow.outlet.quiet, "nothing is in flight: the shut lane holds up no drain"
    assert flow.outlet.waiting() == 3
    flow.close()
    again = Apart(FAN, SINKS, disk=disk)
    again.ack("near", "far")
    assert (again.ids("near"), again.ids("far")) == ([], [1, 2, 3])
    again.close()
