"""What is acked goes by age though nothing happens, and at once on a full disk."""

from walflow.delivery import Checkpoints, Retention
from walflow.testing import MemoryDisk, MemoryInlet, VirtualClock, VirtualScheduler
from walflow.wal import Log, LogOptions

SECOND = 10**9
HOUR = 3600.0


def kept(scheduler: VirtualScheduler, retain: float | None, events: int = 12) -> tuple[Log, Retention, MemoryInlet]:
    """A log whose events are all acked."""
    ns = None if retain is None else round(retain * SECOND)
    options = LogOptions("/log", 4096, 16, retain_bytes=1 << 20, retain_ns=ns)
    clock = VirtualClock(scheduler)
    log = Log(options, MemoryDisk(), clock)
    inlet = MemoryInlet(scheduler)
    for _ in range(events):
        log.append(b"", b"x" * 1000, 1, clock.wall_ns())
    while (commit := log.commit()) is not None:
        commit.flush()
        log.committed(commit)
    log.ack(1, log.durable)
    checkpoints = Checkpoints(log, scheduler, inlet, lambda: None)
    checkpoints.acked()
    retention = Retention(log, inlet, checkpoints, ns)
    _settle(scheduler, 1.0)
    return log, retention, inlet


def _settle(scheduler: VirtualScheduler, seconds: float) -> None:
    for _ in range(5):
        scheduler.advance(seconds / 5)


def test_it_is_measured() -> None:
    scheduler = VirtualScheduler()
    log, retention, inlet = kept(scheduler, HOUR)
    _settle(scheduler, 9.0)
    assert inlet.gauges["wal_history_bytes"]() == log.history.bytes > 9000
    assert 9 < inlet.gauges["wal_history_seconds"]() < 11
    retention.stop()
    log.close()


def test_it_goes_by_age_though_nothing_happens() -> None:
    scheduler = VirtualScheduler()
    log, retention, inlet = kept(scheduler, HOUR)
    _settle(scheduler, HOUR - 100)
    assert log.chunks[0].first == 1
    _settle(scheduler, 300)
    assert log.chunks == []
    assert inlet.gauges["wal_history_seconds"]() == 0
    retention.stop()
    log.close()


def test_an_event_of_a_slow_log_goes_by_its_own_age() -> None:
    """An event a minute never fills a file: the first one would have stayed for as long as any came."""
    scheduler = VirtualScheduler()
    log, retention, _ = kept(scheduler, HOUR, events=1)
    for _ in range(66):
        log.append(b"", b"x", 1, log.time.now_ns())
        commit = log.commit()
        assert commit is not None
        commit.flush()
        log.committed(commit)
        log.ack(1, log.durable)
        _settle(scheduler, 60.0)
    assert log.chunks[0].first == 1
    _settle(scheduler, 300.0)
    assert log.chunks[0].first > 1, "gone an eighth of `retain` later, and a minute"
    assert log.chunks[-1].last == 67
    retention.stop()
    log.close()


def test_a_full_disk_takes_a_file_each_time_and_says_which() -> None:
    scheduler = VirtualScheduler()
    log, retention, inlet = kept(scheduler, None)
    count = log.history.count
    retention.disk_is_full("No space left on device")
    _settle(scheduler, 1.0)
    assert log.history.count == count - 1
    assert inlet.counters["wal_history_given_up_total"].value == 1
    said = next(line for line in inlet.logged if line["event"] == "history given up")
    assert (said["first"], said["last"]) == (1, 3)
    for _ in range(10):
        retention.disk_is_full("No space left on device")
        _settle(scheduler, 1.0)
    assert inlet.counters["wal_history_given_up_total"].value == count
    log.close()
