"""Lives of a log (life.py), each with a fault in it; what they said; and what must be there afterwards."""

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tests.faults.flows import Plan, begin
from tests.faults.life import places_of
from tests.faults.strace import CHANGES, Tracer, begun, options
from tests.system.process import Process
from walflow import Block

SIZED: Final = re.compile(rb'\{"id":\d+,"x":"y*"\}\n')
AGAIN: Final = 1_000_000  # id of the event that is tried after it


class Said(NamedTuple):
    """`code`: the exit code, or less than zero: the signal. `came`: events, each with its position in the log that sent it.
    `fatal`: the line, if there was one."""

    code: int
    acked: frozenset[int]
    came: frozenset[tuple[int, int]]
    sunk: Mapping[str, AbstractSet[int]]  # by lane; "" of a log with one
    fatal: str
    closed: bool

    @property
    def promised(self) -> Mapping[str, AbstractSet[int]]:
        """By lane."""
        return {lane: self.acked - sunk for lane, sunk in self.sunk.items()}


class Nursery:
    """Forks lives, one at a time."""

    def __init__(self) -> None:
        self._process = Process([sys.executable, "-m", "tests.faults.life"], stdin=subprocess.PIPE, stderr=None)
        pipes = self._process.process
        assert pipes.stdin is not None
        assert pipes.stdout is not None
        self._in, self._out = pipes.stdin, pipes.stdout

    def live(self, plan: Plan, log: Path | None = None, given: Sequence[str] = ()) -> Said:
        """`log`: strace's, with those options."""
        self._say(msgspec.json.encode(plan))
        pid = int(self._hear().removeprefix("pid "))
        with Tracer(pid, log, given) if log is not None else nullcontext() as tracer:
            self._say(b"go")
            said = self._until_ended(plan.lanes)
            if tracer is not None:
                tracer.wait()
        return said

    def close(self) -> None:
        self._in.close()
        self._process.wait()

    def _until_ended(self, lanes: Sequence[str]) -> Said:
        acked: set[int] = set()
        came: set[tuple[int, int]] = set()
        sunk: dict[str, set[int]] = {lane: set() for lane in lanes}
        fatal, closed = "", False
        while True:
            word, _, rest = self._hear().partition(" ")
            if word == "acked":
                acked.add(int(rest))
            elif word == "came":
                number, _, position = rest.partition(" ")
                came.add((int(number), int(position)))
            elif word == "sunk":
                number, _, lane = rest.partition(" ")
                sunk[lane].add(int(number))
            elif word == "fatal":
                fatal = rest
            elif word == "closed":
                closed = True
            elif word == "ended":
                return Said(int(rest), frozenset(acked), frozenset(came), sunk, fatal, closed)

    def _say(self, line: bytes) -> None:
        self._in.write(line + b"\n")
        self._in.flush()

    def _hear(self) -> str:
        line: bytes = self._out.readline()
        assert line.endswith(b"\n"), "it died"
        return line.decode().rstrip("\n")


@contextmanager
def nursery() -> Iterator[Nursery]:
    one = Nursery()
    try:
        yield one
    finally:
        one.close()


class Before(NamedTuple):
    """What a life has left: a copy of its directory, what was promised of it, and where its events were."""

    kept: Path
    promised: Mapping[str, AbstractSet[int]]
    came: AbstractSet[tuple[int, int]]


class Script(NamedTuple):
    """A life to be disturbed."""

    plan: Plan
    before: Before | None = None

    def begin(self) -> Plan:
        path = Path(self.plan.path)
        shutil.rmtree(path, ignore_errors=True)
        if self.before is not None:
            shutil.copytree(self.before.kept, path)
        return self.plan

    def still_there(self, said: Said) -> Counter[str]:
        """Asserts that all that was promised comes to each lane, nothing that was never given, nothing altered, and nothing at
        another position than before; and that it goes on. How many came, and how many a log had already."""
        flow = begin(self.plan)
        before = self.before
        places = {*said.came, *(before.came if before is not None else ())}
        came: dict[str, set[int]] = {lane: set() for lane in self.plan.lanes}

        def take() -> None:
            flow.advance(1)
            while any(flow.waiting.values()):
                for lane, blocks in flow.waiting.items():
                    taken, blocks[:] = [*blocks], []
                    for block in taken:
                        found = self._checked(block)
                        places.update(found)
                        came[lane].update(number for number, _ in found)
                        flow.ack(lane, block)
                flow.advance(1)

        try:
            assert all(log.gaps == [] for log in flow.logs)
            take()
            for lane, those in came.items():
                promised = said.acked | (before.promised[lane] if before is not None else frozenset())
                missing = promised - said.sunk[lane] - those
                assert not missing, f"{sorted(missing)} were promised and do not come {lane and f'to {lane}'}"
            count = Counter(
                {"delivered afterwards": sum(map(len, came.values())), "not appended again": flow.known()}
            )
            flow.give(AGAIN)
            take()
            assert all(AGAIN in those for those in came.values())
            twice = [number for number, times in Counter(number for number, _ in places).items() if times > 1]
            assert not twice, f"{sorted(twice)} are in the log twice"
            assert all(log.gaps == [] for log in flow.logs)
        finally:
            flow.close()
        return count

    def _checked(self, block: Block) -> list[tuple[int, int]]:
        assert SIZED.sub(b"", bytes(block.frames.data)) == b"", "altered"
        places = places_of(block)
        assert {number for number, _ in places} <= {*range(self.plan.after), AGAIN}, "nobody gave that"
        return places


class Shape(NamedTuple):
    """`killed`: by the sync of so many before the last, while blocks are on their way."""

    chunk_size: int
    max_chunks: int
    sizes: list[int]
    lanes: tuple[str, ...] = ("",)
    in_a_row: bool = False
    killed: int = 4

    def plan(self, path: Path, blocks: int) -> Plan:
        chunk_size, max_chunks, sizes, lanes, in_a_row, _ = self
        return Plan(str(path), chunk_size, max_chunks, 0, 3 * blocks, sizes, lanes=lanes, in_a_row=in_a_row)


SMALL: Final = Shape(1024, 16, [10, 100, 200])  # a file for each block or two
SHAPES: Final = {
    "small chunks": SMALL,
    "large chunks": Shape(65536, 8, [10, 6000, 7200, 7250]),  # preallocated, cut, recycled
    "three lanes": SMALL._replace(lanes=("near", "odd", "far")),
    "two logs": SMALL._replace(in_a_row=True, killed=10),
}


def scripts(lives: Nursery, directory: Path, blocks: int = 10) -> dict[str, Script]:
    """With each size of chunks, with three lanes, and of two logs in a row: the first life, and one that begins with what a kill
    has left."""
    found: dict[str, Script] = {}
    for name, shape in SHAPES.items():
        path = directory / name.replace(" ", "-")
        plan = shape.plan(Path(f"{path}-log"), blocks)
        found[f"first life, {name}"] = first = Script(plan)
        log = Path(f"{path}-trace")
        syncs = counts(lives, first, log)["fdatasync"]
        said = lives.live(first.begin(), log, options(f"fdatasync:signal=SIGKILL:when={syncs - shape.killed}"))
        assert said.code == -9
        assert any(said.promised.values())
        kept = Path(shutil.copytree(plan.path, f"{path}-kept"))
        after = msgspec.structs.replace(plan, first=3 * blocks, after=5 * blocks, seed=2)
        found[f"second life, {name}"] = Script(after, Before(kept, said.promised, said.came))
    return found


def counts(lives: Nursery, script: Script, log: Path) -> dict[str, int]:
    """How often a life that nothing disturbs makes each call that changes the disk."""
    said = lives.live(script.begin(), log, options())
    assert said.closed
    script.still_there(said)
    made = begun(log)
    return {name: made[name] for name in CHANGES if made[name]}


def points(made: dict[str, int], share: Callable[[int], Sequence[int]]) -> list[tuple[str, int]]:
    """Of each call, those that `share` chooses of so many."""
    return [(name, number) for name, count in made.items() for number in share(count)]


def every(count: int) -> Sequence[int]:
    return range(1, count + 1)


def some(count: int) -> Sequence[int]:
    """The first, the last, and a few between."""
    return sorted({1, count, *range(2, count, max(1, count // 4))})
