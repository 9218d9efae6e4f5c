"""One table of damage, and everything that goes from record to record of a log: each must lose the same records and no other.

What lies where is computed here, by the format's page and not by the engine's code."""

import os
import struct
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from tests.examples import sampled
from tests.wal.test_range_reader import read_range
from tests.wal.tools import EVERYTHING, QuickDisk, files_of, put, read, restore
from walflow.wal import Gap, Log, LogOptions, Record
from walflow.wal.chunk import Pages
from walflow.wal.directory import Directory
from walflow.wal.format import chunk_seed, crc, unpack_chunk_header
from walflow.wal.range_reader import RangeReader
from walflow.wal.tools.inspect import check, look, records
from walflow.wal.tools.inspect.walk import outlines
from walflow.wal.walk import NEVER, look as look_at, pass_sound
from walflow_kernel.log_records import record_offsets

HEADER = struct.Struct("<4sI QqQ I HHI")  # and its checksum, as docs/reference/wal-format.md has them
CHUNK = 1 << 18
# tag, bytes, positions; the second and the third have one size, the fourth is larger than what is read at a time
WRITTEN = [
    (b"tag", 20, 3),
    (b"", 40, 1),
    (b"t" * 9, 31, 2),
    (b"", 150_000, 1),
    (b"", 0, 4),
    (b"x", 150_000, 2),  # in the second chunk
    (b"", 5, 1),
    (b"y", 30, 3),
]
LAST = len(WRITTEN) - 1
POSITIONS = sum(count for _, _, count in WRITTEN)

Files = dict[str, bytes]


class Placed(NamedTuple):
    """Where a record lies, and its positions."""

    file: str
    offset: int
    size: int
    positions: range


@cache
def sound() -> tuple[Files, list[Placed]]:
    with TemporaryDirectory() as path:
        log = Log(LogOptions(path, CHUNK, 8), QuickDisk())
        for tag, size, count in WRITTEN:
            put(log, bytes([65 + size % 26]) * size, tag=tag, count=count)
        log.close()
        files = files_of(path)
    placed = [place for name in sorted(files) if name.endswith(".wal") for place in _placed(name, files[name])]
    assert [len(one.positions) for one in placed] == [count for _, _, count in WRITTEN]
    assert len({one.file for one in placed}) == 2
    return files, placed


def _placed(name: str, data: bytes) -> Iterator[Placed]:
    at = 160
    while at < len(data):
        _, length, position, _, _, count, *_ = HEADER.unpack_from(data, at)
        size = (48 + length + 7) & ~7
        yield Placed(name, at, size, range(position, position + count))
        at += size


# ---- the damage


class Spoiled:
    """The files of the log, to be damaged by the number of a record."""

    def __init__(self) -> None:
        files, self.placed = sound()
        self.files = {name: bytearray(data) for name, data in files.items()}

    def flip(self, number: int, at: int) -> None:
        """A bit of a byte of the record; from its end, if negative."""
        place = self.placed[number]
        self.files[place.file][place.offset + (at if at >= 0 else place.size + at)] ^= 4

    def put(self, number: int, data: bytes, at: int = 0) -> None:
        place = self.placed[number]
        begin = place.offset + at
        self.files[place.file][begin : begin + len(data)] = data

    def bytes_of(self, number: int) -> bytes:
        place = self.placed[number]
        return bytes(self.files[place.file][place.offset : place.offset + place.size])

    def forge(self, number: int, field: int, value: int) -> None:
        """A header of the log's own, with the right checksum, that no log writes."""
        found = unpack_chunk_header(bytes(self.files[self.placed[number].file][:160]))
        assert found is not None
        uuid, chunk = found
        fields = list(HEADER.unpack_from(self.bytes_of(number)))
        fields[field] = value
        header = HEADER.pack(*fields)
        self.put(number, header + struct.pack("<I", crc(chunk_seed(uuid, chunk.first, chunk.salt), header)))


class Damage(NamedTuple):
    """`lost`: the numbers of the records that it costs; `headers`: of those that are not
    known by their header either."""

    name: str
    do: Callable[[Spoiled], None]
    lost: set[int]
    headers: set[int]


def header(name: str, *numbers: int, do: Callable[[Spoiled, int], None]) -> Iterator[Damage]:
    """What is wrong with the header alone costs the record, wherever it stands."""
    for number in numbers:
        yield Damage(f"{name} of {number}", partial(_at, do, number), {number}, {number})


def _at(do: Callable[[Spoiled, int], None], number: int, of: Spoiled) -> None:
    do(of, number)


def _flip(at: int, of: Spoiled, number: int) -> None:
    of.flip(number, at)


def untouched(of: Spoiled) -> None:
    pass


def flipped(*places: tuple[int, int]) -> Callable[[Spoiled], None]:
    def do(of: Spoiled) -> None:
        for number, at in places:
            of.flip(number, at)

    return do


def zeros(*numbers: int) -> Callable[[Spoiled], None]:
    def do(of: Spoiled) -> None:
        for number in numbers:
            of.put(number, bytes(of.placed[number].size))

    return do


FIELDS = {"word": 0, "length": 4, "position": 8, "time": 16, "commit": 24, "count": 32, "flags": 36, "tag": 38}
DAMAGES = [
    Damage("none", untouched, set(), set()),
    *[
        damage
        for name, at in {**FIELDS, "checksum of the body": 40, "checksum": 47}.items()
        for damage in header(name, 0, 3, LAST, do=partial(_flip, at))
    ],
    *header("zeros instead", 0, 3, 5, LAST, do=lambda of, number: of.put(number, bytes(of.placed[number].size))),
    *header("no position", 0, 3, LAST, do=lambda of, number: of.forge(number, 5, 0)),
    *header("a tag longer than the record", 0, 4, LAST, do=lambda of, number: of.forge(number, 7, 65_535)),
    *header("an end behind the chunk", 0, 3, 4, 5, LAST, do=lambda of, number: of.forge(number, 1, 1 << 30)),
    *header("a position too few", 1, 5, LAST, do=lambda of, n: of.forge(n, 2, of.placed[n].positions[0] - 1)),
    *header("the one before instead", 2, do=lambda of, number: of.put(number, of.bytes_of(number - 1))),
    Damage("the first byte of a tag", flipped((2, 48)), {2}, set()),
    Damage("the last byte of a tag", flipped((2, 48 + 8)), {2}, set()),
    Damage("the first byte of a payload", flipped((3, 48)), {3}, set()),
    Damage("the last byte of a large payload", flipped((3, -1)), {3}, set()),
    Damage("the last byte of all", flipped((LAST, 48 + 30)), {LAST}, {LAST}),
    Damage("what fills a record up", flipped((6, -1)), set(), set()),
    Damage("two headers", flipped((1, 0), (2, 0)), {1, 2}, {1, 2}),
    Damage("a header and the next body", flipped((1, 9), (2, 50)), {1, 2}, {1}),
    Damage("a body and the next header", flipped((1, 50), (2, 9)), {1, 2}, {2}),
    Damage("two bodies", flipped((5, 50), (6, 50)), {5, 6}, set()),
    Damage("the rest of a chunk", zeros(1, 2, 3, 4), {1, 2, 3, 4}, {1, 2, 3, 4}),
    Damage("all of a chunk", zeros(0, 1, 2, 3, 4), {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}),
]

# ---- what reads: the positions that are given, and those that are lost


class Given(NamedTuple):
    given: list[int]
    lost: set[int]


def opened(path: Path) -> Log:
    return Log(LogOptions(str(path), CHUNK, 8, cache_bytes=0), QuickDisk())


def _positions(records: list[Record]) -> list[int]:
    return [position for one in records for position in range(one.position, one.position + one.count)]


def _all_in(spans: list[tuple[int, int]]) -> set[int]:
    return {position for first, last in spans for position in range(first, last + 1)}


def by_reader(path: Path) -> Given:
    log = opened(path)
    given = _positions(read(log))
    lost = _all_in([(gap.first, gap.last) for gap in [*log.recovery.gaps, *log.gaps]])
    log.close()
    return Given(given, lost)


def by_range(path: Path, window: int) -> Given:
    log = opened(path)
    reader = RangeReader(log, window, 1)
    found = read_range(reader, 1, POSITIONS + 1)
    assert read_range(reader, 1, POSITIONS + 1) == found, "told again to whoever asks again"
    for first in range(2, POSITIONS + 1, 5):
        assert read_range(reader, first, POSITIONS + 1) == (
            [record for record in found.records if record.position + record.count > first],
            [(max(one, first), last) for one, last in found.lost if last >= first],
        )
    lost = _all_in(found.lost)
    assert not any(log.unacked(position, position) for position in lost), "nobody could ever ack them"
    assert _all_in([(gap.first, gap.last) for gap in [*log.recovery.gaps, *log.gaps]]) == lost
    log.close()
    return Given(_positions(found.records), lost)


def by_look(path: Path) -> Given:
    found = list(records(look(str(path)), 1, EVERYTHING))
    lost = _all_in([(one.first, one.last) for one in found if isinstance(one, Gap)])
    return Given(_positions([one for one in found if isinstance(one, Record)]), lost)


def by_check(path: Path) -> Given:
    """The scan of a start, of every chunk."""
    _, findings = check(str(path))
    lost = _all_in([(one.first, one.last) for one in findings if one.first])
    return Given([position for position in range(1, POSITIONS + 1) if position not in lost], lost)


READERS: dict[str, Callable[[Path], Given]] = {
    "reader": by_reader,
    "range by 48 bytes": lambda path: by_range(path, 48),
    "range by 4 kB": lambda path: by_range(path, 4096),
    "range by 1 MB": lambda path: by_range(path, 1 << 20),
    "look": by_look,
    "check": by_check,
}


@pytest.mark.parametrize("damage", sampled(DAMAGES), ids=[damage.name for damage in DAMAGES])
def test_everything_that_reads_loses_what_is_damaged_and_nothing_else(damage: Damage, tmp_path: Path) -> None:
    of = Spoiled()
    damage.do(of)
    files = {name: bytes(data) for name, data in of.files.items()}
    lost = {position for number in damage.lost for position in of.placed[number].positions}
    expected = Given([position for position in range(1, POSITIONS + 1) if position not in lost], lost)
    restore(str(tmp_path), files)
    assert by_look(tmp_path) == by_check(tmp_path) == expected
    view = look(str(tmp_path))
    sizes = [one for chunk in view.chunks for one in outlines(view.directory, chunk)]
    places = [place for number, place in enumerate(of.placed) if number not in damage.headers]
    assert sizes == [(place.positions[0], place.positions[-1], place.size) for place in places]
    for name, give in READERS.items():
        if give not in (by_look, by_check):  # it opens the log, and writes
            (tmp_path / name).mkdir()
            restore(str(tmp_path / name), files)
            assert give(tmp_path / name) == expected, name


@pytest.mark.test
@given(where=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), min_size=1, max_size=3))
def test_whatever_bytes_are_turned_all_readers_agree(where: list[tuple[float, int]]) -> None:
    """Behind the headers of chunks. Each byte costs its record, or none where it fills one up."""
    of = Spoiled()
    hit: set[int] = set()
    small = [number for number, (_, size, _) in enumerate(WRITTEN) if size < 1000]
    for share, mask in where:
        number = small[min(int(share * len(small)), len(small) - 1)]
        place = of.placed[number]
        at = int(share * 1e6) % place.size
        of.put(number, bytes([of.bytes_of(number)[at] ^ mask]), at)
        hit |= set(place.positions)
    files = {name: bytes(data) for name, data in of.files.items()}
    found: list[Given] = []
    for give in READERS.values():
        with TemporaryDirectory() as path:
            restore(path, files)
            found.append(give(Path(path)))
    assert found == [found[0]] * len(found)
    assert found[0].lost <= hit


# ---- the walk itself


def window_of(number: int) -> tuple[bytes, int, list[Placed]]:
    """A chunk's records from that one on, the chunk's seed, and where they lie."""
    files, placed = sound()
    places = [one for one in placed[number:] if one.file == placed[number].file]
    found = unpack_chunk_header(files[places[0].file])
    assert found is not None
    uuid, chunk = found
    return files[places[0].file][places[0].offset :], chunk_seed(uuid, chunk.first, chunk.salt), places


def test_a_run_ends_where_it_is_told_to() -> None:
    data, seed, places = window_of(5)
    first, second, third = (one.positions[0] for one in places)
    ends = [one.offset + one.size - places[0].offset for one in places]
    whole = pass_sound(data, seed, first)
    assert (whole.behind, whole.position, whole.records, whole.marked, whole.cut) == (len(data), third + 3, 3, -1, 0)
    assert whole.header is not None
    assert whole.header[2] == third
    assert pass_sound(data, seed, first, stop=ends[0]).behind == ends[0]
    assert pass_sound(data, seed, first, stop=ends[0] + 1).behind == ends[1]
    assert pass_sound(data, seed, first, end=second).position == second
    assert pass_sound(data, seed, first, end=second + 1).position == third
    assert pass_sound(data, seed, second, ends[0]).records == 2
    assert pass_sound(data, seed, second).records == 0, "another position"
    assert pass_sound(data, seed ^ 1, first).records == 0, "of another chunk"
    assert [pass_sound(data, seed, first, mark=mark).marked for mark in (0, first, second, third, third + 2)] == [
        0,
        0,
        ends[0],
        ends[1],
        ends[1],
    ]
    assert pass_sound(data, seed, first, mark=third + 3).marked == -1


@pytest.mark.parametrize(("wanted", "passed", "cut"), [(0, 0, True), (9, 0, True), (11, 1, False)])
def test_of_a_record_that_is_cut_off_by_its_window_the_header_is_enough_where_it_is_not_wanted(
    wanted: int, passed: int, cut: bool
) -> None:
    data, seed, places = window_of(3)
    place, after = places[0], places[1]
    wanted = {0: 0, 9: place.positions[-1], 11: after.positions[0]}[wanted]
    run = pass_sound(data[:100], seed, place.positions[0], limit=len(data), wanted=wanted)
    assert (run.records, run.cut, run.behind) == (passed, place.size if cut else 0, place.size if passed else 0)
    for limit in (0, place.size - 1):
        assert pass_sound(data[:100], seed, place.positions[0], limit=limit, wanted=wanted).records == 0
    assert pass_sound(data[:100], seed, place.positions[0], limit=place.size, wanted=NEVER).records == 1


def test_offsets_are_of_whole_records_alone() -> None:
    data, _, places = window_of(4)
    [alone] = places
    assert record_offsets(data) == ([0], alone.size)
    data, _, places = window_of(5)
    offsets = [one.offset - places[0].offset for one in places]
    assert record_offsets(data) == (offsets, len(data))
    for cut in (len(data) - 1, offsets[2] + 48, offsets[2] + 47, offsets[2]):
        assert record_offsets(memoryview(data)[:cut]) == (offsets[:2], offsets[2])
    assert record_offsets(data + bytes(48)) == (offsets, len(data))
    assert record_offsets(b"") == ([], 0)


def test_no_reader_searches_behind_a_doubt() -> None:
    """What refuses is asked before the next sound header is looked for, and only where there is none."""
    of = Spoiled()
    placed = of.placed
    of.flip(1, 0)
    with TemporaryDirectory() as path:
        restore(path, {name: bytes(data) for name, data in of.files.items()})
        disk = QuickDisk()
        fd = disk.open(os.path.join(path, placed[1].file))
        data = bytes(of.files[placed[1].file])
        pages = Pages(Directory(path, disk), placed[1].file, fd, len(data))
        _, seed, _ = window_of(0)
        asked: list[int] = []
        for number in (0, 1, 2):
            place = placed[number]
            found = look_at(
                pages, seed, place.offset, place.positions[0], 99, doubt=lambda _, offset: asked.append(offset)
            )
            assert found.after == place.offset + place.size
            assert (found.record is None) == (number == 1)
        assert asked == [placed[1].offset]
        disk.close(fd)
