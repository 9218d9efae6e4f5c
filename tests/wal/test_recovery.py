"""Whatever is done to its files, a log starts, delivers every sound record, alters none, and names what is missing.

Each damage is done to the same few logs; afterwards each is used again.
"""

import errno
import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.examples import examples
from tests.wal.conftest import Open
from tests.wal.tools import (
    EVERYTHING,
    FaultyDisk,
    QuickDisk,
    checkpoint,
    chunk_files,
    files_of,
    payloads,
    put,
    restore,
    works,
)
from walflow.errors import DiskFull, Unusable
from walflow.testing import SimulatedDisk
from walflow.wal import Log, LogOptions
from walflow.wal.format import CHECKSUM, CHUNK_COPY, META, crc

Files = dict[str, bytes]

COUNT = 12  # records of the small log, of three positions each
SIZES = [37, 4, 400, 5, 250, 1, 420, 90, 300, 13, 500, 8]


def payload(number: int) -> bytes:
    return (b"%d:" % number * 300)[: SIZES[number]]


@pytest.fixture(scope="module")
def small_log(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Closed cleanly: several chunks, every record a commit of its own, one acked."""
    path = tmp_path_factory.mktemp("small") / "log"
    log = Log(LogOptions(str(path), 1024, 16), QuickDisk())
    for number in range(COUNT):
        put(log, payload(number), count=3, tag=b"tag")
    log.ack(7, 9)
    log.close()
    return files_of(str(path))


def survivors(path: Path) -> tuple[set[int], set[int]]:
    return survivors_of(Log(LogOptions(str(path), 1024, 16), QuickDisk()))


def survivors_of(log: Log) -> tuple[set[int], set[int]]:
    """Reads, checks, goes on: the records that came, and the positions that were reported lost."""
    try:
        came: set[int] = set()
        for record in log.reader().read(EVERYTHING):
            number = (record.position - 1) // 3
            assert record.payload == payload(number), "altered"
            assert record[:3] == (1 + 3 * number, 3, b"tag")
            came.add(number)
        lost = {position for gap in log.gaps for position in range(gap.first, gap.last + 1)}
        works(log)
        return came, lost
    finally:
        log.abandon()


def all_accounted_for(came: set[int], lost: set[int]) -> None:
    for number in range(COUNT):
        positions = set(range(1 + 3 * number, 4 + 3 * number))
        assert number in came or number == 2 or positions <= lost, f"record {number} vanished in silence"


def flips(files: Files) -> Iterator[tuple[str, int]]:
    """Of meta every bit, of the chunks every seventh, so that each bit of a byte has its turn; of the
    cursor, which is mostly zeros, one in 37."""
    for name, step in {"meta": 1, "cursor": 37, **dict.fromkeys(chunk_names(files), 7)}.items():
        yield from ((name, bit) for bit in range(0, len(files[name]) * 8, step))


@pytest.mark.test
def test_every_flipped_bit_costs_at_most_its_record(small_log: Files) -> None:
    files = {f"/log/{name}": data for name, data in small_log.items()}
    for name, bit in flips(small_log):
        data = bytearray(small_log[name])
        data[bit // 8] ^= 1 << bit % 8
        disk = SimulatedDisk(files | {f"/log/{name}": bytes(data)})
        came, lost = survivors_of(Log(LogOptions("/log", 1024, 16), disk))
        all_accounted_for(came, lost)
        assert len(came | {2}) >= COUNT - 1, f"{name} bit {bit} cost {COUNT - len(came | {2})} records"
        if not name.endswith(".wal"):
            assert not lost, f"{name} holds no record"


def cut(data: bytes, at: int) -> bytes:
    return data[:at]


def zero(data: bytes, at: int) -> bytes:
    return data[:at] + bytes(len(data) - at)


def garble(data: bytes, at: int) -> bytes:
    return data[:at] + bytes(0xA5 ^ byte for byte in data[at:])


def hole(data: bytes, at: int) -> bytes:
    """One sector did not make it, what follows did."""
    return data[:at] + bytes(min(64, len(data) - at)) + data[at + 64 :]


@pytest.mark.test
@pytest.mark.parametrize("preallocates", [False, True])
@pytest.mark.parametrize("tear", [cut, zero, garble, hole])
def test_a_commit_torn_at_any_byte_costs_only_itself(
    open_log: Open, directory: Path, preallocates: bool, tear: Callable[[bytes, int], bytes]
) -> None:
    disk = QuickDisk()
    log = open_log(65536, 4, disk)
    put(log, b"first", b"second")
    checkpoint(log)
    begin = log.chunks[0].end
    torn = [b"third", b"", b"fifth" * 10]
    put(log, *torn)
    ends = list(itertools.accumulate((56, 48, 104), initial=begin))
    log.abandon()
    files = files_of(str(directory))
    (name,) = (name for name in files if name.endswith(".wal"))
    assert len(files[name]) == ends[-1]
    for at in range(begin, ends[-1]):
        data = tear(files[name], at) + bytes(1000 if preallocates else 0)
        restore(str(directory), files | {name: data})
        sound = [
            payload
            for payload, low, high in zip(torn, ends, ends[1:], strict=False)
            if data[low:high] == files[name][low:high]
        ]
        for _ in range(2):
            log = open_log(65536, 4, disk)
            assert payloads(log)[: 2 + len(sound)] == [b"first", b"second", *sound]
            assert log.gaps == [], "nothing was promised"
            works(log)


def test_what_the_cursor_calls_durable_is_not_cut_in_silence(open_log: Open, directory: Path) -> None:
    """The last commit again, this time with a cursor that was written after it."""
    log = open_log(4096)
    put(log, b"first", count=4)
    put(log, b"second", b"third", count=5)
    checkpoint(log)
    end = log.chunks[0].end
    os.truncate(chunk_files(str(directory))[0], end - 60)
    log = open_log(4096)
    assert payloads(log) == [b"first"]
    (gap,) = log.recovery.gaps
    assert (gap.first, gap.last) == (5, 14)
    works(log)
    assert log.next == 16, "no position is given out twice"
    report = json.loads((directory / "quarantine" / f"{5:020d}-{14:020d}.json").read_text())
    assert (report["first"], report["last"]) == (5, 14)


Damage = Callable[[Files], Files]


def chunk_names(files: Files) -> list[str]:
    return sorted(name for name in files if name.endswith(".wal"))


def damages(files: Files) -> Iterator[tuple[str, Files]]:
    """Every file cut, emptied, zeroed, doubled or deleted, and all pairs of them swapped."""
    for name, data in files.items():
        yield f"{name} deleted", {other: files[other] for other in files if other != name}
        yield f"{name} emptied", files | {name: b""}
        yield f"{name} zeroed", files | {name: bytes(len(data))}
        yield f"{name} is noise", files | {name: bytes(i * 7 & 255 for i in range(len(data)))}
        yield f"{name} is longer", files | {name: data + b"xyz" * 99}
        for at in (1, 79, 80, 159, 160, 161, 300, 500):
            yield f"{name} cut at {at}", files | {name: data[:at]}
    for one, other in itertools.combinations(files, 2):
        yield f"{one} and {other} swapped", files | {one: files[other], other: files[one]}
        yield f"{one} copied over {other}", files | {other: files[one]}
    first, second, third, *_ = chunk_names(files)
    rotated = {first: files[second], second: files[third], third: files[first]}
    yield "three chunks rotated", files | rotated
    yield "a chunk twice", files | {f"{99:020d}.wal": files[first]}
    yield "all chunks gone", {name: data for name, data in files.items() if not name.endswith(".wal")}
    yield "only chunks left", {name: data for name, data in files.items() if name.endswith(".wal")}
    yield "a chunk alone", {second: files[second]}
    yield "header of a chunk gone", files | {second: bytes(160) + files[second][160:]}


def test_whatever_happens_to_a_file_nothing_else_is_lost(small_log: Files, directory: Path) -> None:
    for what, files in damages(small_log):
        restore(str(directory), files)
        came, lost = survivors(directory)
        intact = {
            number
            for number in range(COUNT)
            if number != 2 and any(b"tag" + payload(number) in files[name] for name in chunk_names(files))
        }
        if "cursor" in files and files["cursor"] == small_log["cursor"]:
            all_accounted_for(came, lost)
        if not any(word in what for word in ("alone", "header", "cut", "twice")):
            assert intact <= came | {2}, what


def test_a_chunk_without_a_header_is_read_through_the_next_one(small_log: Files, directory: Path) -> None:
    first = chunk_names(small_log)[0]
    restore(str(directory), small_log | {first: bytes(160) + small_log[first][160:]})
    came, lost = survivors(directory)
    assert came | {2} == set(range(COUNT))
    assert lost == set()


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(["meta", "cursor", "LOCK", f"{1:020d}.wal", f"{7:020d}.wal", "spare.1", "x.wal", "notes"]),
        st.binary(max_size=700),
    ),
    st.booleans(),
)
def test_any_bytes_make_a_log_or_one_line(small_log: Files, directory: Path, files: Files, beside: bool) -> None:
    """Alone, or among the files of a real log."""
    restore(str(directory), (small_log if beside else {}) | files)
    log = Log(LogOptions(str(directory), 1024, 16), QuickDisk())
    try:
        payloads(log)
        works(log)
    finally:
        log.close()
    assert (directory / "notes").exists() == ("notes" in files)


@pytest.mark.parametrize("name", ["meta", "cursor", "LOCK"])
@pytest.mark.parametrize("thing", ["directory", "link"])
def test_what_is_not_a_file_is_refused_in_one_line(directory: Path, name: str, thing: str) -> None:
    directory.mkdir()
    if thing == "directory":
        (directory / name).mkdir()
    else:
        (directory / name).symlink_to("/dev/null")
    with pytest.raises(Unusable) as refused:
        Log(LogOptions(str(directory)))
    line = str(refused.value)
    assert f"{directory}/{name}: " in line
    assert line.endswith(f"run: walflow wal repair {directory}")
    assert "\n" not in line


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unusable, match="file"):
        Log(LogOptions(str(tmp_path / "file")))


def test_a_directory_where_a_chunk_belongs_steps_aside(open_log: Open, directory: Path) -> None:
    (directory / f"{1:020d}.wal").mkdir(parents=True)
    log = open_log()
    works(log)
    assert "is not a file: moved to quarantine/" in log.recovery.lines()[0]


def test_two_logs_in_one_directory_without_meta_are_refused(
    small_log: Files, directory: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    log = Log(LogOptions(str(other), 1024), QuickDisk())
    put(log, bytes(800), b"theirs", bytes(800))
    log.close()
    theirs = {f"{99:020d}.wal": files_of(str(other))[f"{2:020d}.wal"]}
    ours = {name: data for name, data in small_log.items() if name != "meta"}
    restore(str(directory), ours | theirs)
    with pytest.raises(Unusable, match=r"meta: .* 2 different logs; run: walflow wal repair"):
        Log(LogOptions(str(directory)))
    restore(str(directory), small_log | theirs)
    came, lost = survivors(directory)
    assert came | {2} == set(range(COUNT))
    assert not lost


def newer(head: bytes) -> bytes:
    """A head of a file as the next version writes it: the version stands behind the magic, a checksum at the end."""
    fields = head[:8] + (3).to_bytes(2, "little") + head[10 : -CHECKSUM.size]
    return fields + CHECKSUM.pack(crc(0, fields))


@pytest.mark.parametrize("missing", ["", "cursor"])
@pytest.mark.parametrize("kind", ["meta", "chunk"])
def test_what_a_newer_version_has_written_is_refused_and_stays_as_it_is(
    small_log: Files, directory: Path, kind: str, missing: str
) -> None:
    name = "meta" if kind == "meta" else max(name for name in small_log if name.endswith(".wal"))
    size, copies = (META.size + CHECKSUM.size, 1) if kind == "meta" else (CHUNK_COPY, 2)
    data = small_log[name]
    written = newer(data[:size]) * copies + data[size * copies :]
    left = {f"spare.{7:020d}": b"", "meta.tmp": b"", name: written}
    files = {at: data for at, data in (small_log | left).items() if at not in {"LOCK", missing}}
    restore(str(directory), files)
    with pytest.raises(Unusable, match=f"{name}: written by a newer walflow"):
        Log(LogOptions(str(directory)))
    assert {name: data for name, data in files_of(str(directory)).items() if name != "LOCK"} == files


def test_a_crash_before_the_cut_tail_is_forgotten_changes_nothing(open_log: Open, directory: Path) -> None:
    """Recovery of a recovery: what was torn once must not look promised once a later commit exists."""
    log = open_log()
    put(log, b"first")
    put(log, b"second", b"third")
    log.abandon()
    (path,) = chunk_files(str(directory))
    data = bytearray(Path(path).read_bytes())
    data[160 + 56 + 50] ^= 1  # in the body of `second`
    Path(path).write_bytes(data)
    log = open_log()
    assert payloads(log) == [b"first", b"third"]
    assert log.gaps == []
    put(log, b"fourth")
    log = open_log()
    assert payloads(log) == [b"first", b"third", b"fourth"]
    assert log.gaps == []
    assert not (directory / "quarantine").exists()


def test_a_torn_commit_over_several_chunks_is_cut_as_one(open_log: Open, directory: Path) -> None:
    for missing in range(1, 5):
        log = open_log(1024, 100)
        log.ack(1, log.durable)
        checkpoint(log)
        put(log, b"kept")
        low = log.durable
        put(log, *(bytes([i]) * 700 for i in range(5)))
        log.abandon()
        os.truncate(chunk_files(str(directory))[-missing], 400)
        log = open_log(1024, 100)
        assert log.gaps == [], missing
        assert [data[:1] for data in payloads(log)] == [b"k", *(bytes([i]) for i in range(5) if i != 5 - missing)]
        works(log)
        assert log.unacked(1, low) == [(low, low)]
        log.ack(1, log.durable)
        checkpoint(log)


def flip(path: str, byte: int) -> None:
    data = bytearray(Path(path).read_bytes())
    data[byte] ^= 1
    Path(path).write_bytes(data)


def test_a_later_commit_proves_that_what_is_damaged_was_promised(open_log: Open, directory: Path) -> None:
    log = open_log()
    put(log, b"one", b"two", b"three")
    put(log, b"four")
    flip(chunk_files(str(directory))[0], 160 + 56 + 50)
    log = open_log()
    assert payloads(log) == [b"one", b"three", b"four"]
    assert [(gap.first, gap.last, gap.reason) for gap in log.recovery.gaps] == [(2, 2, "corrupt")]
    works(log)


def test_the_cursor_proves_it_for_the_last_commit(open_log: Open, directory: Path) -> None:
    log = open_log()
    put(log, b"one", b"two", b"three")
    checkpoint(log)
    flip(chunk_files(str(directory))[0], 160 + 56 + 50)
    log = open_log()
    assert payloads(log) == [b"one", b"three"]
    (gap,) = log.recovery.gaps
    assert gap == (2, 2, f"{1:020d}.wal", 216, 56, "corrupt")
    assert (directory / "quarantine" / f"{2:020d}-{2:020d}.bytes").read_bytes()[48:52] == b"twn\0"
    assert log.recovery.lines() == ["positions 2 to 2 are lost: corrupt in 00000000000000000001.wal at 216, 56 bytes"]
    json.dumps(log.recovery.as_dict())
    works(log)


def test_an_odd_file_system_is_named(open_log: Open, directory: Path) -> None:
    disk = QuickDisk()
    disk.filesystem = lambda path: "nfs4"  # type: ignore[method-assign]
    assert open_log(disk=disk).recovery.lines() == [
        f"{directory} is on nfs4, where a sync may promise less than on a local disk"
    ]


@pytest.mark.parametrize("size", [0, 1, 300_000])
def test_a_sound_log_is_opened_without_a_change(open_log: Open, size: int) -> None:
    disk = FaultyDisk(preallocates=False)
    log = open_log(1 << 20, disk=disk)
    put(log, bytes(size), bytes(size))
    log.close()
    disk.operations.clear()
    open_log(1 << 20, disk=disk)
    changes = {(operation, path) for operation, path, _ in disk.operations} - {
        *((operation, log.directory.file("LOCK")) for operation in ("write", "truncate")),
        *((operation, log.directory.file("cursor")) for operation in ("write", "sync")),
    }
    assert {operation for operation, _ in changes} == {"open", "sync_directory"}
    cursor = [operation for operation, path, _ in disk.operations if path == log.directory.file("cursor")]
    assert cursor == ["open", "write", "sync"], "the newer slot, as it was"


def test_a_record_that_is_not_where_it_was_is_a_record(open_log: Open, directory: Path) -> None:
    put(open_log(), b"one", b"two")
    (path,) = map(Path, chunk_files(str(directory)))
    data = path.read_bytes()
    path.write_bytes(data[:160] + b"pushed\0\0" + data[160:])
    log = open_log()
    assert payloads(log) == [b"one", b"two"]
    assert log.gaps == []


def test_what_is_torn_is_measured(open_log: Open, directory: Path) -> None:
    log = open_log()
    put(log, b"one")
    end = log.chunks[0].end
    put(log, b"two" * 100)
    log.abandon()
    (path,) = chunk_files(str(directory))
    for size, torn in ((200, 200), (20, 20)):
        os.truncate(path, end + size)
        with Path(path).open("rb") as file:
            before = file.read()
        recovery = open_log().recovery
        assert (recovery.torn_records, recovery.torn_bytes) == (1, torn)
        assert Path(path).read_bytes() == before[:end]
        Path(path).write_bytes(before)
        (directory / "cursor").unlink()


@pytest.mark.parametrize("name", ["meta.tmp", "cursor"])
def test_without_room_for_the_first_start_nothing_stays_open(open_log: Open, name: str) -> None:
    disk = FaultyDisk()
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "write" and path.endswith(name) else None
    with pytest.raises(DiskFull):
        open_log(disk=disk)
    disk.fault = lambda operation, path: None
    works(open_log(disk=disk))


def test_without_room_for_a_copy_of_the_tail_nothing_of_it_stays(open_log: Open, directory: Path) -> None:
    disk = FaultyDisk()
    put(open_log(disk=disk), b"one")
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "write" and path.endswith("again.tmp") else None
    log = open_log(disk=disk)
    assert payloads(log) == [b"one"]
    assert "again.tmp" not in os.listdir(directory)


def test_a_link_where_the_copy_of_the_tail_goes_is_removed(open_log: Open, directory: Path) -> None:
    put(open_log(), b"one")
    (directory / "again.tmp").symlink_to("/dev/null")
    assert payloads(open_log()) == [b"one"]


def test_a_record_that_was_taken_out_is_missed(open_log: Open, directory: Path) -> None:
    """Though all that is there is sound."""
    log = open_log()
    put(log, b"one", b"two", b"three")
    checkpoint(log)
    (path,) = map(Path, chunk_files(str(directory)))
    data = path.read_bytes()
    path.write_bytes(data[:160] + data[160 + 56 :])
    log = open_log()
    assert [(gap.first, gap.last) for gap in log.recovery.gaps] == [(1, 1)]
    assert payloads(log) == [b"two", b"three"]


@pytest.mark.parametrize("proved", [False, True])
def test_any_byte_of_a_header_costs_its_record(open_log: Open, directory: Path, proved: bool) -> None:
    """A start says so at once, whether it was promised or not; it is one record."""
    log = open_log()
    put(log, b"one", b"two", b"three")
    checkpoint(log, force=proved)
    log.abandon()
    if not proved:
        (directory / "cursor").unlink()
    files = files_of(str(directory))
    (name,) = chunk_names(files)
    for byte in [*range(48), 50]:
        data = bytearray(files[name])
        data[160 + 56 + byte] ^= 1
        restore(str(directory), files | {name: bytes(data)})
        log = open_log(disk=QuickDisk())
        recovery = log.recovery
        assert [(gap.first, gap.last) for gap in recovery.gaps] == ([(2, 2)] if proved else [])
        assert (recovery.torn_records, recovery.torn_bytes) == ((0, 0) if proved else (1, 56))
        assert payloads(log) == [b"one", b"three"]
