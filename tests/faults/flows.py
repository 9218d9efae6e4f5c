"""What a life is a life of: a log and its sinks, or two logs in a row and a sink.
On real directories, in virtual time."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Protocol

import msgspec

from tests.delivery.in_a_row import RowOnDisk, row_in
from tests.delivery.test_delivery import Relay
from tests.nodes.world import Taker
from walflow import Block, codecs, framing
from walflow.disk import RealDisk
from walflow.plan import Assembly
from walflow.wal import Log, LogOptions


class Plan(msgspec.Struct, frozen=True):
    """Gives events `first` to `after` in blocks of three, each of one of `sizes` in bytes; acks about half of what
    comes, not in order; looks at the clock now and then. `lanes`: of a log with several sinks; the last one of them
    is behind: it seldom acks, and then all that it has. `in_a_row`: a log behind a log, both in directories in
    `path`."""

    path: str
    chunk_size: int
    max_chunks: int
    first: int
    after: int
    sizes: list[int]
    seed: int = 1
    lanes: tuple[str, ...] = ("",)
    in_a_row: bool = False


class Flow(Protocol):
    """`waiting`: by lane, the blocks that its sink has, until someone takes them from there.
    The last of `logs` sent them."""

    @property
    def logs(self) -> Sequence[Log]: ...

    @property
    def waiting(self) -> Mapping[str, list[Block]]: ...

    def give(self, *ids: int, size: int = 0) -> None: ...

    def advance(self, seconds: float) -> None: ...

    def acked(self) -> int:
        """How many of the blocks that were given, the first ones."""

    def known(self) -> int:
        """How many events a log did not append, because it had them."""

    def ack(self, lane: str, block: Block) -> None: ...

    def close(self) -> None: ...


class OneLog:
    def __init__(self, plan: Plan) -> None:
        takers = {lane: Taker(lane) for lane in plan.lanes}
        self.waiting = {lane: taker.blocks for lane, taker in takers.items()}
        self._relay = Relay(
            Path(plan.path),
            takers if len(takers) > 1 else takers[""],
            options=LogOptions(plan.path, plan.chunk_size, plan.max_chunks),
        )
        self.logs = [self._relay.log]

    def give(self, *ids: int, size: int = 0) -> None:
        self._relay.give(*ids, size=size)

    def advance(self, seconds: float) -> None:
        self._relay.scheduler.advance(seconds)

    def acked(self) -> int:
        assert all(receipt.cause is None for receipt in self._relay.settled)
        return len(self._relay.settled)

    def known(self) -> int:
        return 0

    def ack(self, lane: str, block: Block) -> None:
        block.receipt.ack(lane)

    def close(self) -> None:
        self._relay.close()


class TwoLogs:
    def __init__(self, plan: Plan) -> None:
        self._row = RowOnDisk(_row_of(plan), RealDisk())
        self.waiting = {"": self._row.last.waiting}
        self.logs = [self._row.first.log, self._row.second.log]

    def give(self, *ids: int, size: int = 0) -> None:
        self._row.give(*ids, size=size)

    def advance(self, seconds: float) -> None:
        self._row.advance(seconds)

    def acked(self) -> int:
        settled = list(takewhile(lambda receipt: not receipt.pending, (receipt for receipt, _ in self._row.given)))
        assert all(receipt.cause is None for receipt in settled)
        return len(settled)

    def known(self) -> int:
        return self._row.known()

    def ack(self, lane: str, block: Block) -> None:
        self._row.last.node.ack(block)

    def close(self) -> None:
        self._row.close()


def prepare(plan: Plan) -> None:
    """What a daemon has before it opens a log: a life makes no call for it."""
    for plugins in (codecs.registered(), framing.registered()):
        list(plugins.values())
    if plan.in_a_row:
        _row_of(plan)


def begin(plan: Plan) -> Flow:
    return TwoLogs(plan) if plan.in_a_row else OneLog(plan)


def _row_of(plan: Plan) -> Assembly:
    return row_in(plan.path, chunk_size=plan.chunk_size, max_chunks=plan.max_chunks)
