"""What `walflow wal repair` does to a directory, called as the command calls it. With power cuts:
tests/proof/repair_promises.py; as a person sees it: tests/cli/test_wal.py."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.cli.wal_tools import flip
from tests.proof.repair_promises import DAMAGES, Files, Mirrored, Repair, mended, real, two_logs_and_no_meta
from tests.proof.scripts import CHUNKS
from tests.wal.conftest import Open
from tests.wal.tools import EVERYTHING, BadDisk, FaultyDisk, QuickDisk, commit, payloads, put, read
from walflow.cli.wal.repair import Account, mend
from walflow.errors import DirectoryLocked, ReadFailed, Unusable
from walflow.testing import SimulatedDisk, images
from walflow.wal import Log, LogOptions
from walflow.wal.chunk import PAGE
from walflow.wal.format import CHUNK_START, SLOT, record_size
from walflow.wal.opening.tail import UNREADABLE_END
from walflow.wal.tools.inspect import look
from walflow.wal.tools.repair import Hold, _allow, obstacles, overwritten, pass_over


def broken(number: int) -> Files:
    return dict(Repair(number).promises.files)


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_it_leaves_no_file_open_and_has_nothing_left_to_do(number: int) -> None:
    with real(broken(number)) as path:
        mended(path)
        before = sorted(each for each in Path(path).rglob("*"))
        mended(path)
        assert sorted(each for each in Path(path).rglob("*")) == before


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_what_it_did_is_on_disk_when_it_says_so(number: int) -> None:
    story = Repair(number)
    story.live()
    image = next(images(story.disk, Random(1), 2))
    there = {path: kept.data for path, kept in image.files.items() if kept.data is not None}
    assert there == {path: story.disk.content(path) for path in story.disk.sizes() if not path.endswith("/LOCK")}


def test_a_name_that_was_half_written_is_in_nobodys_way() -> None:
    files = broken(DAMAGES.index(two_logs_and_no_meta)) | {"meta.tmp": b"half of it"}
    with real(files) as path:
        mended(path)
        assert not Path(path, "meta.tmp").exists()
        Log(LogOptions(path, 1024, 64)).close()


def test_half_a_header_is_written_again_from_the_other_half() -> None:
    files = broken(3)
    with real(files) as path:
        mended(path)
        for name in CHUNKS[1:3]:
            header = Path(path, name).read_bytes()[:160]
            assert header[:80] == header[80:]
            assert header != files[name][:160]


def test_all_that_is_read_is_told(open_log: Open) -> None:
    log = open_log(1024, 64, cache_bytes=0)
    put(log, *[b"p" * 400] * 5, tag=b"tag")
    told: list[int] = []
    assert pass_over(log, told.append) == []
    assert sum(told) == 5 * 403


def a_log(payload: bytes, events: int = 2) -> Files:
    disk = SimulatedDisk()
    log = Log(LogOptions("/log", 1024, 64), disk)
    put(log, *[payload] * events)
    log.ack(1, 1)
    log.close()
    return {path[5:]: disk.content(path) for path in disk.sizes() if not path.endswith("LOCK")}


def together(ours: Files, theirs: Files) -> Files:
    """And nothing that says which of them it is, but the cursor, which is ours."""
    files = {name: data for name, data in ours.items() if name != "meta"}
    return files | {f"{int(name[:20]) + 50:020d}.wal": data for name, data in theirs.items() if name.endswith(".wal")}


def test_of_two_logs_each_is_a_log_again_and_on_disk() -> None:
    """The cursor has a slot of either."""
    ours, theirs = a_log(b"a" * 300), a_log(b"b" * 300)
    files = together(ours, theirs)
    files["cursor"] = ours["cursor"][:SLOT] + theirs["cursor"][SLOT:]
    disk = SimulatedDisk({f"/log/{name}": data for name, data in files.items()})
    with real(files) as path:
        mended(path, Mirrored(path, disk))
    image = next(images(disk, Random(1), 2))
    there = {path: kept.data for path, kept in image.files.items() if kept.data is not None}
    assert there == {path: disk.content(path) for path in disk.sizes() if not path.endswith("/LOCK")}
    (split,) = {path.rpartition("/")[0] for path in there if "/log-" in path}
    found = [payloads(Log(LogOptions(path, 1024, 64), disk.like_this(image.files))) for path in ("/log", split)]
    assert sorted(found) == [[b"a" * 300], [b"b" * 300]]


@pytest.mark.parametrize(("events", "words"), [(2, "(1 chunk)"), (3, "(2 chunks)")])
def test_what_is_moved_of_another_log_is_counted(events: int, words: str) -> None:
    with real(together(a_log(b"a" * 300), a_log(b"b" * 300, events))) as path:
        move, _ = obstacles(path)
        assert f": move them {words} to {path}/quarantine/log-" in move.what


def test_where_nothing_will_be_cut_nothing_is_copied(tmp_path: Path) -> None:
    """Of the last commit the power left the first record and the last one."""
    log = Log(LogOptions(str(tmp_path), 4096, 16), QuickDisk())
    for _ in range(3):
        log.append(b"", b"event", 1, 7)
    commit(log)
    log.abandon()
    flip(tmp_path / log.chunks[0].name, CHUNK_START + record_size(5) + 9)
    view = look(str(tmp_path))
    assert (view.found.recovery.torn_bytes, view.found.recovery.gaps) == (record_size(5), [])
    assert overwritten(view) == []


def test_a_log_that_lost_its_lock_is_held_as_soon_as_it_has_one(tmp_path: Path) -> None:
    with Hold(str(tmp_path)) as hold:
        hold.take(create=True)
        with pytest.raises(DirectoryLocked):
            Hold(str(tmp_path)).take(create=False)
    with Hold(str(tmp_path)):
        pass


@pytest.mark.parametrize(
    ("number", "words", "is_moved"),
    [
        (errno.EIO, "Input/output error: move it to quarantine/", True),
        (errno.EBUSY, "Device or resource busy: remove the cause", False),
    ],
)
def test_what_will_never_open_is_moved_and_what_may_is_left(number: int, words: str, is_moved: bool) -> None:
    disk = FaultyDisk(preallocates=False)
    with real(a_log(b"event")) as path:
        disk.fault = lambda operation, file: number if (operation, file) == ("open", f"{path}/cursor") else None
        (step,) = obstacles(path, disk=disk)
        assert step.what == f"{path}/cursor cannot be opened: {words}"
        assert (step.do is not None) == is_moved
        if step.do is not None:
            step.do()
            assert obstacles(path, disk=disk) == []
            assert Path(path, "quarantine", "cursor").exists()


NOBODY = 65534


@contextmanager
def no_root() -> Iterator[int]:
    """Root may open anything, and so is somebody else in here. Gives who we are."""
    if os.geteuid() != 0:
        yield os.geteuid()
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield NOBODY
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.parametrize(("name", "mode"), [("", "0700"), ("cursor", "0600")])
def test_modes_that_keep_their_owner_out_are_set_right(name: str, mode: str) -> None:
    with real({"cursor": b""}) as path:
        Path(path, name).chmod(0)
        if os.geteuid() == 0:
            for each in (Path(path).parent, Path(path), Path(path, "cursor")):
                os.chown(each, NOBODY, -1)
        with no_root():
            (step,) = obstacles(path)
            assert step.what == f"{Path(path, name)} may not be read and written: set its mode to {mode}"
            assert step.do is not None
            step.do()
            assert obstacles(path) == []


@pytest.mark.parametrize(("path", "mode"), [("/etc", 0o700), ("/etc/passwd", 0o600)])
def test_what_is_another_users_is_left_to_that_user(path: str, mode: int) -> None:
    """Of a file, the whole directory that it is in."""
    with no_root() as user:
        (step,) = _allow(path, mode)
    advice = f"run this as user 0, or as root: chown -R {user} /etc"
    assert step == (f"{path} belongs to user 0, and you are {user}: {advice}", None)


def bad_log(path: Path) -> Log:
    log = Log(LogOptions(str(path), 16384, 64), QuickDisk())
    for number in range(40):  # in three files
        put(log, b"%02d" % number * 490)
    log.abandon()
    return log


@pytest.mark.parametrize("chunk", [0, 1, 2])
@pytest.mark.parametrize("page", [1, 2])
def test_a_page_that_stays_bad_is_given_up_and_no_start_stops_at_it_any_more(
    tmp_path: Path, chunk: int, page: int
) -> None:
    """The file as it was is kept, for a better day."""
    path = tmp_path / "log"
    name = bad_log(path).chunks[chunk].name
    disk = BadDisk(str(path / name), page * PAGE, (page + 1) * PAGE)
    account = Account(str(path), as_json=True)
    assert mend(str(path), account, dry_run=False, yes=True, disk=disk)
    log = Log(LogOptions(str(path), 16384, 64), disk)
    found = {record.position for record in read(log)}
    log.close()
    assert 0 < 40 - len(found) <= 6
    told = [json.loads(each.read_text()) for each in (path / "quarantine").glob("*.json")]
    named = {
        at for one in told for at in range(one["first"], 41 if one["reason"] == UNREADABLE_END else one["last"] + 1)
    }
    assert named == set(range(1, 41)) - found
    assert (path / "quarantine" / name).stat().st_size == (path / name).stat().st_size
    again = Account(str(path), as_json=True)
    assert mend(str(path), again, dry_run=False, yes=True, disk=disk)


def test_an_error_that_has_passed_is_nothing_to_repair(tmp_path: Path) -> None:
    path = tmp_path / "log"
    name = bad_log(path).chunks[1].name
    disk = BadDisk(str(path / name), PAGE)
    log = Log(LogOptions(str(path), 16384, 64, cache_bytes=0), disk)
    reader = log.reader()
    assert len(reader.read(EVERYTHING)) < 40
    with pytest.raises(ReadFailed):
        reader.read(EVERYTHING)
    log.close()
    disk.heal()
    assert mend(str(path), Account(str(path), as_json=True), dry_run=True, yes=False, disk=disk)
    log = Log(LogOptions(str(path), 16384, 64), QuickDisk())
    assert len(payloads(log)) == 40
    log.close()
    assert not (path / "quarantine").exists()


@pytest.mark.parametrize("name", ["meta", "cursor", "marks", "arrivals"])
def test_a_small_file_that_the_disk_cannot_read_is_moved_away(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log"
    log = Log(LogOptions(str(path), 16384, 64), QuickDisk())
    put(log, b"one")
    log.remember_arrivals().make()
    log.part([["a"], ["b"]])
    log.checkpoint(force=True).flush()  # type: ignore[union-attr]
    log.abandon()
    disk = BadDisk(str(path / name), 0)
    with pytest.raises(
        Unusable, match=rf"{path}/{name}: the disk cannot read it at byte 0: .*; if that stays so, stop"
    ):
        Log(LogOptions(str(path), 16384, 64), disk)
    assert mend(str(path), Account(str(path), as_json=True), dry_run=False, yes=True, disk=disk)
    assert (path / "quarantine" / name).exists()
    log = Log(LogOptions(str(path), 16384, 64), disk)
    assert payloads(log) == [b"one"]
    log.close()
