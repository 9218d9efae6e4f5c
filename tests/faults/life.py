"""One life of a log on a real directory, told line by line to whoever listens: what came to it, what it acked to its
source, what its sink had. `python -m tests.faults.life` reads a life from stdin, forks a process for it (the imports
take longer than a life does), waits for "go" and lives it.

    {"path": ..., "chunk_size": ..., "max_chunks": ..., "ids": [first, after], "size": [...], "seed": ...}   in
    pid N · go (in) · begun · had I (delivered) · given I · acked I · sunk I [LANE] (about to be acked) · closed · ended N      out
"""

import ctypes
import os
import re
from collections import deque
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from tests.delivery.test_delivery import Relay
from tests.nodes.world import Taker
from walflow import Block, codecs, framing
from walflow.errors import WalflowError
from walflow.testing import Fatal
from walflow.wal import LogOptions

PR_SET_PTRACER: Final = 0x59616D61
ID: Final = re.compile(rb'"id":(\d+),')
ENDED_BY_DISK: Final = 74


class Plan(msgspec.Struct, frozen=True):
    """Gives events `first` to `after` in blocks of three, each of one of `sizes` in bytes; acks about half of what
    comes, not in order; looks at the clock now and then. `lanes`: of a log with several sinks; the last one of them is
    behind: it seldom acks, and then all that it has."""

    path: str
    chunk_size: int
    max_chunks: int
    first: int
    after: int
    sizes: list[int]
    seed: int = 1
    lanes: tuple[str, ...] = ()


for plugins in (codecs.registered(), framing.registered()):  # as a daemon has them before it opens a log
    list(plugins.values())


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def ids_of(block: Block) -> list[int]:
    return [int(one) for one in ID.findall(bytes(block.frames.data))]


class Life:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chance = Random(plan.seed)
        self.takers = {lane: Taker(lane) for lane in plan.lanes or ("",)}
        self.relay = Relay(
            Path(plan.path),
            self.takers if plan.lanes else self.takers[""],
            options=LogOptions(plan.path, plan.chunk_size, plan.max_chunks),
        )
        tell("begun")
        self.given: deque[list[int]] = deque()
        self.told = 0

    def live(self) -> None:
        for first in range(self.plan.first, self.plan.after, 3):
            ids = list(range(first, min(first + 3, self.plan.after)))
            self.given.append(ids)
            self.relay.give(*ids, size=self.chance.choice(self.plan.sizes))
            self._run(0.0)
            for lane, taker in self.takers.items():
                self._sink(lane, taker)
            self._run(self.chance.choice([0.0, 0.0, 0.15, 1.2]))
        self.relay.close()
        if self.relay.log.failure is not None:
            raise self.relay.log.failure
        tell("closed")

    def _run(self, seconds: float) -> None:
        self.relay.scheduler.advance(seconds)
        settled = self.relay.settled
        while self.told < len(settled):
            assert settled[self.told].cause is None
            self.told += 1
            for number in self.given.popleft():
                tell(f"acked {number}")

    def _sink(self, lane: str, taker: Taker) -> None:
        """What it acks is told before: from then on no lane may want it back."""
        blocks = taker.blocks
        behind = len(self.takers) > 1 and lane == self.plan.lanes[-1]
        if behind and self.chance.random() < 0.6:
            return
        self.chance.shuffle(blocks)
        for _ in range(len(blocks) - (0 if behind else self.chance.randrange(3))):
            block = blocks.pop()
            for number in ids_of(block):
                tell(f"sunk {number} {lane}")
            block.receipt.ack(taker.name)


def live(plan: Plan) -> int:
    try:
        Life(plan).live()
    except (Fatal, WalflowError) as error:
        tell(f"fatal {error}")
        return ENDED_BY_DISK
    return 0


def main() -> None:
    with suppress(OSError, AttributeError):  # where only a parent may trace
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1))
    while line := _line():
        plan = msgspec.json.decode(line, type=Plan)
        child = os.fork()
        if child == 0:
            with suppress(OSError, AttributeError):
                ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1))
            tell(f"pid {os.getpid()}")
            code = 70
            try:
                _line()
                code = live(plan)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        tell(f"ended {os.waitstatus_to_exitcode(status)}")


def _line() -> bytes:
    """A byte at a time: what follows is another process's."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    return line


if __name__ == "__main__":
    main()
