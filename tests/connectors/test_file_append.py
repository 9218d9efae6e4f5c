"""log -> file: what is in the file after whatever happened."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.file.sidecar import Sidecar, State
from tests.connectors.world import LOG, DeadlyDisk, Killed, PowerDisk, Sink, appending, to_append
from tests.examples import shared
from tests.wal.conftest import no_file_left_open  # noqa: F401  # a fixture, for every test here
from walflow.disk import RealDisk, RecordingDisk
from walflow.event import Origin
from walflow.world import boot


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.log"


def asides(path: Path) -> list[bytes]:
    return [each.read_bytes() for each in sorted(path.parent.glob("out.log.walflow-cut-*"))]


def sidecar_state(path: Path) -> State:
    sidecar = Sidecar.open(RealDisk(), str(path))
    sidecar.close()
    assert sidecar.state is not None
    return sidecar.state


# without accidents


def test_it_writes_and_acks(path: Path) -> None:
    sink = appending(path)
    sink.write(b"1", b"2", first=1)
    sink.write(b"3", first=3)
    assert path.read_bytes() == b"1\n2\n3\n"
    assert sink.inlet.acked == [b"1\n2\n", b"3\n"]
    sink.stop()
    assert {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()} == {
        ".out.log.walflow": 0o600,
        "out.log": 0o644,
    }
    assert (path.parent / ".out.log.walflow").stat().st_size == 3 * 4096
    assert sink.inlet.logged == []


def test_nothing_is_acked_before_both_files_are_synced(path: Path) -> None:
    disk = RecordingDisk()
    sink = appending(path, disk=disk)
    disk.operations.clear()
    sink.scheduler.holding = True
    sink.write(b"1", first=1)
    sink.write(b"2", first=2)
    assert (disk.operations, sink.inlet.acked) == ([], [])
    sink.scheduler.holding = False
    sink.scheduler.run()
    sidecar = str(path.parent / ".out.log.walflow")
    batch = [("write", sidecar, 4096), ("append", str(path), 2), ("sync", str(path), 0)]
    batch += [("write", sidecar, 4096), ("sync", sidecar, 0)]
    assert disk.operations == batch * 2  # the second came while the first was in the air
    sink.stop()


def test_what_waits_goes_in_one_batch(path: Path) -> None:
    disk = RecordingDisk()
    sink = appending(path, disk=disk, sync=False)
    disk.operations.clear()
    sink.inlet.give(*(sink.inlet.lines_of(b"%d" % number) for number in range(10)))
    sink.scheduler.run()
    assert [operation for operation in disk.operations if operation[1] == str(path)] == [("append", str(path), 20)]
    sink.stop()


def test_a_clean_stop_and_start(path: Path) -> None:
    sink = appending(path, sync=False)
    sink.write(b"1", first=1)
    sink.stop()
    state = sidecar_state(path)
    assert (state.clean, state.synced, state.size, state.ranges) == (True, True, 2, {LOG: [(1, 1)]})
    sink = appending(path, boot="boot-2", sync=False)
    sink.write(b"2", first=2)
    assert path.read_bytes() == b"1\n2\n"
    assert sink.inlet.logged == []
    sink.stop()


# what is there already


def test_positions_in_the_file_are_acked_unseen(path: Path) -> None:
    sink = appending(path)
    sink.write(b"1", b"2", first=1)
    sink.write(b"5", b"6", first=5)
    sink.die()
    sink = appending(path)
    sink.write(b"1", b"2", first=1)
    sink.write(b"3", b"4", b"5", b"6", b"7", first=3)
    sink.write(b"8", first=8)
    assert path.read_bytes() == b"1\n2\n5\n6\n3\n4\n7\n8\n"
    assert sorted(sink.inlet.acked) == [b"1\n2\n", b"3\n4\n", b"5\n6\n", b"7\n", b"8\n"]
    assert sink.inlet.counter("skipped_events_total").value == 4
    assert [receipt.cause for receipt in sink.inlet.settled] == [None] * 3
    sink.stop()


def test_another_logs_positions_are_not(path: Path) -> None:
    sink = appending(path)
    sink.write(b"1", first=1)
    sink.die()
    sink = appending(path)
    sink.inlet.give(sink.inlet.lines_of(b"1", origin=Origin("log-2", 1, 1, 1)))
    sink.scheduler.run()
    assert path.read_bytes() == b"1\n1\n"
    sink.stop()


def test_a_log_that_was_restored_gives_its_positions_to_other_events_and_none_is_skipped(path: Path) -> None:
    sink = appending(path)
    sink.write(b"1", b"2", first=1, term=7)
    sink.write(b"3", b"4", first=3, term=7)
    sink.die()
    sink = appending(path)
    sink.write(b"1", b"2", first=1, term=7)  # the copy has these, and then goes on in a new chunk
    sink.write(b"5", b"6", first=3, term=8)
    assert path.read_bytes() == b"1\n2\n3\n4\n5\n6\n"
    sink.stop()


def test_positions_of_each_chunk_are_forgotten_once_they_cannot_come_again(path: Path) -> None:
    sink = appending(path)
    for number in range(1, 100):
        sink.write(b"%d" % number, first=number, acked_below=max(1, number - 3), term=number)
    assert sum(map(len, sidecar_state_of(sink).ranges.values())) <= 5
    sink.die()
    sink = appending(path)
    for number in range(97, 100):
        sink.write(b"%d" % number, first=number, acked_below=90, term=number)
    assert path.read_bytes() == b"".join(b"%d\n" % number for number in range(1, 100))
    sink.stop()


def test_with_several_ways_from_the_log_nothing_is_skipped(path: Path) -> None:
    sink = appending(path, sole_path=False)
    sink.write(b"1", first=1)
    sink.die()
    sink = appending(path, sole_path=False)
    sink.write(b"1", first=1)
    assert path.read_bytes() == b"1\n1\n"
    sink.stop()


def test_a_block_that_lost_events_on_its_way_is_not_remembered(path: Path) -> None:
    sink = appending(path)
    sink.inlet.give(sink.inlet.lines_of(b"1", origin=Origin(LOG, 1, 9, 1)))  # one of nine is left
    sink.scheduler.run()
    assert sidecar_state_of(sink).ranges == {}
    sink.die()
    sink = appending(path)
    sink.write(b"1", first=1)
    assert path.read_bytes() == b"1\n1\n"
    sink.stop()


def test_acked_positions_are_forgotten(path: Path) -> None:
    sink = appending(path)
    sink.write(b"1", b"2", first=1)
    sink.write(b"3", first=3, acked_below=2)
    assert sidecar_state_of(sink).ranges == {LOG: [(2, 3)]}
    sink.stop()


def test_too_many_ranges_for_a_slot_mean_duplicates_and_never_loss(path: Path) -> None:
    sink = appending(path, disk=DeadlyDisk())
    for position in range(1, 2001, 2):
        sink.write(b"%d" % position, first=position)
    kept = sidecar_state_of(sink).ranges[LOG]
    sink.die()
    assert len(kept) > 50
    assert kept[-1] == (1999, 1999)
    sink = appending(path)
    sink.write(b"1", first=1)
    sink.write(b"1999", first=1999)
    assert path.read_bytes().splitlines().count(b"1") == 2
    assert path.read_bytes().splitlines().count(b"1999") == 1
    sink.stop()


def sidecar_state_of(sink: Sink) -> State:
    state = sink.output._sidecar.state  # type: ignore[attr-defined]
    assert isinstance(state, State)
    return state


# kill -9

EVENTS = (b"1", b"2", b"3" * 5000, b"4" * 7000, b"5")


def live(
    path: Path, disk: RealDisk | None = None, *, cursor: int = 0, boot: str = "boot-1", sync: bool = True
) -> int:
    """A life in which the log sends what is behind its cursor, a block an event; how many were acked in a row."""
    sink = to_append(path, disk=disk, boot=boot, sync=sync)
    try:
        sink.start()
        for position in range(cursor + 1, len(EVENTS) + 1):
            sink.write(EVENTS[position - 1], first=position, acked_below=cursor + 1)
    except Killed:
        pass
    sink.die()
    return cursor + len(sink.inlet.acked)


def events(data: bytes) -> list[bytes]:
    assert data.endswith(b"\n")
    return data.splitlines()


def clear(path: Path) -> None:
    for each in path.parent.iterdir():
        each.unlink()


@pytest.mark.test
@pytest.mark.parametrize("sync", [True, False])
def test_killed_at_every_change_to_the_disk(path: Path, sync: bool) -> None:
    rehearsal = DeadlyDisk()
    live(path, rehearsal, sync=sync)
    clear(path)
    for fatal in range(1, rehearsal.changes + 1):
        for written in (0, 1, 4096, 5001, 8192, 4 << 20):  # of a write, and less than a page only of a failing disk
            live(path, DeadlyDisk(fatal, written), sync=sync)
            assert live(path, sync=sync) == len(EVENTS)
            assert events(path.read_bytes()) == [*EVENTS], (fatal, written)
            clear(path)


@pytest.mark.test
@pytest.mark.parametrize("sync", [True, False])
def test_killed_again_and_again(path: Path, sync: bool) -> None:
    """The recovery is killed as well, and the log's cursor is anywhere below what was acked."""
    dice = random.Random(7)
    for _ in range(150):
        cursor = 0
        for _ in range(4):
            acked = live(path, DeadlyDisk(dice.randint(1, 30), dice.randint(0, 9000)), cursor=cursor, sync=sync)
            cursor = dice.randint(cursor, acked)
        assert live(path, cursor=cursor, sync=sync) == len(EVENTS)
        assert events(path.read_bytes()) == [*EVENTS]
        clear(path)


def interrupted(path: Path, before: bytes, batch: bytes, written: bytes) -> None:
    """`before` is in the file, `batch` was being written, and the file has `written` behind `before` now."""
    disk = DeadlyDisk()
    sink = appending(path, disk=disk)
    sink.write(before, first=1)
    disk.fatal = disk.changes + 2  # after the intent
    with pytest.raises(Killed):
        sink.write(batch, first=2)
    sink.die()
    path.write_bytes(before + b"\n" + written)


@pytest.mark.parametrize("before", shared([b"1" * 4094, b"1" * 4095, b"1" * 5000, b"1"]))
def test_torn_at_every_byte(path: Path, before: bytes) -> None:
    batch = bytes(random.Random(3).choices(range(32, 127), k=9000))
    edges = {edge - len(before) - 1 + by for edge in (4096, 8192, 12288) for by in (-1, 0, 1)}
    for torn in sorted({*range(0, len(batch), 61), *edges, *range(len(batch) - 2, len(batch) + 2)}):
        if not 0 <= torn <= len(batch) + 1:
            continue
        interrupted(path, before, batch, (batch + b"\n")[:torn])
        sink = appending(path, disk=DeadlyDisk())
        sink.write(batch, first=2)
        assert path.read_bytes() == before + b"\n" + batch + b"\n"
        size = len(before) + 1 + torn
        proven = torn > len(batch) or size % 4096 == 0 or not torn
        assert bool(asides(path)) is not proven
        assert sink.inlet.counter("skipped_events_total").value == (torn > len(batch))
        sink.die()
        clear(path)


def test_torn_at_a_page_is_cut_in_place(path: Path) -> None:
    interrupted(path, b"1", b"2" * 9000, b"2" * 4094)
    sink = appending(path)
    assert path.read_bytes() == b"1\n"
    assert sink.inlet.lines == [f"{path} ended in 4094 bytes of a batch that was not finished: cut"]
    sink.stop()


def test_torn_inside_a_page_goes_to_a_file_of_its_own(path: Path) -> None:
    interrupted(path, b"1", b"2" * 9000, b"2" * 4096)
    sink = appending(path)
    assert path.read_bytes() == b"1\n"
    (aside,) = path.parent.glob("out.log.walflow-cut-*")
    assert (aside.read_bytes(), aside.stat().st_mode & 0o777) == (b"22", 0o600)
    assert sink.inlet.lines == [
        f"{path} ended in bytes that may be half a batch or another process's",
        f"2 bytes from byte 4096 of {path} on are now in {aside}",
    ]
    sink.stop()


# other processes at the same file


def test_what_was_there_before_us_stays_and_its_last_line_is_ended(path: Path) -> None:
    path.write_bytes(b"theirs")
    sink = appending(path)
    sink.write(b"1", first=1)
    assert path.read_bytes() == b"theirs\n1\n"
    sink.stop()


def test_the_last_line_is_ended_even_if_we_only_came_by(path: Path) -> None:
    path.write_bytes(b"theirs")
    appending(path).stop()
    sink = appending(path)
    sink.write(b"1", first=1)
    assert path.read_bytes() == b"theirs\n1\n"
    sink.stop()


@pytest.mark.parametrize("clean", [True, False])
def test_what_others_append_between_our_lives_stays(path: Path, clean: bool) -> None:
    sink = appending(path)
    sink.write(b"1", first=1)
    sink.stop() if clean else sink.die()
    with path.open("ab") as file:
        file.write(b"theirs")
    sink = appending(path)
    sink.write(b"1", first=1)
    sink.write(b"2", first=2)
    assert path.read_bytes() == b"1\ntheirs\n2\n"
    assert sink.inlet.lines == [f"{path} has bytes that another process appended behind byte 2"]
    sink.stop()


def test_what_others_append_behind_a_whole_batch_stays(path: Path) -> None:
    interrupted(path, b"1", b"2", b"2\ntheirs\n")
    sink = appending(path)
    sink.write(b"2", first=2)
    sink.write(b"3", first=3)
    assert path.read_bytes() == b"1\n2\ntheirs\n3\n"
    sink.stop()


def test_what_others_append_behind_half_a_batch_is_moved_to_a_file_of_its_own(path: Path) -> None:
    interrupted(path, b"1", b"2" * 9000, b"2" * 4094 + b"theirs\n")
    sink = appending(path)
    sink.write(b"2" * 9000, first=2)
    assert path.read_bytes() == b"1\n" + b"2" * 9000 + b"\n"
    assert asides(path) == [b"theirs\n"]
    sink.stop()


def test_what_others_append_while_we_run_stays(path: Path) -> None:
    sink = appending(path)
    for position in (1, 2, 3):
        sink.write(b"%d" % position, first=position)
        with path.open("ab") as file:
            file.write(b"theirs")
    sink.die()
    sink = appending(path)
    sink.write(b"3", first=3)
    sink.write(b"4", first=4)
    assert path.read_bytes() == b"1\ntheirs\n2\ntheirs\n3\ntheirs\n4\n"
    sink.stop()


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_file_that_others_cut_gets_everything_again(path: Path, size: int) -> None:
    sink = appending(path)
    sink.write(b"1", b"2", first=1)
    sink.die()
    path.write_bytes(path.read_bytes()[:size])
    sink = appending(path)
    sink.write(b"1", b"2", first=1)
    assert path.read_bytes() == [b"1\n2\n", b"1\n1\n2\n", b"1\n2\n1\n2\n"][(size + 1) // 2]
    assert sink.inlet.lines == [f"{path} was cut from 4 to {size} bytes by another process"]
    sink.stop()


def test_copytruncate_while_we_run(path: Path) -> None:
    sink = appending(path)
    sink.write(b"1" * 9000, first=1)
    path.write_bytes(b"")
    sink.write(b"2", first=2)
    assert path.read_bytes() == b"2\n"  # and no 9 KB of zeros before it
    assert sink.inlet.lines == [f"{path} was cut from 9001 to 0 bytes by another process"]
    sink.stop()


def test_a_file_written_anew_in_place_is_another_one(path: Path) -> None:
    interrupted(path, b"1", b"2", b"")
    path.write_bytes(b"x\n2\n")  # as long, and the intended batch would fit
    sink = appending(path)
    sink.write(b"1", b"2", first=1)
    assert path.read_bytes() == b"x\n2\n1\n2\n"
    assert sink.inlet.lines == [f"{path} was changed before byte 2 by another process"]
    sink.stop()


@pytest.mark.parametrize("renamed", [True, False])
def test_another_file_at_the_path(path: Path, renamed: bool) -> None:
    sink = appending(path)
    sink.write(b"1", first=1)
    sink.die()
    path.with_name("other").write_bytes(b"theirs\n")  # while the first is there, so with another inode
    path.rename(path.with_name("out.log.1"))
    if not renamed:
        path.with_name("out.log.1").unlink()
    path.with_name("other").rename(path)
    sink = appending(path)
    sink.write(b"1", first=1)
    lost = (
        f"{path} is not the file that walflow wrote to last, and that one is not in its directory: up to 1 events "
        "that it got last may come again"
    )
    assert (path.read_bytes(), sink.inlet.lines) == ((b"theirs\n", []) if renamed else (b"theirs\n1\n", [lost]))
    sink.stop()


# SIGHUP


@pytest.mark.parametrize("create", [True, False])
def test_sighup_goes_on_in_a_new_file(path: Path, create: bool) -> None:
    sink = appending(path)
    sink.scheduler.holding = True
    sink.write(b"1", first=1)
    old = path.rename(path.with_name("out.log.1"))
    if create:
        path.touch()
    sink.inlet.reopen()
    sink.scheduler.holding = False
    sink.write(b"2", first=2)
    # what was under way goes to the new file where there is one
    assert (old.read_bytes(), path.read_bytes()) == ((b"", b"1\n2\n") if create else (b"1\n", b"2\n"))
    assert len(sink.inlet.acked) == 2
    sink.die()
    sink = appending(path)
    sink.write(b"1", b"2", first=1)
    assert path.read_bytes() == (b"1\n2\n" if create else b"2\n")  # what is in the old file is not written again
    sink.stop()


def test_sighup_of_a_file_that_is_still_there(path: Path) -> None:
    sink = appending(path)
    sink.write(b"1", first=1)
    sink.inlet.reopen()
    sink.scheduler.run()
    sink.write(b"2", first=2)
    assert path.read_bytes() == b"1\n2\n"
    assert sink.inlet.logged == []
    sink.stop()


def test_a_removed_file_takes_no_more_events(path: Path) -> None:
    sink = appending(path)
    sink.write(b"1", first=1)
    path.unlink()
    sink.write(b"2", first=2)
    assert path.read_bytes() == b"2\n"
    assert sink.inlet.lines == [f"{path} is no longer there, a new one begins"]
    sink.stop()


# power cuts


def power_cut_after(path: Path, *written: bytes, then: bytes, sync: bool = True) -> None:
    sink = appending(path, boot="boot-1", sync=sync)
    for position, event in enumerate(written, 1):
        sink.write(event, first=position)
    sink.die()
    with path.open("ab") as file:
        file.write(then)


def test_what_a_power_cut_left_behind_the_known_part_goes_to_a_file_of_its_own(path: Path) -> None:
    power_cut_after(path, b"1", then=b"2\n\0\0\0")
    sink = appending(path, boot="boot-2")
    (aside,) = path.parent.glob("out.log.walflow-cut-*")
    assert aside.read_bytes() == b"2\n\0\0\0"
    sink.write(b"1", b"2", first=1)
    assert path.read_bytes() == b"1\n2\n"
    assert sink.inlet.lines == [
        f"{path} was being written when the machine stopped",
        f"5 bytes from byte 2 of {path} on are now in {aside}",
    ]
    sink.stop()


def test_without_sync_a_power_cut_cuts_nothing_and_ranges_are_not_believed(path: Path) -> None:
    power_cut_after(path, b"1", then=b"2", sync=False)
    sink = appending(path, boot="boot-2", sync=False)
    sink.write(b"1", b"2", first=1)
    assert path.read_bytes() == b"1\n2\n1\n2\n"
    assert asides(path) == []
    assert sink.inlet.lines == [f'{path} may be damaged at its end: the machine stopped, and sync is "never"']
    sink.stop()


def test_devices_are_numbered_anew_at_each_boot(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Renumbered(RealDisk):
        def stat(self, fd: int):  # type: ignore[no-untyped-def]
            stat = super().stat(fd)
            return stat._replace(identity=(stat.identity[0] + 1, stat.identity[1]))

        def identity(self, path: str) -> tuple[int, int] | None:
            found = super().identity(path)
            return None if found is None else (found[0] + 1, found[1])

    power_cut_after(path, b"1", then=b"2")
    sink = appending(path, boot="boot-2", disk=Renumbered())
    assert path.read_bytes() == b"1\n"
    sink.stop()


@pytest.mark.test
def test_power_cuts_at_every_moment(path: Path) -> None:
    """Sectors, sizes and names that were not synced are there or not; now and then it is only the process that dies.
    No torn line, no loss; and what comes twice was not acked."""
    dice = random.Random(11)
    for _ in range(250):
        cursor = boot = 0
        disk = PowerAndDeath(path.parent)
        for _ in range(5):
            disk.dies(dice.randint(1, 30), dice.randint(0, 9000))
            acked = live(path, disk, cursor=cursor, boot=f"boot-{boot}")
            if dice.random() < 0.6:
                disk.cut(dice)
                boot += 1
            cursor = dice.randint(cursor, acked)
        assert live(path, DeadlyDisk(), cursor=cursor, boot=f"boot-{boot}") == len(EVENTS)
        lines = events(path.read_bytes())
        assert set(lines) == set(EVENTS), lines
        clear(path)


def test_a_slot_that_may_not_be_on_disk_is_synced_before_another_is_overwritten(path: Path) -> None:
    """Killed, killed again, power cut: the second life took the intent of the first, which nobody had synced, for
    what a power cut leaves, and wrote over the slot that it does leave."""
    sink = appending(path)
    sink.write(b"1", first=1)
    sink.die()
    disk = RecordingDisk()
    sink = appending(path, disk=disk)
    of_sidecar = [operation for operation, where, _ in disk.operations if where and where.endswith(".walflow")]
    assert of_sidecar[:3] == ["open", "sync", "write"]
    sink.stop()


class PowerAndDeath(PowerDisk, DeadlyDisk):
    """`PowerDisk` first: it says what a sync is worth; `DeadlyDisk` dies in it."""

    def __init__(self, directory: Path) -> None:
        PowerDisk.__init__(self, directory)
        DeadlyDisk.__init__(self)


# the sidecar


def test_two_daemons_do_not_append_to_one_file(path: Path) -> None:
    first = appending(path)
    first.write(b"1", first=1)
    second = appending(path)
    second.write(b"2")
    assert second.inlet.breaker == f"cannot write {path}: another writer holds it"
    assert second.inlet.acked == []
    first.stop()
    second.scheduler.advance(0.1)
    assert (second.inlet.breaker, second.inlet.acked) == (None, [b"2\n"])
    assert path.read_bytes() == b"1\n2\n"
    second.stop()


def test_a_sidecar_alone_is_held_too(path: Path) -> None:
    first = appending(path)
    path.rename(path.with_name("out.log.1"))
    second = appending(path)
    assert second.inlet.breaker == (
        f"cannot append to {path}: process {os.getpid()} does, and holds {path.parent}/.out.log.walflow"
    )
    first.stop()
    second.stop()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:5000],
        lambda data: bytes(len(data)),
        lambda data: b"\xff" * len(data),
        lambda data: bytes(byte ^ 1 for byte in data),
    ],
)
def test_a_damaged_sidecar_means_duplicates(path: Path, damage: Callable[[bytes], bytes]) -> None:
    sink = appending(path)
    sink.write(b"1", first=1)
    sink.die()
    sidecar = path.parent / ".out.log.walflow"
    sidecar.write_bytes(damage(sidecar.read_bytes()))
    sink = appending(path)
    sink.write(b"1", first=1)
    assert path.read_bytes() in (b"1\n1\n", b"1\n")
    assert sidecar.stat().st_size == 3 * 4096
    sink.stop()


def test_a_newer_walflows_sidecar_is_left_alone(path: Path) -> None:
    sink = appending(path)
    sink.stop()
    sidecar = path.parent / ".out.log.walflow"
    newer = sidecar.read_bytes().replace(b"walflow\x01", b"walflow\x02")
    sidecar.write_bytes(newer)
    sink = appending(path)
    assert sink.inlet.breaker == (
        f"{sidecar} was written by a newer walflow: run that one, or remove the file, "
        "after which some events may come twice"
    )
    sink.stop()
    assert sidecar.read_bytes() == newer


def test_this_machine_has_a_boot() -> None:
    assert len(boot()) == 36
    assert boot() == boot()
