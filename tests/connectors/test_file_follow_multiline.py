"""Events of several lines in followed files: real files, virtual time,
and a log that drops what it has after kill -9."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.connectors.test_file_follow import Checkpointed, Run, append, rejected
from walflow.event import Block
from walflow.framing import incoming

TRACES = incoming([("multiline", {"rule": "java", "timeout": 1_000_000_000})]).framing
TAB = "\t"
TRACE = b"ERROR cannot pay\n\tat a.B.c(B.java:1)\n\tat a.B.d(B.java:2)\n"


def ends(block: Block) -> list[int]:
    assert block.positions is not None
    return [*block.positions]


async def test_a_trace_is_an_event_once_the_next_line_is_there_or_no_more_comes(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    async with Run(tmp_path, framing=TRACES) as run:
        append(log, b"INFO up\n" + TRACE[:30])
        await run.passing(0.5)
        assert run.lines == [b"INFO up"]
        append(log, TRACE[30:] + b"INFO do")
        await run.passing(0.5)
        assert run.lines == [b"INFO up"]
        await run.passing(2)
        assert run.lines == [b"INFO up", TRACE[:-1]]
        assert [end for block in run.taker.blocks for end in ends(block)] == [8, 8 + len(TRACE)]
        append(log, b"wn\n\tis a line of its event\n")
        await run.passing(3)
        append(log, b"\tcomes late: a new event\n")
        await run.passing(3)
        assert run.lines[2:] == [b"INFO down\n\tis a line of its event", b"\tcomes late: a new event"]
        assert Checkpointed(tmp_path).offsets() == {"app.log": log.stat().st_size}
    async with Run(tmp_path, framing=TRACES) as run:
        await run.passing(3)
        assert run.lines == []


async def test_a_restart_reads_a_trace_that_has_not_ended_from_its_first_line_on(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, b"INFO up\n" + TRACE[:30])
    async with Run(tmp_path, framing=TRACES) as run:
        assert run.lines == [b"INFO up"]
    append(log, TRACE[30:])
    async with Run(tmp_path, framing=TRACES) as run:
        await run.passing(3)
        assert run.lines == [TRACE[:-1]]


@pytest.mark.parametrize("late", [b"\tlate\n", b"INFO next\n\tlate\n"])
async def test_what_was_an_event_for_lack_of_more_ends_there_also_after_kill_9(tmp_path: Path, late: bytes) -> None:
    """The log behind it has it by its end: with more lines it would be another event, and come twice."""
    log = tmp_path / "app.log"
    append(log, b"INFO up\n")
    async with Run(tmp_path, framing=TRACES) as run:
        await run.passing(3)
    append(log, TRACE)
    async with Run(tmp_path, framing=TRACES, acks=False) as run:
        await run.passing(3)
        assert run.lines == [TRACE[:-1]]
        assert [end for block in run.taker.blocks for end in ends(block)] == [8 + len(TRACE)]
    append(log, late)
    async with Run(tmp_path, framing=TRACES) as run:
        await run.passing(3)
        assert run.lines == [TRACE[:-1], late[:-1]] if late.startswith(b"\t") else [TRACE[:-1], late[:-1]]
        assert [end for block in run.taker.blocks for end in ends(block)] == [8 + len(TRACE), 8 + len(TRACE + late)]


async def test_also_where_a_sink_fails_it(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, TRACE)
    async with Run(tmp_path, framing=TRACES, acks=False) as run:
        await run.passing(3)
        (first,) = run.taker.blocks
        append(log, b"\tlate\n")
        await run.passing(1)
        run.taker.blocks.clear()
        first.receipt.fail(OSError("no"))
        await run.passing(5)
        assert run.lines == [TRACE[:-1]]
        run.taker.ack_all()
        await run.passing(3)
        assert run.lines == [TRACE[:-1], b"\tlate"]


async def test_while_more_is_unread_a_trace_does_not_end_for_lack_of_time(tmp_path: Path) -> None:
    """The flow takes nothing for a while, and the rest of the trace is in the file."""
    log = tmp_path / "app.log"
    whole = b"INFO up\n" * 100_000 + b"ERROR\n" + b"\tat a\n" * 300
    append(log, whole)
    async with Run(tmp_path, framing=TRACES, acks=False) as run:
        run.out.window = 100_000
        for _ in range(10):
            await run.passing(5)
            run.taker.ack_all()
        assert b"".join(line + b"\n" for line in run.lines) == whole
        assert run.lines[-1].count(b"\n") == 300


@pytest.mark.parametrize("renamed", [True, False])
async def test_the_last_event_of_a_file_that_is_gone(tmp_path: Path, renamed: bool) -> None:
    log = tmp_path / "app.log"
    append(log, TRACE + b"\tat the end without a newline")
    async with Run(tmp_path, framing=TRACES, rotate_wait=500_000_000) as run:
        if renamed:
            log.rename(tmp_path / "old")
        else:
            log.unlink()
        await run.passing(3)
        assert run.lines == [TRACE + b"\tat the end without a newline"]
        assert not rejected(run)


async def test_many_files_with_few_of_them_open(tmp_path: Path) -> None:
    for number in range(40):
        append(tmp_path / f"{number}.log", TRACE)
    async with Run(tmp_path, "*.log", framing=TRACES, max_open_files=5) as run:
        await run.passing(60)
        assert run.lines == [TRACE[:-1]] * 40


class Arrivals:
    """As a log has them after kill -9: what comes again by its name and offset is dropped."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self._ends: dict[str, int] = {}

    def take(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            assert block.read_from is not None
            name = block.read_from.log
            for event, end in zip(block.frames.payloads(), ends(block), strict=True):
                if end > self._ends.get(name, 0):
                    self._ends[name] = end
                    self.events.append(event)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.test) for seed in range(2, 8))])
async def test_killed_at_any_time_no_line_is_missing_and_none_comes_twice(tmp_path: Path, seed: int) -> None:
    """What is on disk at the time of the kill is what the next life finds."""
    dice = random.Random(seed)
    log, arrived = tmp_path / "app.log", Arrivals()
    state, kept = tmp_path / "state", tmp_path / "kept"
    append(log, b"")
    half = ""
    for _ in range(12):
        async with Run(tmp_path, framing=TRACES, acks=False) as run:
            for _step in range(dice.randrange(1, 8)):
                text = half + "".join(
                    f"{dice.choice(['INFO', TAB, TAB])} {dice.random()}\n" for _ in range(dice.randrange(4))
                )
                at = dice.choice([len(text), len(text), dice.randrange(len(text) + 1)])
                append(log, text[:at].encode())
                half = text[at:]
                await run.passing(dice.choice([0.2, 0.5, 1.5, 3]))
                arrived.take(run.taker.blocks)
                if dice.random() < 0.4:
                    run.taker.ack_all()
                    await run.passing(dice.choice([0, 0.2, 1]))
                    arrived.take(run.taker.blocks)
                run.taker.blocks[:] = [block for block in run.taker.blocks if block.receipt.pending]
            shutil.copytree(state, kept)
        if dice.random() < 0.8:
            shutil.rmtree(state)
            kept.rename(state)
        else:
            shutil.rmtree(kept)  # this time it was a stop
    append(log, half.encode() + b"INFO end\n")
    async with Run(tmp_path, framing=TRACES) as run:
        await run.passing(10)
        arrived.take(run.taker.blocks)
    assert b"".join(event + b"\n" for event in arrived.events) == log.read_bytes()
