"""One life of a log on a real directory, or of two in a row, told line by line to whoever listens: what came to it,
what it acked to its source, what its sink had, and at which positions. `python -m tests.faults.life` reads a life
from stdin, forks a process for it (the imports take longer than a life does), waits for "go" and lives it.

    {"path": ..., "chunk_size": ..., "max_chunks": ..., "first": ..., "after": ..., "sizes": [...], "seed": ...}   in
    pid N · go (in) · begun · acked I · came I POSITION · sunk I [LANE] (about to be acked) · closed · ended N   out
"""

import ctypes
import os
import re
from collections import deque
from contextlib import suppress
from random import Random
from typing import Final

import msgspec

from tests.faults.flows import Plan, begin, prepare
from walflow import Block
from walflow.errors import WalflowError
from walflow.testing import Fatal

PR_SET_PTRACER: Final = 0x59616D61
ID: Final = re.compile(rb'"id":(\d+),')
ENDED_BY_DISK: Final = 74


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def ids_of(block: Block) -> list[int]:
    return [int(one) for one in ID.findall(bytes(block.frames.data))]


def places_of(block: Block) -> list[tuple[int, int]]:
    """Each of its events, and its position in the log that sent it."""
    assert block.positions is not None
    return list(zip(ids_of(block), block.positions, strict=True))


class Life:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chance = Random(plan.seed)
        self.flow = begin(plan)
        tell("begun")
        self.given: deque[list[int]] = deque()
        self.told = 0

    def live(self) -> None:
        for first in range(self.plan.first, self.plan.after, 3):
            ids = list(range(first, min(first + 3, self.plan.after)))
            self.given.append(ids)
            self.flow.give(*ids, size=self.chance.choice(self.plan.sizes))
            self._run(0.0)
            for lane, blocks in self.flow.waiting.items():
                self._sink(lane, blocks)
            self._run(self.chance.choice([0.0, 0.0, 0.15, 1.2]))
        self.flow.close()
        for log in self.flow.logs:
            if log.failure is not None:
                raise log.failure
        tell("closed")

    def _run(self, seconds: float) -> None:
        self.flow.advance(seconds)
        acked = self.flow.acked()
        while self.told < acked:
            self.told += 1
            for number in self.given.popleft():
                tell(f"acked {number}")

    def _sink(self, lane: str, blocks: list[Block]) -> None:
        """What it acks is told before: from then on no lane may want it back. What it does not ack must come again,
        so it may be told late where that came."""
        for block in blocks:
            for number, position in places_of(block):
                tell(f"came {number} {position}")
        behind = len(self.plan.lanes) > 1 and lane == self.plan.lanes[-1]
        if behind and self.chance.random() < 0.6:
            return
        self.chance.shuffle(blocks)
        for _ in range(len(blocks) - (0 if behind else self.chance.randrange(3))):
            block = blocks.pop()
            for number in ids_of(block):
                tell(f"sunk {number} {lane}")
            self.flow.ack(lane, block)


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
        prepare(plan)
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
