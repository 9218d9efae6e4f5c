"""Other processes at the file of a sink, at the moments that count: right before a write, right after a sync, and
while walflow is not running. `tests/system/test_file_shared.py` has them as they come, with real programs."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from connectors.file.appended_file import AppendedFile
from connectors.file.output import GRACE
from connectors.file.recovery import HEAD, events_of, intend
from connectors.file.sidecar import State, WriteIntent
from tests.connectors.test_file_overwrite import overwriting
from tests.connectors.world import LOG, Clock, DeadlyDisk, Killed, Sink, appending, truncating
from walflow.disk import DirectoryEntry, Landed, RealDisk, Stat
from walflow.positions import WrittenPositions

Act = Callable[[Path], None]
modes = pytest.mark.parametrize("starting", [truncating, appending, overwriting])
keeping = pytest.mark.parametrize("starting", [truncating, appending])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.log"


class Meddled(DeadlyDisk):
    """Another process acts once, right before a batch is appended or right after it was synced."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.before: list[Act] = []
        self.after: list[Act] = []
        self._path = path
        self._appended = -1

    def append(self, fd: int, parts: Sequence[bytes]) -> Landed:
        if self.before:
            self.before.pop()(self._path)
        self._appended = fd
        return super().append(fd, parts)

    def sync(self, fd: int) -> None:
        super().sync(fd)
        if self.after and fd == self._appended:
            self.after.pop()(self._path)


def append_theirs(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"theirs\n")


def edit(path: Path) -> None:
    """As `sed -i` does: a new file in its place, with what was in it a moment ago."""
    new = path.with_name("new")
    new.write_bytes(b"edited\n")
    new.rename(path)


def cut(path: Path) -> None:
    path.write_bytes(b"")


def rename(path: Path) -> None:
    path.rename(f"{path}.1")


def rename_and_create(path: Path) -> None:
    path.rename(f"{path}.1")
    path.touch()


# appended to


@modes
def test_what_is_appended_right_before_a_write_is_not_written_over(path: Path, starting: Callable[..., Sink]) -> None:
    disk = Meddled(path)
    sink = starting(path, disk=disk)
    sink.write(b"1", first=1)
    disk.before = [append_theirs, append_theirs]
    sink.write(b"2", first=2)
    sink.write(b"3", first=3)
    assert path.read_bytes() == b"1\ntheirs\n2\ntheirs\n3\n"
    assert sink.inlet.lines == [f"{path} has bytes that another process appended behind byte 2"]
    sink.stop()


@keeping
def test_a_write_that_is_cut_short_has_no_others_in_its_middle_that_are_not_told_of(
    path: Path, starting: Callable[..., Sink]
) -> None:
    class Short(RealDisk):
        def append(self, fd: int, parts: Sequence[bytes]) -> Landed:
            data = b"".join(parts)
            if data == b"1234\n":
                landed = super().append(fd, [data[:2]])
                append_theirs(path)
                return landed
            return super().append(fd, parts)

    sink = starting(path, disk=Short())
    sink.write(b"1234", first=1)
    torn = "another process wrote into the middle of a batch, so a torn line ends at byte 2"
    assert sink.inlet.breaker == f"cannot write {path}: {torn}"
    assert path.read_bytes() == b"12theirs\n"
    sink.stop()


def test_others_write_their_line_in_parts_and_no_empty_line_stands_behind_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel shows a write that crosses pages page by page."""
    sink = appending(path)
    sink.write(b"1", first=1)
    with path.open("ab", buffering=0) as file:
        file.write(b"the")
        monkeypatch.setattr(
            "connectors.file.output.sleep", lambda _: file.write(b"irs\n") if path.stat().st_size == 5 else None
        )
        sink.write(b"2", first=2)
    assert path.read_bytes() == b"1\ntheirs\n2\n"
    sink.stop()


KILLED_BATCH = b"".join(b"%d " % number for number in range(4000))


@pytest.mark.parametrize("written", [0, 40, 4094, 9000, len(KILLED_BATCH), 1 << 20])
@pytest.mark.parametrize("before", [[], [append_theirs]])
@pytest.mark.parametrize("later", [[], [append_theirs]])
def test_killed_in_a_batch_with_others_around_it(
    path: Path, written: int, before: list[Act], later: list[Act]
) -> None:
    disk = Meddled(path)
    sink = appending(path, disk=disk)
    sink.write(b"1", first=1)
    disk.before = [*before]
    disk.dies(2, written)
    with pytest.raises(Killed):
        sink.write(KILLED_BATCH, first=2)
    sink.die()
    for act in later:
        act(path)
    sink = appending(path)
    sink.write(KILLED_BATCH, first=2)
    sink.stop()
    lines = path.read_bytes().splitlines()
    assert [line for line in lines if line != b"theirs"] == [b"1", KILLED_BATCH]
    asides = b"".join(each.read_bytes() for each in path.parent.glob("*walflow-cut*"))
    everything = b"\n".join([*lines, asides])
    assert everything.count(b"theirs\n") + everything.count(b"theirs\n2") == len(before) + len(later)
    if before or not written:
        assert lines.count(b"theirs") >= len(before)
    if not written:
        assert asides == b""


class Busy(RealDisk):
    """Another process appends again and again while a start looks at the file, and while it copies it: at each read
    and at each sync, so many times."""

    def __init__(self, path: Path, times: int) -> None:
        super().__init__()
        self._path = path
        self._left = times

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self._append()
        return super().read(fd, size, offset)

    def sync(self, fd: int) -> None:
        self._append()
        super().sync(fd)

    def _append(self) -> None:
        if self._left:
            self._left -= 1
            append_theirs(self._path)


@pytest.mark.parametrize("written", [4094, 9000, 3 * 4096])
@pytest.mark.parametrize("times", [1, 3, 10])
@pytest.mark.parametrize("later", [[], [append_theirs]])
def test_what_others_append_while_half_a_batch_is_cut_is_all_there(
    path: Path, written: int, times: int, later: list[Act]
) -> None:
    disk = DeadlyDisk()
    sink = appending(path, disk=disk)
    sink.write(b"1", first=1)
    disk.dies(2, written)
    with pytest.raises(Killed):
        sink.write(KILLED_BATCH, first=2)
    sink.die()
    for act in later:
        act(path)
    sink = appending(path, disk=Busy(path, times))
    sink.write(KILLED_BATCH, first=2)
    sink.stop()
    lines = path.read_bytes().splitlines()
    assert [line for line in lines if line != b"theirs"] == [b"1", KILLED_BATCH]
    asides = b"".join(each.read_bytes() for each in path.parent.glob("*walflow-cut*"))
    assert lines.count(b"theirs") + asides.count(b"theirs\n") == times + len(later)


def test_an_intent_of_an_older_version_is_read(path: Path) -> None:
    """It has no head, so what cannot be proven is put aside, as it was then."""
    new = intend(b"12\n", 0, WrittenPositions({LOG: [(1, 1)]}))
    assert new.head == b"12\n"
    assert intend(bytes(100), 0, WrittenPositions()).head == bytes(HEAD)
    state = State("boot", 1, (1, 1), 0, (0, 0), synced=True, intent=new)
    raw = msgspec.json.encode(state).replace(b',"head":"MTIK"', b"")
    assert b"head" not in raw
    old = msgspec.json.decode(raw, type=State)
    assert old.intent == WriteIntent(3, new.piece, new.sums, new.adds)
    assert events_of(old) == 1


# replaced, renamed, removed


@modes
@pytest.mark.parametrize("replace", [edit, Path.unlink])
@pytest.mark.parametrize("when", ["between", "before", "after"])
def test_what_went_to_a_file_without_a_name_is_written_again_before_it_is_acked(
    path: Path, starting: Callable[..., Sink], replace: Act, when: str
) -> None:
    disk = Meddled(path)
    sink = starting(path, disk=disk)
    sink.write(b"1", first=1)
    replaced: list[bytes] = [] if replace is Path.unlink else [b"edited\n"]
    if when == "between":
        replace(path)
    else:
        setattr(disk, when, [replace])
    sink.write(b"2", first=2)
    assert path.read_bytes() == b"".join([*replaced, b"2\n"])
    assert sink.inlet.acked == [b"1\n", b"2\n"]
    said = (
        "was replaced by another process, and goes on in the new file"
        if replaced
        else "is no longer there, a new one begins"
    )
    assert sink.inlet.lines == [f"{path} {said}"]
    sink.write(b"3", first=3)
    assert path.read_bytes() == b"".join([*replaced, b"2\n3\n"])
    sink.stop()


@pytest.mark.parametrize("operations", range(1, 16))
def test_killed_while_it_goes_on_in_the_new_file(path: Path, operations: int) -> None:
    disk = Meddled(path)
    sink = appending(path, disk=disk)
    sink.write(b"1", first=1)
    disk.after = [edit]
    disk.dies(operations, 1 << 20)
    try:
        sink.write(b"2", first=2)
    except Killed:
        pass
    sink.die()
    sink = appending(path)
    sink.write(b"2", first=2)
    assert path.read_bytes().count(b"2\n") == 1
    assert sink.inlet.acked == [b"2\n"]
    sink.stop()


@modes
def test_what_is_cut_off_right_after_its_sync_is_written_again(path: Path, starting: Callable[..., Sink]) -> None:
    disk = Meddled(path)
    sink = starting(path, disk=disk)
    sink.write(b"1", first=1)
    disk.after = [cut]
    sink.write(b"2", first=2)
    assert (path.read_bytes(), sink.inlet.acked) == (b"2\n", [b"1\n", b"2\n"])
    assert sink.inlet.lines == [f"{path} was cut from 2 to 0 bytes by another process"]
    sink.stop()


@modes
def test_a_line_that_a_cut_goes_through_is_whole_again(path: Path, starting: Callable[..., Sink]) -> None:
    disk = Meddled(path)
    sink = starting(path, disk=disk)
    sink.write(b"1", first=1)
    disk.after = [lambda path: os.truncate(path, 4)]
    sink.write(b"2345", first=2)
    assert (path.read_bytes(), sink.inlet.acked) == (b"1\n2345\n", [b"1\n", b"2345\n"])
    sink.stop()


@modes
def test_what_is_cut_right_before_a_write_has_no_hole(path: Path, starting: Callable[..., Sink]) -> None:
    disk = Meddled(path)
    sink = starting(path, disk=disk)
    sink.write(b"1" * 9000, first=1)
    disk.before = [cut]
    sink.write(b"2", first=2)
    assert path.read_bytes() == b"2\n"
    sink.stop()


@modes
def test_a_file_that_is_cut_again_and_again_is_not_tried_for_ever(path: Path, starting: Callable[..., Sink]) -> None:
    disk = Meddled(path)
    sink = starting(path, disk=disk)
    sink.write(b"1", first=1)
    disk.after = [cut] * 4
    sink.write(b"2", first=2)
    assert sink.inlet.breaker == f"cannot write {path}: another process cuts or replaces it again and again"
    assert sink.inlet.acked == [b"1\n"]
    sink.scheduler.advance(0.1)
    assert (sink.inlet.breaker, path.read_bytes(), sink.inlet.acked) == (None, b"2\n", [b"1\n", b"2\n"])
    sink.stop()


@modes
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_went_to_a_renamed_file_is_acked(path: Path, starting: Callable[..., Sink], when: str) -> None:
    disk = Meddled(path)
    sink = starting(path, disk=disk)
    sink.write(b"1", first=1)
    setattr(disk, when, [rename_and_create])
    sink.write(b"2", first=2)
    sink.write(b"3", first=3)
    assert (path.with_name("out.log.1").read_bytes(), path.read_bytes()) == (b"1\n2\n", b"3\n")
    assert (sink.inlet.acked, sink.inlet.lines) == ([b"1\n", b"2\n", b"3\n"], [])
    sink.stop()


def test_renamed_it_is_written_on_to_until_another_one_is_there_or_for_a_second(path: Path) -> None:
    """logrotate makes the new file itself right after the rename, and renames away what it finds there."""
    clock = Clock()
    sink = appending(path, clock=clock)
    sink.write(b"1", first=1)
    rename(path)
    sink.write(b"2", first=2)
    clock.now += GRACE / 2
    sink.write(b"3", first=3)
    assert not path.exists()
    clock.now += GRACE / 2
    sink.write(b"4", first=4)
    assert (path.with_name("out.log.1").read_bytes(), path.read_bytes()) == (b"1\n2\n3\n", b"4\n")
    assert sink.inlet.lines == [f"{path} is no longer there, a new one begins"]
    sink.stop()


# overwrite


def test_overwriting_does_not_reach_into_what_others_appended(path: Path) -> None:
    path.write_bytes(b"old 1\nold 2\n")
    sink = overwriting(path)
    sink.write(b"1")
    append_theirs(path)
    sink.write(b"2")
    assert path.read_bytes() == b"1\n2\n1\nold 2\ntheirs\n"
    sink.write(b"3" * 12)
    sink.write(b"4")
    assert path.read_bytes() == b"1\n2\n1\nold 2\ntheirs\n" + b"3" * 12 + b"\n4\n"
    assert sink.inlet.lines == [f"{path} has bytes that another process appended behind byte 12"]
    sink.stop()


def test_overwriting_goes_over_the_end_of_the_old_content_and_appends_from_there(path: Path) -> None:
    path.write_bytes(b"old 1\n")
    disk = Meddled(path)
    sink = overwriting(path, disk=disk)
    sink.write(b"123")
    sink.write(b"456789")
    disk.before = [append_theirs]
    sink.write(b"10")
    assert path.read_bytes() == b"123\n456789\ntheirs\n10\n"
    sink.stop()


# while walflow is not running


@pytest.mark.parametrize("act", [rename, rename_and_create])
@pytest.mark.parametrize("written", [0, 4096, 1 << 20])
def test_renamed_after_a_kill_it_is_finished_under_its_new_name(path: Path, act: Act, written: int) -> None:
    disk = DeadlyDisk()
    sink = appending(path, disk=disk)
    sink.write(b"1" * 4095, first=1)
    disk.dies(2, written)
    with pytest.raises(Killed):
        sink.write(b"2" * 9000, first=2)
    sink.die()
    act(path)
    for _ in range(2):
        sink = appending(path)
        sink.write(b"1" * 4095, first=1)
        sink.write(b"2" * 9000, first=2)
        assert sink.inlet.acked == [b"1" * 4095 + b"\n", b"2" * 9000 + b"\n"]
        sink.die()
    first, second = b"1" * 4095 + b"\n", b"2" * 9000 + b"\n"
    old = path.with_name("out.log.1").read_bytes()
    assert (old, path.read_bytes()) == ((first + second, b"") if written > 9000 else (first, second))
    assert list(path.parent.glob("*walflow-cut*")) == []


def test_killed_at_every_change_while_it_finishes_the_renamed_file(path: Path) -> None:
    for fatal in range(1, 25):
        disk = DeadlyDisk()
        sink = appending(path, disk=disk)
        sink.write(b"1", first=1)
        disk.dies(2, 4096)
        with pytest.raises(Killed):
            sink.write(b"2" * 9000, first=2)
        sink.die()
        rename_and_create(path)
        dying = Sink(AppendedFile(str(path), DeadlyDisk(fatal, 5), sync=True, boot=lambda: "boot-1"))
        try:
            dying.start()
            dying.write(b"2" * 9000, first=2)
        except Killed:
            pass
        dying.die()
        sink = appending(path)
        sink.write(b"1", first=1)
        sink.write(b"2" * 9000, first=2)
        sink.stop()
        assert (path.with_name("out.log.1").read_bytes(), path.read_bytes()) == (b"1\n", b"2" * 9000 + b"\n"), fatal
        for each in path.parent.iterdir():
            each.unlink()


@pytest.mark.parametrize("size", [0, 2])
def test_a_file_that_only_has_its_number_is_left_alone(path: Path, size: int) -> None:
    """The number of a removed file is given out again, under any name."""
    other = path.with_name("out.log.other")
    disk = DeadlyDisk()
    sink = appending(path, disk=disk)
    if size:
        sink.write(b"0", first=1)
    identity = RealDisk().look(str(path)).identity  # type: ignore[union-attr]
    disk.dies(2, 0)
    with pytest.raises(Killed):
        sink.write(b"1" * 9000, first=2)
    sink.die()

    looked_at: list[str] = []

    class Renumbered(RealDisk):
        def entries(self, path: str) -> list[DirectoryEntry]:
            """The other file has the inode of the one that is gone."""
            looked_at.append(path)
            return [DirectoryEntry(other.name, identity[1], is_file=True, is_link=False, is_directory=False)]

        def stat(self, fd: int) -> Stat:
            stat = super().stat(fd)
            return stat._replace(identity=identity) if os.path.sameopenfile(fd, there.fileno()) else stat

    other.write_bytes(content := b"111 is how this begins too\n" * 900)
    with other.open() as there, open(path):
        path.unlink()
        sink = appending(path, disk=Renumbered())
        sink.write(b"1" * 9000, first=2)
        sink.stop()
    assert (other.read_bytes(), path.read_bytes()) == (content, b"1" * 9000 + b"\n")
    assert looked_at == [str(path.parent)]
    assert "that one is not in its directory" in sink.inlet.lines[0]
