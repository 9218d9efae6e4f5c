"""`on_full = "drop_oldest"`: sources are not stopped by the budget; what goes is counted, on disk too, and is not
sent again."""

import errno

import pytest

from connectors.wal import Wal
from tests.delivery.whole import LOST, Whole
from walflow.testing import MemoryDisk, SimulatedDisk
from walflow.testing.disk import Kept


def config(**more: object) -> Wal:
    keys: dict[str, object] = {"path": "/log", "chunk_size": 4096, "max_chunks": 8, "on_full": "drop_oldest", **more}
    return Wal(**keys)  # type: ignore[arg-type]


def event(number: int, size: int = 200) -> bytes:
    return b"%05d" % number + b"." * (size - 5)


def on_disk(disk: MemoryDisk) -> int:
    return sum(size for path, size in disk.sizes().items() if path.endswith(".wal"))


@pytest.mark.parametrize("sync", ["always", "interval", "never"])
def test_the_oldest_file_goes_and_sources_go_on(sync: str) -> None:
    whole = Whole(config(sync=sync), disk := MemoryDisk())
    for number in range(500):
        whole.give(event(number))
        assert on_disk(disk) <= 4096 * 8
        assert whole.inlet.breaker is None
    whole.scheduler.advance(2)
    assert len(whole.inlet.acked) == 500
    gone = whole.count("wal_dropped_events_total")
    assert 0 < gone < 500
    assert whole.log.low == gone
    assert whole.gauge("wal_backlog_events") == 500 - gone
    lines = [entry for entry in whole.inlet.logged if entry["event"] == "dropped"]
    assert sum(entry["events"] for entry in lines) == gone
    assert [entry["first"] for entry in lines] == [1, *[entry["last"] + 1 for entry in lines[:-1]]]
    assert whole.count("wal_dropped_bytes_total") == sum(entry["bytes"] for entry in lines) > gone * 200
    whole.crash()
    again = Whole(config(), disk)
    assert again.log.gaps == [], "what was dropped is not lost"
    assert [block.frames.data[:5] for block in again.sent] == [b"%05d" % number for number in range(gone, 500)]
    assert again.gauge("wal_dropped_events") == gone, "a restart does not forget it"
    assert again.gauge("wal_dropped_bytes") == sum(entry["bytes"] for entry in lines)
    assert again.count("wal_dropped_events_total") == 0
    again.ack_all()
    again.close()


def test_what_was_acked_is_not_called_dropped() -> None:
    whole = Whole(config(), MemoryDisk())
    for number in range(30):
        whole.give(event(number))
    for block in whole.sent[:29:2]:
        block.receipt.ack()
    for number in range(30, 300):
        whole.give(event(number))
    whole.scheduler.advance(1)
    assert whole.count("wal_acked_events_total") == 15
    assert whole.count("wal_dropped_events_total") == whole.log.low - 15
    whole.ack_all()
    whole.close()


def test_files_that_are_acked_are_not_dropped_but_deleted() -> None:
    whole = Whole(config(), MemoryDisk())
    for number in range(1000):
        whole.give(event(number))
        whole.ack_all()
    assert len(whole.inlet.acked) == 1000
    assert whole.count("wal_dropped_events_total") == 0
    whole.close()


def test_what_a_sink_says_of_a_dropped_event_is_heard_by_nobody() -> None:
    whole = Whole(config(), MemoryDisk())
    for number in range(12):
        whole.give(event(number))
    first, second, third = whole.sent[:3]
    third.receipt.fail(LOST)  # waits for its redelivery when it is dropped
    assert whole.count("wal_failed_events_total") == 1
    for number in range(12, 300):
        whole.give(event(number))
    assert whole.log.low > 12
    first.receipt.ack("f::sink")
    second.receipt.fail(LOST)
    sent = len(whole.sent)
    whole.scheduler.advance(60)
    assert whole.count("wal_acked_events_total") == 0
    assert whole.count("wal_failed_events_total") == 1
    assert not {b"00000", b"00001", b"00002"} & {block.frames.data[:5] for block in whole.sent[sent:]}
    del whole.sent[:3]
    newest = whole.sent[-1].frames.data
    assert newest[:5] == b"%05d" % 299, "nothing waits behind what was dropped"
    whole.ack_all()
    whole.close()


def test_the_last_event_that_was_dropped_is_not_sent_again_either() -> None:
    whole = Whole(config(), MemoryDisk())
    number = 0
    while not whole.log.low:
        whole.give(event(number))
        number += 1
    last = whole.sent.pop(whole.log.low - 1)
    assert last.frames.data[:5] == b"%05d" % (whole.log.low - 1)
    last.receipt.fail(LOST)
    assert whole.count("wal_failed_events_total") == 0
    assert "redelivery" not in whole.outlet.lines
    whole.ack_all()
    whole.close()


def test_what_was_read_and_not_sent_goes_too() -> None:
    """A breaker downstream is open: blocks stand ready in the reader when their file is dropped."""
    whole = Whole(config(), MemoryDisk())
    whole.outlet.pause()
    for number in range(400):
        whole.give(event(number))
    gone = whole.count("wal_dropped_events_total")
    assert gone > 0
    whole.outlet.resume()
    whole.scheduler.run()
    assert [block.frames.data[:5] for block in whole.sent] == [b"%05d" % number for number in range(gone, 400)]
    whole.ack_all()
    whole.close()


def test_a_note_on_disk_comes_before_the_unlink() -> None:
    disk = SimulatedDisk({"/log": Kept(None, 1)})
    done: list[str] = []

    def before(operation: str, path: str) -> None:
        if "cursor" in path or operation == "unlink":
            done.append(f"{operation} {path.rsplit('/', 1)[1]}")

    disk.fault = before
    whole = Whole(config(), disk)
    number = 0
    while not any(one.startswith("unlink 0") for one in done):
        done.clear()
        whole.give(event(number))
        number += 1
    assert done[:5] == ["write cursor", "sync cursor", "write cursor", "sync cursor", f"unlink {1:020d}.wal"]
    whole.ack_all()
    whole.close()


@pytest.mark.parametrize("max_chunks", [1, 2, 8])
def test_an_event_pushes_out_as_much_as_it_needs_and_one_above_the_budget_is_rejected(max_chunks: int) -> None:
    whole = Whole(config(max_chunks=max_chunks), MemoryDisk())
    for number in range(50):
        whole.give(event(number))
    whole.give(event(50, 4096 * max_chunks - 400))
    assert whole.inlet.acked[-1][:5] == b"00050"
    assert whole.log.low == 50
    whole.give(event(51, 4096 * max_chunks))
    ((data, reason),) = whole.inlet.rejected
    assert data[:5] == b"00051"
    assert "does not fit the log's budget" in reason
    assert whole.count("wal_rejected_bytes_total") == len(data)
    whole.give(event(52))
    assert whole.inlet.acked[-1][:5] == b"00052"
    whole.ack_all()
    whole.close()


def test_a_commit_that_is_not_written_yet_is_not_dropped() -> None:
    """More comes in one turn of the loop than the budget holds: nothing goes before it was durable once."""
    whole = Whole(config(), MemoryDisk())
    blocks = [whole.inlet.lines_of(event(number)) for number in range(400)]
    whole.inlet.give(*blocks)
    whole.scheduler.advance(1)
    assert [data[:5] for data in whole.inlet.acked] == [b"%05d" % number for number in range(400)]
    assert whole.gauge("wal_full") == 0
    assert whole.count("wal_dropped_events_total") == whole.log.low
    whole.ack_all()
    whole.close()


def test_a_full_disk_blocks_and_drops_nothing() -> None:
    whole = Whole(config(), disk := MemoryDisk())
    for number in range(20):
        whole.give(event(number))
    disk.fault = lambda operation, path: errno.ENOSPC if path.endswith(".wal") and operation == "write" else None
    whole.give(event(20))
    whole.scheduler.advance(5)
    assert whole.inlet.breaker is not None
    assert (whole.gauge("wal_disk_full"), whole.gauge("wal_full")) == (1, 0)
    assert whole.count("wal_dropped_events_total") == 0
    disk.fault = None
    whole.scheduler.advance(5)
    assert whole.inlet.breaker is None
    assert whole.gauge("wal_disk_full") == 0
    assert len(whole.inlet.acked) == 21
    whole.ack_all()
    whole.close()
