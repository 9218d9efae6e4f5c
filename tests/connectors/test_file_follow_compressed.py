"""Older files that are compressed: read once, known again as what was followed, and no danger to others."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from connectors.file.file_source import ALGORITHMS
from connectors.file.follow.compressed_file import STEP_BYTES
from tests.connectors.test_file_follow import Run, append
from walflow.errors import WalflowError
from walflow.framing.compression import FORMATS

WAIT = 12  # seconds: longer than `rotate_wait`
PATTERN = "app.log*"


def lines(first: int, last: int) -> bytes:
    return b"".join(b"line %d %s\n" % (number, b"x" * (number % 90)) for number in range(first, last))


def words(data: bytes) -> list[bytes]:
    return data.splitlines()


def compress(path: Path) -> Path:
    """As gzip does: the file is gone then."""
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return packed


@pytest.mark.parametrize(("ending", "algorithm"), ALGORITHMS.items())
async def test_each_is_read_once_from_its_beginning(tmp_path: Path, ending: str, algorithm: str) -> None:
    old, form = tmp_path / f"app.log.2{ending}", FORMATS[algorithm]
    old.write_bytes(form.compress(lines(0, 5000) + b"the last one", form.level))
    append(tmp_path / "app.log", b"now\n")
    async with Run(tmp_path, PATTERN) as run:
        await run.passing(WAIT)
        assert run.of("app.log") == [b"now"]
        assert run.of(old.name) == [*words(lines(0, 5000)), b"the last one"]
        old.rename(tmp_path / f"app.log.3{ending}")
        append(tmp_path / "app.log", b"later\n")
        await run.passing(WAIT)
        assert run.of(f"app.log.3{ending}") == []
    async with Run(tmp_path, PATTERN) as run:
        await run.passing(WAIT)
        assert run.lines == []


async def test_several_members_and_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "app.log.1.gz").write_bytes(gzip.compress(b"1\nha") + gzip.compress(b"lf\n") + gzip.compress(b""))
    (tmp_path / "app.log.2.gz").write_bytes(b"")
    async with Run(tmp_path, PATTERN) as run:
        await run.passing(WAIT)
        assert run.lines == [b"1", b"half"]


@pytest.mark.parametrize("count", [3, 5000])
async def test_what_was_followed_is_not_read_again_once_it_is_compressed(tmp_path: Path, count: int) -> None:
    log = tmp_path / "app.log"
    append(log, lines(0, count))
    async with Run(tmp_path, PATTERN) as run:
        log.rename(tmp_path / "app.log.1")
        append(log, b"new\n")
        await run.passing(1)
        compress(tmp_path / "app.log.1")
        await run.passing(3 * WAIT)
        append(log, b"newer\n")
        await run.passing(WAIT)
        assert run.lines == [*words(lines(0, count)), b"new", b"newer"]


async def test_also_not_where_it_is_compressed_long_after_it_was_read(tmp_path: Path) -> None:
    """`delaycompress`, and a pattern without the names of renamed files."""
    log = tmp_path / "app.log"
    append(log, lines(0, 1000))
    (tmp_path / "old").mkdir()
    async with Run(tmp_path, PATTERN) as run:
        log.rename(tmp_path / "old" / "app.log.1")
        await run.passing(3 * WAIT)
    async with Run(tmp_path, PATTERN) as run:
        compress(tmp_path / "old" / "app.log.1").rename(tmp_path / "app.log.2.gz")
        await run.passing(WAIT)
        assert run.lines == []


@pytest.mark.parametrize("acked", [1000, 5000])
async def test_what_came_while_walflow_was_down_is_read_from_the_compressed_one(tmp_path: Path, acked: int) -> None:
    log = tmp_path / "app.log"
    append(log, lines(0, acked))
    async with Run(tmp_path, PATTERN) as run:
        assert run.lines == words(lines(0, acked))
    append(log, lines(acked, acked + 1000))
    compress(log)
    async with Run(tmp_path, PATTERN) as run:
        await run.passing(WAIT)
        assert run.lines == words(lines(acked, acked + 1000))


async def test_also_not_where_the_program_has_written_on_while_it_was_compressed(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, lines(0, 2000))
    async with Run(tmp_path, PATTERN) as run:
        log.rename(tmp_path / "app.log.1")
        with (tmp_path / "app.log.1").open("ab") as program:
            await run.passing(1)
            compress(tmp_path / "app.log.1")
            for number in range(2000, 2010):
                program.write(lines(number, number + 1))
                program.flush()
                await run.passing(1)
        await run.passing(4 * WAIT)
        assert run.lines == words(lines(0, 2010))


async def test_an_inode_that_a_compressed_file_had_is_another_file_now(tmp_path: Path) -> None:
    old = tmp_path / "app.log.1.gz"
    old.write_bytes(gzip.compress(b"old\n"))
    async with Run(tmp_path, PATTERN) as run:
        await run.passing(2 * WAIT)
        old.write_bytes(b"new\nnewer\n")
        old.rename(tmp_path / "app.log")  # as if a new file had been given its inode
        await run.passing(WAIT)
        assert run.lines == [b"old", b"new", b"newer"]


async def test_of_several_that_begin_alike_the_right_one_is_known(tmp_path: Path) -> None:
    banner = b"a program of many words begins\n" * 50
    contents = [banner + lines(at, at + 100) for at in (0, 1000, 2000)]
    log = tmp_path / "app.log"
    async with Run(tmp_path, PATTERN) as run:
        for number, content in enumerate(contents):
            append(log, content)
            await run.passing(1)
            log.rename(tmp_path / f"app.log.{number}")
        await run.passing(1)
        assert len(run.lines) == sum(len(words(content)) for content in contents)
    for number in range(3):
        compress(tmp_path / f"app.log.{number}")
    (tmp_path / "app.log.9.gz").write_bytes(gzip.compress(banner + lines(5000, 5100)))
    async with Run(tmp_path, PATTERN) as run:
        await run.passing(WAIT)
        assert run.lines == words(banner + lines(5000, 5100))


async def test_after_a_failure_it_is_read_again_from_what_is_acked(tmp_path: Path) -> None:
    (tmp_path / "app.log.1.gz").write_bytes(gzip.compress(lines(0, 30_000)))
    async with Run(tmp_path, PATTERN, acks=False) as run:
        await run.passing(WAIT)
        first, *others = [*run.taker.blocks]
        run.taker.blocks.clear()
        first.receipt.ack()
        for block in others:
            block.receipt.fail(WalflowError("the sink is away"))
        await run.passing(WAIT)
        assert run.lines == words(lines(0, 30_000))[-len(run.lines) :]
        assert len(run.lines) >= 30_000 - first.frames.count


@pytest.mark.test
async def test_a_restart_goes_on_in_the_middle_of_it(tmp_path: Path) -> None:
    """More of it than one step on the way there."""
    data = lines(0, 2 * STEP_BYTES // 50)
    (tmp_path / "app.log.1.gz").write_bytes(gzip.compress(data))
    async with Run(tmp_path, PATTERN, acks=False) as run:
        await run.passing(WAIT)
        for block in run.taker.blocks[:-1]:
            block.receipt.ack()
        left = run.taker.blocks[-1].frames.count
        await run.passing(1)
        run.taker.blocks[-1].receipt.fail(WalflowError("killed"))
    async with Run(tmp_path, PATTERN) as run:
        await run.passing(WAIT)
        assert run.lines == words(data)[-len(run.lines) :]
        assert left <= len(run.lines) < 5 * 4096, "what was acked came again"


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes(byte ^ 0xFF for byte in data[middle : middle + 8]) + data[middle + 8 :]


def no_gzip(data: bytes) -> bytes:
    return b"plain text, and no gzip\n"


@pytest.mark.parametrize("spoil", [cut, flipped, no_gzip])
async def test_a_damaged_one_is_said_and_the_others_go_on(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    damaged = tmp_path / "app.log.1.gz"
    damaged.write_bytes(spoil(gzip.compress(lines(0, 50_000))))
    (tmp_path / "app.log.2.gz").write_bytes(gzip.compress(b"older\n"))
    append(tmp_path / "app.log", b"1\n")
    with structlog.testing.capture_logs() as logs:
        async with Run(tmp_path, PATTERN) as run:
            await run.passing(WAIT)
            append(tmp_path / "app.log", b"2\n")
            await run.passing(WAIT)
            assert run.of("app.log") == [b"1", b"2"]
            assert run.of("app.log.2.gz") == [b"older"]
            whole = run.of("app.log.1.gz")
            right = 20_000 if spoil is flipped else len(whole)  # gzip may give wrong bytes just before it notices
            assert whole[:right] == words(lines(0, 50_000))[:right]
            assert bool(whole) is (spoil is not no_gzip)
            assert len([error for block in run.errors.blocks for error in block.values]) >= 1
        async with Run(tmp_path, PATTERN) as run:
            await run.passing(WAIT)
            assert run.lines == []
    said = [line["event"] for line in logs if line["log_level"] == "error"]
    assert len(said) == 1
    assert said[0].startswith(f"{damaged} is damaged: ")


async def test_one_that_is_written_yet_is_read_once_it_is_whole(tmp_path: Path) -> None:
    packed = gzip.compress(lines(0, 50_000))
    file = tmp_path / "app.log.1.gz"
    async with Run(tmp_path, PATTERN) as run:
        for begin in range(0, len(packed), 20_000):
            append(file, packed[begin : begin + 20_000])
            await run.passing(WAIT / 2)
        assert run.lines == []
        await run.passing(WAIT)
        assert run.lines == words(lines(0, 50_000))
        assert run.errors.blocks == []


async def test_what_is_written_on_behind_what_looked_like_damage_is_read(tmp_path: Path) -> None:
    packed = gzip.compress(lines(0, 50_000))
    file = tmp_path / "app.log.1.gz"
    append(file, packed[: len(packed) // 2])
    async with Run(tmp_path, PATTERN) as run:
        await run.passing(2 * WAIT)
        assert 0 < len(run.lines) < 50_000
        append(file, packed[len(packed) // 2 :])
        await run.passing(2 * WAIT)
        assert run.lines == words(lines(0, 50_000))


async def test_from_the_end_means_that_those_that_are_there_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "app.log.1.gz").write_bytes(gzip.compress(b"old\n"))
    append(tmp_path / "app.log", b"1\n")
    async with Run(tmp_path, PATTERN, read_from="end") as run:
        append(tmp_path / "app.log", b"2\n")
        await run.passing(2 * WAIT)
        assert run.lines == [b"2"]


async def test_a_dropped_one_is_read_also_if_another_file_had_the_same_content(tmp_path: Path) -> None:
    async with Run(tmp_path, "*.csv*", delete=True) as run:
        (tmp_path / "1.csv").write_bytes(lines(0, 100))
        await run.passing(2 * WAIT)
        (tmp_path / "2.csv.gz").write_bytes(gzip.compress(lines(0, 100)))
        await run.passing(3 * WAIT)
        assert run.lines == words(lines(0, 100)) * 2
        assert not (tmp_path / "2.csv.gz").exists()


async def test_a_dropped_one_is_deleted_when_it_is_acked(tmp_path: Path) -> None:
    file = tmp_path / "app.log.1.gz"
    file.write_bytes(gzip.compress(b"1\n2\n"))
    async with Run(tmp_path, PATTERN, delete=True) as run:
        await run.passing(2 * WAIT)
        assert run.lines == [b"1", b"2"]
        assert not file.exists()
