"""`sync = "interval"` and `"never"`: an event is acked once it is written, and what the disk hears of it later."""

import errno

import pytest

from connectors.wal import Wal
from tests.delivery.whole import Whole
from walflow.testing import Fatal, SimulatedDisk
from walflow.testing.disk import Kept


class Watched(SimulatedDisk):
    """Keeps what was synced: names of files."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        super().__init__({"/log": Kept(None, 1)})

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.synced.append(self._fds[fd][0].rsplit("/", 1)[1])

    @property
    def chunks_synced(self) -> int:
        return sum(name.endswith(".wal") for name in self.synced)

    @property
    def unsynced(self) -> list[str]:
        return [path for path, inode in self.inodes.items() if path.endswith(".wal") and inode.written]


def config(**more: object) -> Wal:
    return Wal(path="/log", chunk_size=4096, max_chunks=8, **more)  # type: ignore[arg-type]


def test_with_always_an_ack_means_synced() -> None:
    whole = Whole(config(), disk := Watched())
    whole.give(b"1")
    assert whole.inlet.acked == [b"1\n"]
    assert disk.unsynced == []
    assert whole.gauge("wal_unsynced_events") == 0
    whole.close()


def test_with_interval_an_ack_means_written_and_the_sync_follows_on_the_thread() -> None:
    whole = Whole(config(sync="interval", sync_interval=500_000_000), disk := Watched())
    whole.scheduler.advance(10)
    whole.scheduler.holding = True
    whole.give(b"1", b"2")
    assert whole.inlet.acked == [b"1\n2\n"]
    assert [block.frames.data for block in whole.sent] == [b"1\n2\n"]
    whole.scheduler.advance(0.4)
    assert disk.chunks_synced == 0
    assert (whole.gauge("wal_unsynced_events"), whole.gauge("wal_unsynced_seconds")) == (2, pytest.approx(0.4))
    whole.scheduler.advance(0.1)
    assert disk.chunks_synced == 0
    assert whole.scheduler.in_air == 2, "it and the cursor, never on the loop"
    whole.give(b"3")
    whole.scheduler.holding = False
    whole.scheduler.run()
    assert disk.chunks_synced == 1
    assert whole.gauge("wal_unsynced_events") == 1, "what came while it was synced waits for the next one"
    whole.scheduler.advance(0.49)
    assert disk.chunks_synced == 1
    whole.scheduler.advance(0.01)
    assert disk.unsynced == []
    assert (whole.gauge("wal_unsynced_events"), whole.gauge("wal_unsynced_seconds")) == (0, 0)
    assert sum(whole.inlet.histograms["wal_sync_seconds"].counts) == 2, "however long they took"
    syncs = disk.chunks_synced
    whole.scheduler.advance(10)
    assert disk.chunks_synced == syncs, "nothing is synced that was not written"
    whole.ack_all()
    whole.close()


def test_with_never_nothing_is_synced_until_the_log_is_closed() -> None:
    whole = Whole(config(sync="never"), disk := Watched())
    for number in range(100):
        whole.give(b"%d" % number * 20)
        whole.scheduler.advance(1)
    assert len(whole.inlet.acked) == 100
    assert disk.chunks_synced == 0
    assert whole.gauge("wal_unsynced_events") == 100
    assert whole.gauge("wal_unsynced_seconds") == 100
    whole.close()
    assert disk.unsynced == []
    again = Whole(config(), disk)
    assert again.log.recovery.lines() == [], "closed is closed, in whatever mode it was"
    assert sum(block.frames.count for block in again.sent) == 100
    again.ack_all()
    again.close()


@pytest.mark.parametrize("sync", ["interval", "never"])
def test_acked_files_go_after_the_cursor_is_synced_as_ever(sync: str) -> None:
    whole = Whole(config(sync=sync), disk := Watched())
    for number in range(200):
        whole.give(b"%03d" % number * 100)
        whole.ack_all()
        whole.scheduler.advance(0.2)
    assert whole.log.low == 200
    assert len([path for path in disk.inodes if path.endswith(".wal")]) <= 2
    assert disk.synced.count("cursor") > 100
    whole.close()


def test_a_sync_that_fails_ends_the_process_and_one_that_cannot_begin_comes_again() -> None:
    whole = Whole(config(sync="interval"), disk := Watched())
    whole.give(b"1")
    disk.fault = lambda operation, path: errno.EMFILE if operation == "sync_directory" else None
    whole.scheduler.advance(1)
    assert "log not synced" in whole.inlet.lines
    assert whole.gauge("wal_unsynced_events") == 1
    disk.fault = None
    whole.scheduler.advance(1)
    assert whole.gauge("wal_unsynced_events") == 0
    whole.give(b"2")
    disk.fault = lambda operation, path: errno.EIO if operation == "sync" else None
    with pytest.raises(Fatal, match="sync failed"):
        whole.scheduler.advance(1)
    whole.crash()


@pytest.mark.parametrize("sync", ["interval", "never"])
def test_a_killed_process_loses_nothing_and_gives_no_position_out_twice(sync: str) -> None:
    whole = Whole(config(sync=sync), disk := Watched())
    for number in range(50):
        whole.give(b"%d" % number * 30)
    positions = {block.origin.first for block in whole.sent if block.origin}
    whole.crash()
    again = Whole(config(sync=sync), disk)
    assert [block.frames.data for block in again.sent] == [b"%d" % number * 30 + b"\n" for number in range(50)]
    assert again.outlet.counters["quarantined_events_total"].value == 0
    (line,) = again.log.recovery.lines()
    assert f'sync was "{sync}"' in line
    assert "if only walflow died, none is" in line
    again.give(b"new")
    (fresh,) = [block.origin.first for block in again.sent if block.origin and block.origin.first not in positions]
    assert fresh > 1 << 30
    again.ack_all()
    again.scheduler.advance(2)
    assert again.log.low == again.log.durable == fresh
    assert again.gauge("wal_backlog_events") == 0
    again.close()


def test_a_log_of_many_small_chunks_is_not_ahead_of_its_disk_by_many_files() -> None:
    """Full chunks wait for their sync with an open file each."""
    whole = Whole(Wal(path="/log", chunk_size=1024, max_chunks=1000, sync="interval"), disk := Watched())
    for number in range(200):
        whole.give(b"%d" % number * 300)
        assert len(disk._fds) < 40
    assert disk.chunks_synced > 0
    assert len(whole.inlet.acked) == 200
    whole.ack_all()
    whole.close()
