"""Lives of a log (life.py), each with a fault in it; what they said; and what must be there afterwards."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tests.delivery.test_delivery import Relay
from tests.faults.life import ID, Plan
from tests.faults.strace import CHANGES, Tracer, begun, options
from tests.nodes.world import Taker
from tests.system.daemon import ROOT
from walflow.wal import LogOptions

SIZED: Final = re.compile(rb'\{"id":\d+,"x":"y*"\}\n')
AGAIN: Final = 1_000_000  # id of the event that is tried after it


class Said(NamedTuple):
    """`code`: the exit code, or less than zero: the signal. `fatal`: the line, if there was one."""

    code: int
    acked: frozenset[int]
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
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.life"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout

    def live(self, plan: Plan, log: Path | None = None, given: Sequence[str] = ()) -> Said:
        """`log`: strace's, with those options."""
        self._say(msgspec.json.encode(plan))
        pid = int(self._hear().removeprefix("pid "))
        with Tracer(pid, log, given) if log is not None else nullcontext() as tracer:
            self._say(b"go")
            said = self._until_ended(lanes_of(plan))
            if tracer is not None:
                tracer.wait()
        return said

    def close(self) -> None:
        self._in.close()
        self._out.close()
        self._process.wait()

    def _until_ended(self, lanes: Sequence[str]) -> Said:
        acked: set[int] = set()
        sunk: dict[str, set[int]] = {lane: set() for lane in lanes}
        fatal, closed = "", False
        while True:
            word, _, rest = self._hear().partition(" ")
            if word == "acked":
                acked.add(int(rest))
            elif word == "sunk":
                number, _, lane = rest.partition(" ")
                sunk[lane].add(int(number))
            elif word == "fatal":
                fatal = rest
            elif word == "closed":
                closed = True
            elif word == "ended":
                return Said(int(rest), frozenset(acked), sunk, fatal, closed)

    def _say(self, line: bytes) -> None:
        self._in.write(line + b"\n")
        self._in.flush()

    def _hear(self) -> str:
        line = self._out.readline()
        assert line.endswith(b"\n"), "it died"
        return line.decode().rstrip("\n")


@contextmanager
def nursery() -> Iterator[Nursery]:
    one = Nursery()
    try:
        yield one
    finally:
        one.close()


class Script(NamedTuple):
    """A life to be disturbed. `before`: the directory that it begins with, and what was promised of it."""

    plan: Plan
    before: Path | None
    promised: Mapping[str, AbstractSet[int]]

    def begin(self) -> Plan:
        path = Path(self.plan.path)
        shutil.rmtree(path, ignore_errors=True)
        if self.before is not None:
            shutil.copytree(self.before, path)
        return self.plan

    def still_there(self, said: Said) -> int:
        """Asserts that all that was promised comes to each lane, nothing that was never given, nothing altered; and that
        it goes on. How many came."""
        plan = self.plan
        options = LogOptions(plan.path, plan.chunk_size, plan.max_chunks)
        takers = {lane: Taker(lane, ack=True) for lane in lanes_of(plan)}
        relay = Relay(Path(plan.path), takers if plan.lanes else takers[""], options=options)
        try:
            assert relay.log.gaps == []
            relay.scheduler.advance(1)
            came = {lane: self._ids(taker) for lane, taker in takers.items()}
            for lane, those in came.items():
                missing = (self.promised.get(lane, frozenset()) | said.acked) - said.sunk[lane] - those
                assert not missing, f"{sorted(missing)} were promised and do not come {lane and f'to {lane}'}"
            relay.give(AGAIN)
            relay.scheduler.advance(1)
            for taker in takers.values():
                assert AGAIN in self._ids(taker)
            assert relay.log.gaps == []
        finally:
            relay.close()
        return sum(len(those) for those in came.values())

    def _ids(self, taker: Taker) -> set[int]:
        events = b"".join(bytes(data) for data in taker.data)
        assert SIZED.sub(b"", events) == b"", "altered"
        ids = [int(one) for one in ID.findall(events)]
        assert set(ids) <= {*range(self.plan.after), AGAIN}, "nobody gave that"
        return set(ids)


SMALL: Final = (1024, 16, [10, 100, 200])  # a file for each block or two
LANES: Final = ("near", "odd", "far")
LARGE: Final = (65536, 8, [10, 6000, 7200, 7250])  # preallocated, cut, recycled


SHAPES: Final = {"small chunks": (SMALL, ()), "large chunks": (LARGE, ()), "three lanes": (SMALL, LANES)}


def lanes_of(plan: Plan) -> tuple[str, ...]:
    return plan.lanes or ("",)


def scripts(lives: Nursery, directory: Path, blocks: int = 10) -> dict[str, Script]:
    """With each size of chunks, and with three lanes: the first life of a log, and one that begins with what a kill has left."""
    found: dict[str, Script] = {}
    for name, ((chunk_size, max_chunks, sizes), lanes) in SHAPES.items():
        path = directory / name.replace(" ", "-")
        plan = Plan(f"{path}-log", chunk_size, max_chunks, 0, 3 * blocks, sizes, lanes=lanes)
        found[f"first life, {name}"] = first = Script(plan, None, {})
        log = Path(f"{path}-trace")
        syncs = counts(lives, first, log)["fdatasync"]
        said = lives.live(first.begin(), log, options(f"fdatasync:signal=SIGKILL:when={syncs - 4}"))
        assert said.code == -9
        assert any(said.promised.values())
        kept = Path(shutil.copytree(plan.path, f"{path}-kept"))
        after = msgspec.structs.replace(plan, first=3 * blocks, after=5 * blocks, seed=2)
        found[f"second life, {name}"] = Script(after, kept, said.promised)
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
