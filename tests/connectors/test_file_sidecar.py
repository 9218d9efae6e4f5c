"""log -> file: what of it is on disk when the power goes, down to the single sync. `tests/proof/sidecar.py` cuts it
at random; here each case stands alone."""

import os
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from connectors.file.appended_file import AppendedFile
from connectors.file.output import CannotWrite, FileBatch
from connectors.file.recovery import PIECE, PIECES, intend
from connectors.file.sidecar import ROOM, SLOT, SLOTS, Sidecar, State, sidecar_path
from tests.connectors.world import DeadlyDisk, Killed, appending
from tests.proof.sidecar import LOG, PATH, is_known
from walflow.disk import RecordingDisk
from walflow.positions import WrittenPositions
from walflow.testing import PowerCut, SimulatedDisk, images

SIDECAR = sidecar_path(PATH)


def opened(disk: SimulatedDisk, boot: int = 1, *, sync: bool = True) -> AppendedFile:
    output = AppendedFile(PATH, disk, sync=sync, boot=lambda: f"boot {boot}")
    output.open()
    return output


def write(output: AppendedFile, position: int, event: bytes) -> None:
    batch = FileBatch(acked_below={LOG: 1})
    batch.parts.append(event)
    batch.adds.add(LOG, position, position)
    output.write(batch)


def uncut(disk: SimulatedDisk) -> SimulatedDisk:
    """The power goes, and nothing that was not synced makes it."""
    return disk.like_this(next(images(disk, Random(1), 2)).files)


def test_a_sidecar_has_its_size_and_its_name_at_once() -> None:
    """Or it could not be written where the disk is full."""
    disk = SimulatedDisk()
    opened(disk)
    assert uncut(disk).sizes() == {PATH: 0, SIDECAR: SLOT * SLOTS}


@pytest.mark.parametrize("restored", [False, True])
def test_a_sidecar_that_was_removed_is_there_again_before_the_next_event(restored: bool) -> None:
    disk = SimulatedDisk()
    output = opened(disk)
    old = disk.content(SIDECAR)
    write(output, 1, b"1\n")
    disk.unlink(SIDECAR)
    disk.sync_directory(os.path.dirname(SIDECAR))
    if restored:
        fd = disk.open(SIDECAR, create=True)
        disk.write(fd, [old], 0)
        disk.close(fd)
    with pytest.raises(CannotWrite, match="another writer holds it"):
        opened(disk)
    write(output, 2, b"2\n")
    after = uncut(disk)
    assert after.content(PATH) == b"1\n2\n"
    again = opened(after, 2)
    assert is_known(again.known, 1)
    assert is_known(again.known, 2)


def test_a_sidecar_that_another_process_has_instead_is_its() -> None:
    disk = SimulatedDisk()
    output = opened(disk)
    write(output, 1, b"1\n")
    disk.unlink(SIDECAR)
    other = Sidecar.open(disk, PATH)
    with pytest.raises(CannotWrite, match=f"another process does, and holds {SIDECAR}"):
        write(output, 2, b"2\n")
    assert disk.content(PATH) == b"1\n"
    other.close()
    write(output, 2, b"2\n")
    assert disk.content(PATH) == b"1\n2\n"


def test_a_sidecar_that_was_cut_gets_its_size_back_and_keeps_what_it_says() -> None:
    disk = SimulatedDisk()
    output = opened(disk)
    write(output, 1, b"1\n")
    output.close()
    (slot,) = [slot for slot in range(SLOTS) if b'"clean":true' in disk.content(SIDECAR)[slot * SLOT :][:SLOT]]
    fd = disk.open(SIDECAR)
    disk.truncate(fd, (slot + 1) * SLOT)
    disk.close(fd)
    output = opened(disk)
    assert is_known(output.known, 1)
    assert disk.sizes()[SIDECAR] == SLOT * SLOTS


@pytest.mark.parametrize("operations", range(8))
def test_what_a_killed_process_wrote_is_on_disk_before_it_counts(operations: int) -> None:
    disk = SimulatedDisk()
    output = opened(disk)
    write(output, 1, b"1\n")
    disk.operations_left = operations
    with suppress(PowerCut):
        write(output, 2, b"2\n")
    disk.after_kill(writeback_fails=False)
    there = is_known(opened(disk).known, 2)
    assert there == (operations > 1)
    after = uncut(disk)
    assert after.content(PATH) == (b"1\n2\n" if there else b"1\n")
    assert is_known(opened(after, 2).known, 2) == there


def test_what_is_closed_is_on_disk_also_without_a_sync_before() -> None:
    disk = SimulatedDisk()
    output = opened(disk, sync=False)
    write(output, 1, b"1\n")
    output.close()
    after = uncut(disk)
    output = opened(after, 2, sync=False)
    assert (after.content(PATH), output.notes) == (b"1\n", [])
    assert is_known(output.known, 1)


def test_what_is_cut_off_is_in_a_file_of_its_own_whenever_the_power_goes() -> None:
    odd = b"what a power cut made of a batch"
    for operations in range(16):
        disk = SimulatedDisk()
        write(opened(disk), 1, b"1\n")
        disk.after_kill(writeback_fails=False)
        fd = disk.open(PATH)
        disk.write(fd, [odd], 2)
        disk.sync(fd)
        disk.close(fd)
        disk.operations_left = operations
        with suppress(PowerCut):
            opened(disk, 2)
        for image in images(disk, Random(operations), 30):
            assert any(kept.data and odd in kept.data for kept in image.files.values())
    assert uncut(disk).content(PATH) == b"1\n"


def test_a_sidecar_stays_open_when_its_file_is_another_one(tmp_path: Path) -> None:
    """For whoever comes between would have it."""
    path, disk = tmp_path / "out.log", RecordingDisk()
    sink = appending(path, disk=disk)
    path.rename(f"{path}.1")
    sink.output.reopen()
    assert disk.operations.count(("open", sidecar_path(str(path)), 0)) == 1
    sink.stop()


def test_a_sidecar_that_was_removed_is_made_anew_for_the_next_file(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    sink = appending(path)
    path.rename(f"{path}.1")
    os.unlink(sidecar_path(str(path)))
    sink.output.reopen()
    sink.write(b"1", first=1)
    sink.die()
    sink = appending(path)
    sink.write(b"1", first=1)
    assert path.read_bytes() == b"1\n"
    sink.stop()


def test_a_sound_file_is_opened_without_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    sink = appending(path)
    sink.write(b"1", first=1)
    sink.stop()
    disk = RecordingDisk()
    appending(path, disk=disk).stop()
    assert "truncate" not in {operation for operation, _, _ in disk.operations}


def test_a_slot_is_used_to_its_last_byte() -> None:
    disk = SimulatedDisk()
    sidecar = Sidecar.open(disk, PATH)
    state = State("", 1, (1, 1), 0, (0, 0), synced=True)
    whole = replace(state, boot="b" * (ROOM - len(msgspec.json.encode(state))))
    sidecar.write(whole)
    sidecar.sync()
    sidecar.close()
    assert Sidecar.open(disk, PATH).state == whole


@pytest.mark.parametrize(
    ("start", "size", "piece", "pieces"),
    [
        (0, 1, PIECE, 1),
        (0, PIECE - 1, PIECE, 1),
        (0, PIECE, PIECE, 1),
        (0, PIECE + 1, PIECE, 2),
        (PIECE - 1, 1, PIECE, 1),
        (PIECE - 1, 2, PIECE, 2),
        (0, PIECE * PIECES, PIECE, PIECES),
        (1, PIECE * PIECES, PIECE, PIECES + 1),
        (0, PIECE * PIECES + 1, 2 * PIECE, PIECES // 2 + 1),
    ],
)
def test_a_batch_is_cut_at_pages_as_long_as_there_is_room(start: int, size: int, piece: int, pieces: int) -> None:
    intent = intend(bytes(size), start, WrittenPositions())
    assert (intent.length, intent.piece, len(intent.sums)) == (size, piece, 4 * pieces)


def test_a_batch_behind_what_others_appended_is_taken_for_what_it_is(tmp_path: Path) -> None:
    """The sidecar has to say where it begins before it is written."""
    path, disk = tmp_path / "out.log", DeadlyDisk()
    sink = appending(path, disk=disk)
    sink.write(b"1", first=1)
    with path.open("ab") as file:
        file.write(b"theirs\n")
    disk.fatal, disk.written = disk.changes + 2, 1 << 20  # all of the batch, and no more
    with pytest.raises(Killed):
        sink.write(b"2", first=2)
    sink.die()
    sink = appending(path)
    sink.write(b"2", first=2)
    assert (path.read_bytes(), sink.inlet.lines) == (b"1\ntheirs\n2\n", [])
    sink.stop()
