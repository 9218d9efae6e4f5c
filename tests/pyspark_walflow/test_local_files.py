"""The log's files, read by another process than the daemon:
whole records and nothing else, or an error that says so."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pyspark_walflow.local_files import FilePart, UnreadableFile
from pyspark_walflow.wire import Damaged
from tests.pyspark_walflow.logs import Given, records
from walflow_kernel import log_records

EVENTS = st.lists(
    st.lists(st.binary(max_size=300).map(lambda some: some.replace(b"\n", b"")), min_size=1, max_size=9)
)


def written(directory: Path, blocks: list[list[bytes]]) -> FilePart:
    """Behind 100 bytes that are no records, and before 50."""
    seed, data = records(directory / "log", [Given(events) for events in blocks])
    file = directory / "file"
    file.write_bytes(b"?" * 100 + data + b"?" * 50)
    return FilePart(str(file), seed, 100, 100 + len(data))


def headers(pieces: list[bytes]) -> list[tuple[int, int]]:
    """(position, count) of each record."""
    found: list[tuple[int, int]] = []
    for data in pieces:
        at = 0
        while at < len(data):
            _, length, position, _, _, count, *_ = log_records.RECORD.unpack_from(data, at)
            found.append((position, count))
            at += (48 + length + 7) & ~7
        assert at == len(data)
    return found


@pytest.mark.test
@given(blocks=EVENTS.filter(bool), window=st.integers(48, 4000), share=st.floats(0, 1))
def test_all_records_come_up_to_the_last_that_is_wanted(blocks: list[list[bytes]], window: int, share: float) -> None:
    total = sum(map(len, blocks))
    end = 1 + round(share * total)
    with TemporaryDirectory() as directory:
        part = written(Path(directory), blocks)
        pieces = [bytes(records) for records in part.records(end, window)]
    found = headers(pieces)
    expected, position = [], 1
    for events in blocks:
        expected.append((position, len(events)))
        position += len(events)
    wanted = [one for one in expected if one[0] < end] or expected[:1]
    assert found == wanted


def test_a_record_larger_than_the_window_comes_whole(tmp_path: Path) -> None:
    part = written(tmp_path, [[b"a"], [b"x" * 3_000_000], [b"b"]])
    assert headers([bytes(records) for records in part.records(4)]) == [(1, 1), (2, 1), (3, 1)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offset": 0}, "no record begins with b'[?]{4}'"),
        ({"offset": 101}, "no record begins with"),
        ({"limit": 1 << 30}, "ends at byte [0-9]+, and its records before 1073741824"),
        ({"limit": 110}, "has no record at byte 100"),
        ({"limit": 150}, "has no record at byte 100"),
    ],
)
def test_what_is_no_record_is_damage(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    part = written(tmp_path, [[b"some event"]])._replace(**change)
    with pytest.raises(Damaged, match=message):
        list(part.records(100))


@pytest.mark.parametrize("what", ["nothing", "a directory", "a pipe"])
def test_what_is_no_file_cannot_be_read(what: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if what == "a directory":
        path.mkdir()
    elif what == "a pipe":
        os.mkfifo(path)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(UnreadableFile, match=str(path)):
        list(FilePart(str(path), 1, 0, 100).records(9))
    assert len(os.listdir("/proc/self/fd")) == len(before)
