"""Files that `copytruncate` copies and cuts: real files, the copy is known by what is in it,
and each line comes once."""

import gzip
import os
import shutil
from pathlib import Path

import pytest
import structlog

from tests.connectors.test_file_follow import BANNER, Run, append
from tests.connectors.test_file_follow_compressed import WAIT, compress, lines, words

PATTERN = "app.log*"
SIZES = [3, 3000]  # less than the first KiB, and more


def copytruncate(log: Path, name: str = "app.log.1") -> Path:
    copy = log.with_name(name)
    shutil.copyfile(log, copy)
    os.truncate(log, 0)
    return copy


@pytest.mark.parametrize("count", SIZES)
async def test_the_copy_is_known_and_the_file_goes_on(tmp_path: Path, count: int) -> None:
    log = tmp_path / "app.log"
    append(log, lines(0, count))
    with structlog.testing.capture_logs() as logs:
        async with Run(tmp_path, PATTERN) as run:
            copy = copytruncate(log)
            append(log, lines(count, count + 2))
            await run.passing(1)
            append(log, lines(count + 2, count + 3))
            await run.passing(2 * WAIT)
            assert run.lines == words(lines(0, count + 3))
    said = [line["event"] for line in logs if line["log_level"] == "info"]
    size = len(lines(0, count))
    assert said.count(
        f"{log} was copied to {copy}, and cut: the copy is read on from byte {size}, "
f"and {log} is read from its beginning"
    ) == 1  # fmt: skip
    assert not [line for line in logs if line["log_level"] == "warning"]
    async with Run(tmp_path, PATTERN) as run:
        await run.passing(2 * WAIT)
        assert run.lines == []


@pytest.mark.parametrize("count", SIZES)
async def test_what_was_not_read_before_the_cut_is_read_from_the_copy_and_before_the_new(
    tmp_path: Path, count: int
) -> None:
    log = tmp_path / "app.log"
    append(log, lines(0, count))
    async with Run(tmp_path, PATTERN) as run:
        append(log, lines(count, count + 5)[:-3])  # half a line at the end
        copytruncate(log)
        append(log, b"new\n")
        await run.passing(2 * WAIT)
        assert run.lines == [*words(lines(0, count + 4)), b"new"]
        append(tmp_path / "app.log.1", lines(count, count + 5)[-3:])
        await run.passing(1)
        assert run.lines[-1] == words(lines(count + 4, count + 5))[0]


@pytest.mark.parametrize("count", SIZES)
async def test_also_while_it_was_down(tmp_path: Path, count: int) -> None:
    log = tmp_path / "app.log"
    append(log, lines(0, count))
    async with Run(tmp_path, PATTERN) as run:
        assert run.lines == words(lines(0, count))
    append(log, lines(count, count + 50))
    copytruncate(log)
    append(log, b"new\n" * count * 100)  # and longer than it was
    async with Run(tmp_path, PATTERN) as run:
        await run.passing(2 * WAIT)
        assert run.lines == [*words(lines(count, count + 50)), *[b"new"] * count * 100]


@pytest.mark.parametrize("step", [100, 1000, 7000])
async def test_a_copy_that_is_seen_while_it_is_written_waits(tmp_path: Path, step: int) -> None:
    log, copy = tmp_path / "app.log", tmp_path / "app.log.1"
    content = lines(0, 500)
    append(log, content)
    async with Run(tmp_path, PATTERN) as run:
        copy.touch()
        await run.passing(1)
        for at in range(0, len(content), step):
            append(copy, content[at : at + step])
            await run.passing(0.5)
        os.truncate(log, 0)
        append(log, b"new\n")
        await run.passing(2 * WAIT)
        assert run.lines == [*words(content), b"new"]


async def test_lines_that_were_written_and_read_between_copy_and_cut_come_once(tmp_path: Path) -> None:
    log, copy = tmp_path / "app.log", tmp_path / "app.log.1"
    async with Run(tmp_path, PATTERN) as run:
        for number in range(0, 500, 50):
            append(log, lines(number, number + 50))
            await run.passing(0.5)
        shutil.copyfile(log, copy)
        append(log, lines(500, 510))
        await run.passing(1)
        os.truncate(log, 0)
        append(log, b"new\n")
        await run.passing(2 * WAIT)
        assert run.lines == [*words(lines(0, 510)), b"new"]
    async with Run(tmp_path, PATTERN) as run:
        await run.passing(2 * WAIT)
        assert run.lines == []


@pytest.mark.parametrize("fails", [False, True])
async def test_they_come_once_also_where_the_sinks_have_not_taken_them_yet(tmp_path: Path, fails: bool) -> None:
    log, copy = tmp_path / "app.log", tmp_path / "app.log.1"
    append(log, lines(0, 500))
    async with Run(tmp_path, PATTERN, acks=False) as run:
        run.taker.ack_all()
        append(log, lines(500, 520))
        await run.passing(1)
        shutil.copyfile(log, copy)
        append(log, lines(520, 530))
        await run.passing(1)
        os.truncate(log, 0)
        append(log, b"new\n")
        await run.passing(1)
        assert run.lines == words(lines(0, 530)), "what comes next depends on what becomes of these"
        sent = len(run.taker.blocks)
        for block in run.taker.blocks[1:]:
            block.receipt.fail(OSError("no")) if fails else block.receipt.ack()
        await run.passing(3)
        again = [line for block in run.taker.blocks[sent:] for line in block.frames.payloads()]
        assert again == [*(words(lines(500, 520)) if fails else []), b"new"]


async def test_the_same_where_the_sinks_have_taken_nothing_yet(tmp_path: Path) -> None:
    """What was sent counts: it fails, and is read again from the copy."""
    log = tmp_path / "app.log"
    append(log, lines(0, 300))
    async with Run(tmp_path, PATTERN, acks=False) as run:
        assert run.lines == words(lines(0, 300))
        append(log, lines(300, 310))
        copytruncate(log)
        append(log, b"new\n")
        await run.passing(1)
        assert run.lines == [*words(lines(0, 310)), b"new"]
        run.taker.blocks[0].receipt.fail(OSError("no"))
        for block in run.taker.blocks[1:]:
            block.receipt.ack()
        sent = len(run.taker.blocks)
        await run.passing(2)
        again = [line for block in run.taker.blocks[sent:] for line in block.frames.payloads()]
        assert again == words(lines(0, 310))


async def test_cut_twice_while_the_flow_takes_nothing_each_copy_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, lines(0, 100))
    async with Run(tmp_path, PATTERN) as run:
        run.out.gate.trigger("a sink", "full")
        await run.passing(1)
        append(log, lines(100, 200))
        copytruncate(log)
        append(log, lines(200, 300))
        await run.passing(2 * WAIT)
        (tmp_path / "app.log.1").rename(tmp_path / "app.log.2")
        copytruncate(log)
        append(log, lines(300, 400))
        await run.passing(2 * WAIT)
        run.out.gate.restore("a sink")
        await run.passing(2 * WAIT)
        assert sorted(run.lines) == sorted(words(lines(0, 400)))


@pytest.mark.parametrize("down", [False, True])
async def test_several_generations_the_older_ones_compressed(tmp_path: Path, down: bool) -> None:
    """As logrotate does: .1 becomes .2, which is compressed, and .1 is the copy."""
    log = tmp_path / "app.log"
    run = Run(tmp_path, PATTERN)
    await run.__aenter__()
    sent: list[bytes] = []
    for number in range(0, 400, 100):
        append(log, lines(number, number + 90))
        await run.passing(1)
        if down:
            await run.__aexit__()
            sent += run.lines
        append(log, lines(number + 90, number + 100))
        if (tmp_path / "app.log.1").exists():
            (tmp_path / "app.log.1").rename(tmp_path / f"app.log.{number}")
            compress(tmp_path / f"app.log.{number}")
        copytruncate(log)
        if down:
            run = Run(tmp_path, PATTERN)
            await run.__aenter__()
        await run.passing(1)
    await run.passing(3 * WAIT)
    await run.__aexit__()
    assert [*sent, *run.lines] == words(lines(0, 400))


@pytest.mark.parametrize("seen", [False, True])
async def test_a_copy_that_is_compressed_is_known_too(tmp_path: Path, seen: bool) -> None:
    log = tmp_path / "app.log"
    append(log, lines(0, 2000))
    async with Run(tmp_path, PATTERN) as run:
        append(log, lines(2000, 2100))
        copy = copytruncate(log)
        if seen:
            await run.passing(1)
        compress(copy)
        append(log, b"new\n")
        await run.passing(4 * WAIT)
        assert sorted(run.lines) == sorted([*words(lines(0, 2100)), b"new"])


async def test_compressed_it_is_known_by_what_was_acked_after_the_cut(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, lines(0, 2000))
    async with Run(tmp_path, PATTERN, acks=False) as run:
        (tmp_path / "app.log.1.gz").write_bytes(gzip.compress(log.read_bytes()))
        log.write_bytes(b"new\n")
        await run.passing(1)
        run.taker.ack_all()
        await run.passing(4 * WAIT)
        assert run.lines == [*words(lines(0, 2000)), b"new"]


# what is no copy


async def test_a_copy_of_a_file_that_is_not_cut_is_another_file(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, lines(0, 300))
    with structlog.testing.capture_logs() as logs:
        async with Run(tmp_path, PATTERN) as run:
            shutil.copyfile(log, tmp_path / "app.log.copy")
            await run.passing(2)
            assert run.of("app.log.copy") == []
            await run.passing(WAIT)
            assert run.of("app.log.copy") == words(lines(0, 300))
    assert f"{log}.copy begins as {log}, which is not cut: it is read from its beginning" in [
        line["event"] for line in logs
    ]


@pytest.mark.parametrize("name", ["app.log.1", "app.log"])
async def test_one_that_begins_alike_and_goes_on_in_another_way_is_read_at_once(tmp_path: Path, name: str) -> None:
    log = tmp_path / "app.log"
    append(log, BANNER + lines(0, 3000))
    async with Run(tmp_path, PATTERN) as run:
        if name == "app.log":
            log.rename(tmp_path / "app.log.1")
        append(tmp_path / name, BANNER + lines(5000, 5100))
        await run.passing(1)
        assert run.of(name)[-1] == words(lines(5099, 5100))[0]


async def test_short_ones_of_other_names_are_read_at_once_and_whole(tmp_path: Path) -> None:
    """A program that is started again and again, with a file for each process."""
    append(tmp_path / "app.log.7", b"begins\n")
    async with Run(tmp_path, PATTERN) as run:
        append(tmp_path / "app.log.8", b"begins\n")
        os.truncate(tmp_path / "app.log.7", 0)
        await run.passing(1)
        assert run.lines == [b"begins"] * 2


@pytest.mark.parametrize("pattern", ["app.log", "*.csv"])
async def test_dropped_files_and_a_single_name_have_no_copies(tmp_path: Path, pattern: str) -> None:
    name, dropped = ("app.log", False) if pattern == "app.log" else ("1.csv", True)
    log = tmp_path / name
    append(log, lines(0, 300))
    async with Run(tmp_path, pattern, delete=dropped) as run:
        if dropped:
            shutil.copyfile(log, tmp_path / "2.csv")
            await run.passing(1)
            assert run.of("2.csv") == words(lines(0, 300))
        else:
            copytruncate(log)
            append(log, b"new\n")
            await run.passing(1)
            assert run.lines[300:] == [b"new"]
