"""A database of a story: a table with the rows of the frontiers beside it, on a host that outlives the daemon. What
`walflow.testing.tables` asks of every table it keeps (`tests/testing/test_tables.py`)."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import ClassVar, Final, cast

from walflow import Block, CodecUse, Connector, Guarantee, Inlet, Lossless, Outlet, Ports, Traits
from walflow.codecs import JSON
from walflow.frontier import Frontier
from walflow.tables import TABLE_FAMILIES, CannotUse, RowRefusal, run_table
from walflow.tables.store import RowEnds
from walflow.testing.simulation.ends import PeerLedger, outside
from walflow.testing.simulation.machine import Machine
from walflow.testing.simulation.strands import strand

TIMEOUT: Final = 20.0  # seconds, as drivers have one


class TablePeer(PeerLedger):
    """A database. `away`: it refuses each call. `silent`: each call ends in a timeout. `busy`: each COMMIT fails, and
    half of them are stored all the same. A row that it chokes on ends the transaction."""

    def __init__(self, name: str, dice: Random) -> None:
        super().__init__(name, dice)
        self.rows: list[bytes] = []
        self.frontiers: dict[tuple[str, str], Frontier] = {}
        self._machine: Machine | None = None

    def serve(self, machine: Machine) -> None:
        """Daemons of this machine: what slows their disks slows the calls of it."""
        self._machine = machine

    def call(self, operation: str) -> None:
        """Raises CannotUse."""
        if self._machine is not None and self._machine.weather.met(operation, f"/{self.name}"):
            raise CannotUse(f"{self.name} has failed")
        if self.mood == "silent" and self._machine is not None and (one := strand()) is not None:
            self._machine.loop.call_later(TIMEOUT, one.resume)
            one.pause()
            raise CannotUse(f"{self.name} has not answered in {TIMEOUT:.0f} s")
        if self.mood == "away":
            raise CannotUse(f"{self.name} is away")

    def read(self) -> None:
        """What is in it counts."""
        self.got.clear()
        self.take(self.rows)


class StoryTable:
    """`walflow.tables.TableStore`, by a connection of its own."""

    orders = False
    superseded = 0

    def __init__(self, peer: TablePeer) -> None:
        self._peer = peer
        self._rows: list[bytes] = []
        self._frontiers: dict[tuple[str, str], Frontier] = {}

    def open(self) -> None:
        self._peer.call("open")

    def row(self, value: object, meta: Mapping[str, object]) -> bytes:
        return JSON.encode(value)

    def json_rows(self, block: Block) -> Sequence[bytes] | None:
        return block.frames.payloads()

    def look(self, log: str, sink: str) -> Frontier | None:
        self._peer.call("read")
        return self._peer.frontiers.get((log, sink))

    @contextmanager
    def transaction(self) -> Generator[Callable[[], None]]:
        self._undo()
        self._peer.call("read")
        yield self._undo
        if not self._frontiers and not self._rows:
            return
        self._peer.call("sync")
        busy = self._peer.mood == "busy"
        if not busy or self._peer.dice.random() < 0.5:
            self._peer.rows += self._rows
            self._peer.frontiers.update(self._frontiers)
        if busy:
            raise CannotUse("the answer to COMMIT is lost")
        self._peer.call("read")

    def _undo(self) -> None:
        self._rows, self._frontiers = [], {}

    def read(self, log: str, sink: str) -> Frontier | None:
        return self._peer.frontiers.get((log, sink))

    def write(self, log: str, sink: str, frontier: Frontier) -> None:
        self._frontiers[log, sink] = frontier

    def insert(self, rows: Sequence[bytes | None], *, apart: bool) -> Mapping[int, RowRefusal]:
        refused: dict[int, RowRefusal] = {}
        for number, row in enumerate(rows):
            if row is None:
                continue
            event = JSON.decode(row)
            name = cast("Mapping[str, int]", event).get("n", -1) if isinstance(event, dict) else -1
            if name in self._peer.chokes:
                raise RowEnds(number if apart else None, RowRefusal("it chokes", "XX000"))
            if name in self._peer.poison:
                refused[number] = RowRefusal("never", "23514")
            else:
                self._rows.append(row)
        return refused

    def close(self) -> None:
        self._undo()


class Tables(Connector):
    """A sink: a table of the story."""

    ports: ClassVar[Ports] = Ports(outputs=("err",))
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN, frontier=True)
    families = TABLE_FAMILIES

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(source="", sink=Lossless("an event is acked once its row is committed"), once=behind_log)

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        peer = outside.get().peers[inlet.name.rpartition("::")[2]]
        assert isinstance(peer, TablePeer)
        await run_table(inlet, StoryTable(peer))
