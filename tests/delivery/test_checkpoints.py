"""When the cursor is written: soon after an ack, soon after a commit that no sink acks, and never for nothing."""

import pytest

from connectors.wal import Wal
from tests.delivery.whole import Whole
from walflow.delivery.checkpoints import INTERVAL, LEAST, SHARE
from walflow.testing import SimulatedDisk
from walflow.testing.disk import Kept
from walflow.wal.format import SLOT, unpack_slot


class Counted(SimulatedDisk):
    """How often the cursor was synced."""

    def __init__(self) -> None:
        self.cursors = 0
        super().__init__({"/log": Kept(None, 1)})

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.cursors += self._fds[fd][0].endswith("/cursor")

    def said(self) -> tuple[int, int]:
        """By the cursor, if the power were cut now: acked up to, and durable or written up to."""
        data = self.durable["/log/cursor"].synced
        slots = [found[1] for at in (0, SLOT) if (found := unpack_slot(data[at : at + SLOT])) is not None]
        newest = max(slots)
        return newest.low, max(newest.durable, newest.written)


def begun(disk: Counted, **more: object) -> Whole:
    config = {"path": "/log", "chunk_size": 4096, "max_chunks": 8, **more}
    return Whole(Wal(**config), disk)  # type: ignore[arg-type]


@pytest.mark.parametrize("sync", ["always", "interval", "never"])
def test_within_a_second_of_the_last_commit_though_no_sink_acks(sync: str) -> None:
    whole = begun(disk := Counted(), sync=sync)
    for number in range(1, 40):
        whole.give(b"%d" % number)
        whole.scheduler.advance(0.03 * (number % 11))
    whole.scheduler.advance(1.0)
    assert disk.said() == (0, 39)
    whole.close()


def test_no_more_than_twice_a_second_while_commits_go_on_and_never_while_none_does() -> None:
    whole = begun(disk := Counted(), chunk_size=1 << 20)
    before = disk.cursors
    for number in range(1000):
        whole.give(b"%d" % number)
        whole.scheduler.advance(0.01)
    assert 10 <= disk.cursors - before <= 20, "in ten seconds"
    whole.scheduler.advance(1.0)
    before = disk.cursors
    whole.scheduler.advance(3600)
    assert disk.cursors == before
    assert whole.scheduler.timers == []
    whole.close()


def test_an_ack_does_not_wait_as_long_as_a_commit() -> None:
    whole = begun(disk := Counted())
    whole.give(b"1")
    whole.scheduler.advance(0.3)
    whole.ack_all()
    whole.scheduler.advance(0.1)
    assert disk.said() == (1, 1)
    whole.close()


def acked(whole: Whole, event: bytes, seconds: float) -> None:
    whole.give(event)
    whole.ack_all()
    whole.scheduler.advance(seconds)


def test_on_a_quick_disk_a_later_ack_is_written_sooner() -> None:
    """A crash repeats what was acked since."""
    whole = begun(disk := Counted())
    acked(whole, b"1", 0.1)
    acked(whole, b"2", LEAST)
    assert disk.said() == (2, 2)
    whole.close()


@pytest.mark.parametrize("seconds", [0.001, 0.0015, 1.0])
def test_on_a_slow_disk_writes_take_a_fiftieth_of_the_time_and_an_ack_waits_no_longer_than_the_first(
    seconds: float,
) -> None:
    whole = begun(disk := Counted())
    whole.scheduler.holding = True
    acked(whole, b"1", 0.1)
    assert whole.scheduler.in_air == 1
    whole.scheduler.advance(seconds)
    whole.scheduler.holding = False
    wait = min(INTERVAL, SHARE * seconds)
    acked(whole, b"2", wait - 0.005)
    assert disk.said()[0] == 1
    whole.scheduler.advance(0.01)
    assert disk.said() == (2, 2)
    whole.close()


@pytest.mark.parametrize("sync", ["interval", "never"])
def test_where_commits_are_not_synced_the_cursor_is_not_synced_more_often(sync: str) -> None:
    whole = begun(disk := Counted(), sync=sync)
    acked(whole, b"1", 0.1)
    acked(whole, b"2", 0.09)
    assert disk.said()[0] == 1
    whole.scheduler.advance(0.02)
    assert disk.said()[0] == 2
    whole.close()


def test_what_happens_while_it_is_written_is_written_next() -> None:
    whole = begun(disk := Counted())
    whole.give(b"1")
    whole.scheduler.holding = True
    whole.scheduler.advance(0.5)
    assert whole.scheduler.in_air == 1
    whole.give(b"2")
    whole.ack_all()
    whole.scheduler.holding = False
    whole.scheduler.advance(0.1)
    assert disk.said() == (2, 2)
    whole.close()


def test_nothing_is_written_or_planned_after_the_stop() -> None:
    whole = begun(disk := Counted())
    whole.give(b"1")
    before = disk.cursors
    whole.running.stop()
    whole.scheduler.advance(10)
    assert disk.cursors == before
    assert whole.scheduler.timers == []
    whole.close()
