"""Arbitrary bytes as a log's directory: it starts and works, or refuses with one line. It reads no more than a few
times what is there, and no more at once than a window, so neither time nor memory depends on what the bytes say."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from tests.examples import examples
from tests.faults.damage import OPTIONS, PATH, small_logs
from tests.system.daemon import Client, echo_flow, running
from tests.wal.tools import EVERYTHING, works
from walflow.errors import WalflowError
from walflow.testing import MemoryDisk
from walflow.wal import Log

LOGS = small_logs()
NAMES = ["LOCK", "meta", "cursor", "meta.tmp", "again.tmp", f"spare.{1:020d}", "notes", "x.wal"]
NAMES += [f"{first:020d}.wal" for first in (0, 1, 13, 22, 31, 10**19, 99999999999999999999)]
AT_ONCE = 1 << 20  # bytes


class Measured(MemoryDisk):
    """How many bytes were read of it, and how many at once."""

    taken = most = 0

    def read(self, fd: int, size: int, offset: int) -> bytes:
        data = super().read(fd, size, offset)
        self.taken += len(data)
        self.most = max(self.most, size)
        return data


def starts_or_refuses(files: dict[str, bytes]) -> bool:
    disk = Measured(files)
    size = disk.used()
    try:
        log = Log(OPTIONS, disk)
    except WalflowError as refused:
        line = str(refused)
        assert "\n" not in line
        assert PATH in line
        return False
    try:
        log.reader().read(EVERYTHING)
        assert disk.taken <= 10 * size + (1 << 16), f"{disk.taken} bytes read of {size}"
        assert disk.most <= AT_ONCE
        works(log)
        log.reader().read(EVERYTHING)
    finally:
        log.close()
    return True


noise = st.binary(max_size=2000)
pieces = st.sampled_from([data for small in LOGS.values() for data in small.files.values()]).flatmap(
    lambda data: st.tuples(st.integers(0, len(data)), st.integers(0, len(data))).map(
        lambda ends: data[min(ends) : max(ends)]
    )
)
spoiled = st.tuples(
    st.sampled_from([data for small in LOGS.values() for data in small.files.values()]),
    st.lists(st.tuples(st.integers(0, 10_000), st.binary(min_size=1, max_size=9)), max_size=6),
).map(lambda given: spoil(*given))


def spoil(data: bytes, places: list[tuple[int, bytes]]) -> bytes:
    spoilt = bytearray(data)
    for at, what in places:
        at %= len(data) + 1
        spoilt[at : at + len(what)] = what
    return bytes(spoilt)


directories = st.dictionaries(st.sampled_from(NAMES), st.one_of(noise, pieces, spoiled, st.just(b"")))


def among(garbage: dict[str, bytes], beside: str | None) -> None:
    """Alone, or among the files of a real log."""
    real = dict(LOGS[beside].files) if beside is not None else {}
    starts_or_refuses(real | {f"{PATH}/{name}": data for name, data in garbage.items()})


@settings(max_examples=examples(400))
@given(directories, st.sampled_from([None, *LOGS]))
@pytest.mark.test
def test_any_bytes(garbage: dict[str, bytes], beside: str | None) -> None:
    among(garbage, beside)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@settings(max_examples=50_000, deadline=None)
@given(directories, st.sampled_from([None, *LOGS]))
def test_any_bytes_for_longer(garbage: dict[str, bytes], beside: str | None) -> None:
    among(garbage, beside)


def test_a_log_of_noise_is_a_new_log() -> None:
    chance = Random(1)
    assert starts_or_refuses({f"{PATH}/{name}": chance.randbytes(3000) for name in NAMES})


def test_lengths_that_are_lies() -> None:
    """A record that says that it has 4 GiB, with a sound checksum: nothing of that size is asked for."""
    from walflow.wal.format import CHECKSUM, RECORD_HEADER, RecordHeader, chunk_seed, crc, unpack_chunk_header

    for small in LOGS.values():
        path = small.chunks[-1]
        data = bytearray(small.files[path])
        found = unpack_chunk_header(bytes(data[:160]))
        assert found is not None
        seed = chunk_seed(found[0], found[1].first, found[1].salt)
        at = small.records[-1].offset
        header = RecordHeader(*RECORD_HEADER.unpack_from(data, at))
        fields = RECORD_HEADER.pack(*header._replace(length=2**32 - 1))
        data[at : at + 48] = fields + CHECKSUM.pack(crc(seed, fields))
        assert starts_or_refuses({**small.files, path: bytes(data)})


def a_directory_as_meta(state: Path) -> None:
    (state / "meta").mkdir()


def a_link_as_cursor(state: Path) -> None:
    (state / "cursor").symlink_to("/dev/zero")


def a_pipe_as_lock(state: Path) -> None:
    os.mkfifo(state / "LOCK")


def a_pipe_as_cursor(state: Path) -> None:
    os.mkfifo(state / "cursor")


def noise_everywhere(state: Path) -> None:
    chance = Random(2)
    for name in ("LOCK", "meta", "cursor", f"{1:020d}.wal", f"{7:020d}.wal", f"spare.{1:020d}"):
        (state / name).write_bytes(chance.randbytes(20_000))


def a_large_file_of_nothing(state: Path) -> None:
    with open(state / f"{1:020d}.wal", "wb") as file:
        file.truncate(256 << 20)


@pytest.mark.parametrize("garbage", [a_directory_as_meta, a_link_as_cursor, a_pipe_as_lock, a_pipe_as_cursor])
def test_a_daemon_refuses_in_one_line(tmp_path: Path, garbage: Callable[[Path], None]) -> None:
    (tmp_path / "state").mkdir()
    garbage(tmp_path / "state")
    with running(echo_flow(tmp_path), tmp_path) as daemon:
        assert daemon.wait() == 74
    (fatal,) = [line for line in daemon.lines if line["event"] == "fatal"]
    assert str(fatal["error"]).startswith("state/")
    if garbage not in (a_pipe_as_lock, a_pipe_as_cursor):  # a pipe stops a start by a failed write
        assert "run: walflow wal repair state" in str(fatal["error"])
    assert "Traceback" not in "".join(daemon.raw)


@pytest.mark.parametrize("garbage", [noise_everywhere, a_large_file_of_nothing])
def test_a_daemon_starts_and_works(tmp_path: Path, garbage: Callable[[Path], None]) -> None:
    (tmp_path / "state").mkdir()
    garbage(tmp_path / "state")
    with running(echo_flow(tmp_path), tmp_path) as daemon:
        client = Client(daemon.port())
        client.send(b'"fresh"\n')
        assert client.lines(1) == [b'"fresh"']
        client.close()
        assert daemon.memory < 200 << 20
        assert daemon.terminate() == 0
