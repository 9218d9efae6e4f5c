"""What is said of a damaged log at the edges: one position more or less, one commit, one look,
and it is another thing."""

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import pytest

from tests.faults.namespace import SmallDisk, needs_namespace
from tests.wal.conftest import Open
from tests.wal.tools import EVERYTHING, QuickDisk, checkpoint, chunk_files, put
from walflow.wal import Gap, Log, Record
from walflow.wal.format import RECORD_START
from walflow.wal.tools.inspect import GONE, Read, acked_by_cursor, check, holder, look, records, removed
from walflow.wal.tools.inspect.walk import unreported, walk
from walflow.wal.tools.skip import skip

ALL_ACKED = "not what was written; all acked, so nothing is lost"


def spoil(directory: Path, position: int) -> None:
    """A bit of that record's payload; once more, and it is sound again."""
    view = look(str(directory))
    (place,) = walk(view.directory, view.chunks, position, position)
    file = directory / place.file
    data = bytearray(file.read_bytes())
    data[place.offset + RECORD_START] ^= 1
    file.write_bytes(data)


def three_chunks(open_log: Open) -> Log:
    """1 to 3, 4 to 6 and 7 to 9, each position a record and a commit."""
    log = open_log(1024, 64, disk=QuickDisk())
    for number in range(9):
        put(log, b"%d" % number * 200)
    return log


def triples(open_log: Open) -> Log:
    """1 to 3, 4 to 6 and 7 to 9, each a record and a commit of one chunk."""
    log = open_log(4096, 16, disk=QuickDisk())
    for number in range(3):
        put(log, b"%d" % number * 50, count=3)
    return log


# What check calls it


def test_of_the_last_commit_what_no_cursor_knows_is_torn_and_told_once(open_log: Open, directory: Path) -> None:
    log = open_log(4096, 16, disk=QuickDisk())
    put(log, b"before")
    put(log, b"one", b"commit", b"of", b"four")
    log.abandon()
    spoil(directory, 3)
    _, findings = check(str(directory))
    assert [(one.kind, one.first, one.last) for one in findings] == [("torn", 3, 3)]
    (file,) = chunk_files(str(directory))
    os.truncate(file, os.stat(file).st_size - 1)
    view, findings = check(str(directory))
    assert [(one.kind, one.first) for one in findings] == [("torn", 3), ("torn", 0)]
    assert sum(one.size for one in findings) == view.found.recovery.torn_bytes


def test_a_later_commit_proves_that_it_was_promised(open_log: Open, directory: Path) -> None:
    three_chunks(open_log).abandon()
    spoil(directory, 2)
    view, findings = check(str(directory))
    assert (view.hint, view.found.recovery.gaps) == (0, [])
    assert [(one.kind, one.first, one.last, one.what) for one in findings] == [
        ("corrupt", 2, 2, "not what was written")
    ]


@pytest.mark.parametrize(
    ("acked", "spoiled", "what"), [(2, 1, ALL_ACKED), (2, 2, ALL_ACKED), (1, 2, "not what was written")]
)
def test_up_to_what_the_cursor_says_it_was_promised(
    open_log: Open, directory: Path, acked: int, spoiled: int, what: str
) -> None:
    """Where acks do not wait for a sync, that may be in the middle of the last commit."""
    log = open_log(4096, 16, disk=QuickDisk(), sync="interval")
    put(log, b"one", b"commit", b"of three")
    log.ack(1, acked)
    checkpoint(log)
    log.abandon()
    spoil(directory, spoiled)
    view, findings = check(str(directory))
    assert view.hint == acked
    assert [(one.kind, one.first, one.last, one.what) for one in findings] == [("corrupt", spoiled, spoiled, what)]


@pytest.mark.parametrize("skipped", [3, 4, 5, 6, 7])
def test_a_report_of_one_of_its_positions_is_named(open_log: Open, directory: Path, skipped: int) -> None:
    log = triples(open_log)
    (one,) = skip(log, skipped, skipped, "anna")
    log.ack(1, 8)
    log.close()
    spoil(directory, 4)
    _, (finding,) = check(str(directory))
    assert (finding.first, finding.last) == (4, 6)
    named = f"not what was written; lost or skipped, as {one.report} says"
    expected = ("reported", named) if 4 <= skipped <= 6 else ("corrupt", ALL_ACKED)
    assert (finding.kind, finding.what) == expected


@pytest.mark.parametrize(
    ("spoiled", "what"), [(1, "not what was written"), (2, "not what was written"), (3, "corrupt")]
)
def test_what_the_next_start_will_lose_is_not_called_acked_and_is_shown_once(
    open_log: Open, directory: Path, spoiled: int, what: str
) -> None:
    log = open_log(4096, 16, disk=QuickDisk())
    put(log, b"a", b"b", b"c")
    log.close()
    spoil(directory, spoiled)
    view, findings = check(str(directory))
    assert [(one.kind, one.first, one.last, one.what) for one in findings] == [("corrupt", spoiled, spoiled, what)]
    found = list(records(view, 1, EVERYTHING))
    assert [one[0] for one in found] == [1, 2, 3]
    assert [type(one) for one in found] == [Gap if number == spoiled else Record for number in (1, 2, 3)]


def test_what_is_moved_and_what_is_removed_are_told_apart(open_log: Open, directory: Path) -> None:
    three_chunks(open_log).abandon()
    last = chunk_files(str(directory))[-1]
    os.truncate(last, 170)
    (directory / f"{777:020d}.wal").write_text("not mine")
    assert removed(look(str(directory))) == [os.path.basename(last)]


# What a log in use does meanwhile


@pytest.mark.parametrize(
    ("looks", "stays"),
    [
        ([set()], []),
        ([{1}, {1}], [1]),
        ([{1, 2}, {1}], [1]),
        ([{1}, {1, 2}, {1}], [1]),
        ([{1}, {1, 2}, set()], []),
    ],
)
def test_of_a_log_in_use_it_is_looked_for_until_nothing_new_is_found(
    open_log: Open, directory: Path, looks: list[set[int]], stays: list[int]
) -> None:
    log = three_chunks(open_log)
    done: list[set[int]] = [set()]

    def begin(size: int) -> Read:
        """Before the records are read: spoils what this look is to find, and mends what it is not."""
        now = looks[min(len(done), len(looks)) - 1]
        for position in now ^ done[-1]:
            spoil(directory, position)
        done.append(now)
        return unreported

    view, findings = check(str(directory), begin)
    assert view.holder
    assert [one.first for one in findings] == stays
    assert done[1:] == looks
    log.abandon()


@pytest.mark.parametrize(
    ("skipped", "expected"),
    [
        (3, ["cannot be opened", GONE]),
        (4, [GONE, "cannot be opened"]),
        (6, [GONE, "cannot be opened"]),
        (7, [GONE, GONE]),
    ],
)
def test_what_is_deleted_meanwhile_is_gone_unless_it_is_reported(
    open_log: Open, directory: Path, skipped: int, expected: list[str]
) -> None:
    log = three_chunks(open_log)
    view = look(str(directory))
    skip(log, skipped, skipped, "anna")
    log.ack(1, 7)
    checkpoint(log)
    assert [os.path.basename(file) for file in chunk_files(str(directory))] == [f"{7:020d}.wal"]
    gaps = [one for one in records(view, 1, EVERYTHING) if isinstance(one, Gap)]
    assert [(gap.first, gap.last) for gap in gaps] == [(1, 3), (4, 6)]
    assert [gap.reason for gap in gaps] == expected


@pytest.mark.parametrize("spoiled", [1, 3])
def test_what_is_acked_and_damaged_is_not_gone_while_its_chunk_is_there(
    open_log: Open, directory: Path, spoiled: int
) -> None:
    log = three_chunks(open_log)
    log.ack(1, 1)
    log.ack(3, 9)
    checkpoint(log)
    spoil(directory, spoiled)
    gaps = [one for one in records(look(str(directory)), 1, EVERYTHING) if isinstance(one, Gap)]
    assert [(gap.first, gap.last, gap.reason) for gap in gaps] == [(spoiled, spoiled, "corrupt")]


def a_chunk_is_away(directory: Path) -> Callable[[], None]:
    """And comes back when the one who took it does what is returned."""
    file = Path(chunk_files(str(directory))[1])
    file.rename(directory / "away")

    def mend() -> None:
        (directory / "away").rename(file)

    return mend


def the_meta_cannot_be_read(directory: Path) -> Callable[[], None]:
    (directory / "meta").rename(directory / "away")
    (directory / "meta").mkdir()

    def mend() -> None:
        (directory / "meta").rmdir()
        (directory / "away").rename(directory / "meta")

    return mend


@contextmanager
def after_one_look(do: Callable[[], None]) -> Iterator[None]:
    """Just when that look asks who has the log."""

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code is holder.__code__:
            sys.setprofile(None)
            do()

    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("harm", [a_chunk_is_away, the_meta_cannot_be_read])
def test_what_is_wrong_for_a_moment_is_looked_at_again(
    open_log: Open, directory: Path, harm: Callable[[Path], Callable[[], None]]
) -> None:
    log = three_chunks(open_log)
    with after_one_look(harm(directory)):
        view = look(str(directory))
    assert (view.holder, view.found.durable, view.found.recovery.gaps) == (f"process {os.getpid()}", 9, [])
    log.abandon()


# Who has it, and what was acked


@needs_namespace
def test_a_file_with_the_same_number_on_another_disk_is_another_file(tmp_path: Path) -> None:
    """Unless LOCK names the very process: some file systems show locks under a number of their own."""
    with ExitStack() as stack:
        ours, other = (stack.enter_context(SmallDisk(tmp_path / name, "size=1m")).inside for name in "ab")
        for folder in (ours, other):
            (folder / "LOCK").touch()
        file = stack.enter_context((other / "LOCK").open())
        fcntl.flock(file, fcntl.LOCK_EX)
        there, here = os.fstat(file.fileno()), os.stat(ours / "LOCK")
        if there.st_ino != here.st_ino:
            pytest.skip("before Linux 5.9 no two of these share a number")
        assert there.st_dev != here.st_dev
        assert holder(str(other)) == f"process {os.getpid()}"
        assert holder(str(ours)) == ""
        (ours / "LOCK").write_text(f"{os.getpid()}\n")
        assert holder(str(ours)) == f"process {os.getpid()}"


def test_lost_positions_are_acked_as_far_as_the_cursor_says(open_log: Open, directory: Path) -> None:
    log = triples(open_log)
    log.ack(1, 4)
    log.close()
    spoil(directory, 4)
    view = look(str(directory))
    assert [(gap.first, gap.last) for gap in view.found.recovery.gaps] == [(4, 6)]
    assert acked_by_cursor(view).missing(1, 9) == [(5, 9)]
    (directory / "cursor").unlink()
    assert acked_by_cursor(look(str(directory))).missing(1, 9) == [(1, 9)]
