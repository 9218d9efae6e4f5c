"""Which files are the log's: copies, chunks under other names, and what only looks like a chunk."""

import os
from pathlib import Path

import pytest

from tests.wal.conftest import Open
from tests.wal.tools import chunk_files, payloads, put, works

RECORDS = [b"1" * 900, b"2" * 900, b"3" * 900]  # each has a chunk of its own


@pytest.fixture
def second(open_log: Open, directory: Path) -> bytes:
    """What the second of three chunks holds."""
    log = open_log(1024)
    put(log, *RECORDS)
    log.abandon()
    return Path(chunk_files(str(directory))[1]).read_bytes()


@pytest.mark.parametrize("name", ["0.wal", f"{0:020d}.wal", f"{99:020d}.wal"])
def test_of_two_copies_the_one_with_the_name_is_the_logs(
    open_log: Open, directory: Path, second: bytes, name: str
) -> None:
    """Whichever is seen first. The other one is older, and so may be shorter."""
    (directory / name).write_bytes(second[:300])
    log = open_log(1024)
    assert payloads(log) == RECORDS
    assert log.recovery.lines() == [
        f"{name} is a copy of another chunk, or of another log: moved to quarantine/{name}"
    ]
    assert (directory / "quarantine" / name).read_bytes() == second[:300]
    works(log)


@pytest.mark.parametrize("name", ["copy.wal", f"{99:020d}.wal"])
def test_a_chunk_gets_its_name_back(open_log: Open, directory: Path, second: bytes, name: str) -> None:
    os.rename(chunk_files(str(directory))[1], directory / name)
    log = open_log(1024)
    assert payloads(log) == RECORDS
    assert log.recovery.lines() == [f"{name} is chunk 2: renamed"]
    assert Path(chunk_files(str(directory))[1]).read_bytes() == second
    works(log)


def test_what_has_no_header_is_the_logs_by_its_name_alone(open_log: Open, directory: Path, second: bytes) -> None:
    name = f"{99:020d}.wal"
    for each in (name, "99.wal"):
        (directory / each).write_bytes(b"?" * 300)
    log = open_log(1024)
    assert payloads(log) == RECORDS
    assert log.recovery.lines() == [f"{name} has no sound header: moved to quarantine/{name}"]
    assert (directory / "99.wal").read_bytes() == b"?" * 300
    works(log)
