"""Two logs in a row: what the first sends again, the second does not append again."""

import errno
from random import Random

import pytest

from tests.delivery.in_a_row import STRAIGHT, Row
from walflow.delivery import Arriving
from walflow.errors import FailStop, ReadFailed
from walflow.testing import Fatal, MemoryDisk, MemoryInlet, MemoryOutlet, SimulatedDisk, VirtualScheduler, images
from walflow.wal import Log, LogOptions
from walflow.wal.arrivals import AHEAD
from walflow.wal.format import SLOT

ARRIVALS = "/second/arrivals"
CURSOR = "/first/cursor"


def full(operation: str, path: str) -> int | None:
    """The first log goes on, and what it has acked is not on disk."""
    return errno.ENOSPC if operation == "write" and path == CURSOR else None


def given(row: Row, first: int, last: int, size: int = 0) -> list[int]:
    for start in range(first, last, 10):
        row.give(*range(start, start + 10), size=size)
    return list(range(first, last))


def test_what_the_first_log_sends_again_is_not_appended_again() -> None:
    row = Row()
    given(row, 0, 50)
    assert row.first.log.low == 50, "the second log acked all"
    row.crash()  # before the cursor of the first log says so
    again = Row(disk=row.disk)
    assert again.first.log.recovery.backlog == 50
    assert again.second.log.durable == 50
    assert again.known() == 50
    again.advance()
    assert again.first.log.low == 50
    again.close()


def deleted() -> Row:
    """The second log has delivered and deleted what the first one will send again."""
    row = Row()
    given(row, 0, 10)
    row.advance()
    row.disk.fault = full
    given(row, 10, 100, size=100)
    row.ack()
    row.advance()
    assert not row.second.log.chunks
    row.disk.fault = None
    row.crash()
    return row


def test_nor_is_what_it_has_delivered_and_deleted() -> None:
    row = deleted()
    again = Row(disk=row.disk)
    assert again.first.log.recovery.backlog == 90
    assert again.second.log.durable == 100
    assert again.known() == 90
    again.close()


def test_a_start_deletes_no_chunk_before_it_has_read_where_its_events_came_from() -> None:
    """If the slots of the cursor differ, a start writes both, and could delete what all have acked."""
    row = Row()
    row.disk.fault = full
    given(row, 0, 10)
    row.ack()
    row.disk.fault = None
    row.crash()
    log = Log(LogOptions("/second", 2048, 64), row.disk)
    log.acked.add(1, 10)
    one = log.checkpoint(force=True)
    assert one is not None
    assert one.dropped == [], "nor at the end of a start that was stopped"
    log.abandon()
    again = Row(disk=row.disk)
    assert (again.second.log.durable, again.known()) == (10, 10)
    again.close()


@pytest.mark.parametrize("damage", [b"", b"x" * 40, bytes(128 << 10)])
def test_without_a_sound_file_what_was_deleted_comes_again_and_nothing_is_lost(damage: bytes) -> None:
    row = deleted()
    disk = MemoryDisk({**row.disk.snapshot(), ARRIVALS: damage})
    again = Row(disk=disk)
    assert again.second.log.durable > 100
    given(again, 100, 150)
    again.ack()
    assert set(row.content()) | set(again.content()) == set(range(150))
    again.close()


def test_a_file_that_covers_more_than_the_cursor_knows_is_not_used() -> None:
    """All files of the second log were taken away but this one: its positions begin anew."""
    row = deleted()
    kept = {
        path: one
        for path, one in row.disk.snapshot().items()
        if not path.startswith("/second/") or path in (ARRIVALS, "/second/meta")
    }
    again = Row(disk=MemoryDisk(kept))
    again.ack()
    assert again.known() == 0
    assert again.content() == list(range(10, 100))
    again.close()


def test_if_the_newer_slot_of_the_cursor_is_gone_the_older_slot_of_the_file_counts() -> None:
    """A start writes the newer slot of the cursor again, and a power cut may spoil it then."""
    row = Row(disk=deleted().disk)
    row.disk.fault = full
    given(row, 100, 110)
    assert row.second.arriving is not None
    row.second.arriving._arrivals.grown(AHEAD)  # the file covers more, and nothing is deleted
    before = row.disk.content("/second/cursor")
    row.advance(0.6)
    row.crash()
    after = row.disk.content("/second/cursor")
    newer = 0 if before[:SLOT] != after[:SLOT] else SLOT
    assert before[SLOT - newer :][:SLOT] == after[SLOT - newer :][:SLOT], "the other one is as it was"
    spoiled = after[:newer] + bytes(8) + after[newer + 8 :]
    again = Row(disk=MemoryDisk({**row.disk.snapshot(), "/second/cursor": spoiled}))
    assert again.first.log.recovery.backlog == 100
    assert (again.second.log.durable, again.known()) == (110, 100)
    again.close()


def fails_to_sync(operation: str, path: str) -> int | None:
    return errno.EIO if operation == "sync" and path.startswith("/second/0") else None


@pytest.mark.parametrize("starts", [1, 2])
def test_what_a_power_cut_may_still_take_is_appended_again(starts: int) -> None:
    """The disk failed to write records of the second log. The next start finds them in the page cache, and has no
    room for a copy. The first log must not be told that they are there."""
    disk = SimulatedDisk()
    row = Row(disk=disk)
    given(row, 0, 10)
    row.advance()
    disk.fault = fails_to_sync
    with pytest.raises(Fatal):
        given(row, 10, 20)
    row.cut()
    disk.fault = None
    disk.after_kill(writeback_fails=True)
    disk.capacity = disk.used()
    for _ in range(starts - 1):  # one that ends before the first log sends anything
        log = Log(LogOptions("/second", 2048, 64), disk)
        assert log.unsafe_from == 11
        Arriving(log, MemoryInlet(VirtualScheduler(), straight=True)).open()
        log.abandon()
    row = Row(disk=disk)
    assert row.known() == 0
    disk.capacity = None
    row.advance()
    assert row.first.log.low == 20
    row.cut()
    row = Row(disk=disk.like_this(next(images(disk, Random(1), 1)).files))
    row.ack()
    assert set(row.content()) == set(range(20))
    row.close()


def test_a_first_log_that_was_restored_gives_its_positions_to_other_events_and_none_is_lost() -> None:
    row = Row()
    given(row, 0, 30)
    row.advance()
    row.close()
    copy = {path: one for path, one in row.disk.snapshot().items() if path.startswith("/first")}
    row = Row(disk=row.disk)
    given(row, 30, 60)
    row.crash()
    disk = MemoryDisk({**row.disk.snapshot(), **copy})
    for path in row.disk.sizes().keys() - copy.keys():
        if path.startswith("/first/"):
            disk.unlink(path)
    again = Row(disk=disk)
    assert again.first.log.next == 31, "as 30 events ago"
    given(again, 100, 130)
    assert again.known() == 0
    again.ack()
    assert set(again.content()) >= set(range(100, 130))
    again.close()


def test_one_event_in_two_rows_is_appended_whole_or_again() -> None:
    body = """
  define pipeline p pipeline
    select event from in into out;
    select event from in into out;
  end;
  create pipeline p;
  connect /connector/first to /pipeline/p;
  connect /pipeline/p to /connector/second;
"""
    row = Row(body)
    assert row.second.arriving is None, "there are two ways"
    given(row, 0, 10)
    row.crash()
    again = Row(body, disk=row.disk)
    assert again.second.log.durable == 40
    again.close()


def test_another_select_in_between_changes_nothing_for_what_came_before() -> None:
    row = Row()
    given(row, 0, 10)
    row.crash()
    body = """
  define pipeline p pipeline
    select {"id": event.id, "more": 1} from in where event.id % 2 == 1 into out;
  end;
  create pipeline p;
  connect /connector/first to /pipeline/p;
  connect /pipeline/p to /connector/second;
"""
    again = Row(body, disk=row.disk)
    assert (again.second.log.durable, again.known()) == (10, 5)
    again.close()


def test_a_log_behind_no_log_has_no_such_file() -> None:
    row = Row(STRAIGHT)
    given(row, 0, 10)
    assert row.first.arriving is None
    assert ARRIVALS in row.disk.sizes()
    assert "/first/arrivals" not in row.disk.sizes()
    row.close()


def test_what_the_second_log_has_and_cannot_open_ends_the_process() -> None:
    """Another start may be able to open it: events that it would not know would be appended again."""
    row = Row()
    given(row, 0, 50)
    row.crash()
    log = Log(LogOptions("/second", 2048, 64), row.disk)
    arriving = Arriving(log, MemoryInlet(VirtualScheduler(), straight=True))
    row.disk.fault = lambda operation, path: errno.EIO if operation == "read" and path.endswith(".wal") else None
    with pytest.raises(ReadFailed, match="the disk cannot read it at byte 0"):  # whoever calls it tries again
        arriving.open()
    row.disk.fault = lambda operation, path: errno.EACCES if operation == "open" and path.endswith(".wal") else None
    with pytest.raises(FailStop, match="open failed") as failed:
        arriving.open()
    with pytest.raises(Fatal, match="open failed"):
        arriving.tell(MemoryOutlet(VirtualScheduler()), failed.value)
    row.disk.fault = None
    log.abandon()


def test_a_start_leaves_no_file_open() -> None:
    row = Row()
    given(row, 0, 50)
    row.crash()
    log = Log(LogOptions("/second", 2048, 64), row.disk)
    arriving = Arriving(log, MemoryInlet(VirtualScheduler(), straight=True))
    before = len(row.disk._fds)
    arriving.open()
    assert arriving.positions == 50
    assert len(row.disk._fds) == before
    log.close()
