"""A streaming query of Spark, as a peer of a story: batches, a checkpoint of offsets and commits, crashes. It speaks
the Spark protocol over the story's network, with the frames and the records of `pyspark_walflow`."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from random import Random
from typing import Final, NamedTuple, cast

from pyspark_walflow import wire
from pyspark_walflow.columns import Columns, find_crc
from pyspark_walflow.wire import FrameKind, RequestRefused, WireKey
from walflow.testing.simulation.ends import Mood, PeerLedger
from walflow.testing.simulation.wires import COMES_BACK, GONE, PATIENCE, Streams
from walflow.world import disk

CONSUMER: Final = "spark"
CRASHES: Final = 0.02  # of all steps between two of its writes
ROWS: Final = 200  # of a batch, at most
POLLS: Final = 500  # milliseconds that it waits for events


class Batch(NamedTuple):
    """Positions `first` to `end`, the latter excluded."""

    first: int
    end: int


class LostForGood(AssertionError):
    """The log says that it cannot give events any more."""


class AnotherBatch(AssertionError):
    """A range was read again, and gave other events."""


class Crashes(Exception):
    """The query ends here. Its checkpoint stays."""


class Checkpoint:
    """Of a query. `planned`: as in its directory `offsets`, each batch before it is read; `committed`: how many are
    in `commits`."""

    def __init__(self) -> None:
        self.scan = ""
        self.planned: list[Batch] = []
        self.committed = 0


class SparkQuery(PeerLedger):
    """Each batch is written to the ledger once: what Spark sends again must be the same. While it is away no query
    runs; while it is silent it plans nothing; while it is busy its tasks fail. It refuses no event."""

    def __init__(self, name: str, dice: Random) -> None:
        super().__init__(name, dice)
        self.batches: dict[int, list[bytes]] = {}
        self._checkpoint = Checkpoint()
        self._columns = Columns(binary=True, crc=find_crc())
        self._changed = asyncio.Event()
        self._talk: asyncio.Task[None] | None = None

    def becomes(self, mood: Mood) -> None:
        super().becomes(mood)
        self._changed.set()
        if mood == "away" and self._talk is not None:
            self._talk.cancel()

    async def run(self, host: str, port: int, token: str) -> None:
        """`token`: its file, on the daemon's machine."""
        while True:
            await self._while(("away",))
            self._talk = asyncio.get_running_loop().create_task(self._query(host, port, token), name=self.name)
            await asyncio.wait([self._talk])
            if not self._talk.cancelled():
                with suppress(*GONE, RequestRefused, Crashes):
                    self._talk.result()
            await asyncio.sleep(self.dice.expovariate(1 / COMES_BACK))

    async def _while(self, moods: tuple[Mood, ...]) -> None:
        while self.mood in moods:
            self._changed.clear()
            await self._changed.wait()

    async def _query(self, host: str, port: int, token: str) -> None:
        async with asyncio.timeout(PATIENCE):
            streams = await asyncio.open_connection(host, port)
        try:
            connection = Connection(streams)
            await connection.greet(WireKey.of_token(_text(token)), self.dice)
            await self._plan_for_ever(connection)
        finally:
            streams[1].transport.abort()

    async def _plan_for_ever(self, connection: "Connection") -> None:
        known = self._checkpoint
        if not known.scan:
            known.scan = f"{self.dice.getrandbits(64):016x}"
        lease = {"consumer": CONSUMER, "lease": known.scan, "scan": known.scan, "new": False, "process": self.name}
        await connection.call(FrameKind.LEASE, lease)
        while True:
            await self._while(("silent",))
            if len(known.planned) == known.committed:
                await self._plan(connection)
                continue
            await self._run_batch(connection, known.planned[-1])

    async def _plan(self, connection: "Connection") -> None:
        """The batch before is committed with the plan of the next one, as Spark does."""
        known = self._checkpoint
        if known.planned:
            commit = {"consumer": CONSUMER, "position": known.planned[-1].end, "scan": known.scan}
            await connection.call(FrameKind.COMMIT, commit)
            self._may_crash()
        head = await connection.call(FrameKind.HEAD, {"consumer": CONSUMER})
        first = known.planned[-1].end if known.planned else cast("int", head["floor"])
        await connection.call(FrameKind.WAIT, {"position": first, "ms": POLLS, "consumer": CONSUMER})
        plan = await connection.call(FrameKind.PLAN, {"start": first, "rows": ROWS, "bytes": 1 << 20})
        if (end := cast("int", plan["end"])) > first:
            known.planned.append(Batch(first, end))
            self._may_crash()

    async def _run_batch(self, connection: "Connection", batch: Batch) -> None:
        number = self._checkpoint.committed
        events: list[bytes] = []
        async for seed, data in connection.read(batch):
            for columns in self._columns.batches(seed, data, batch.first, batch.end):
                events += cast("list[bytes]", columns.column("value").to_pylist())
        if self.mood == "busy":
            await asyncio.sleep(1.0)
            return
        before = self.batches.setdefault(number, events)
        if before != events:
            raise AnotherBatch(f"batch {number} of {self.name} was {len(before)} events, and is {len(events)} others")
        self._may_crash()
        self._checkpoint.committed += 1
        self.got.clear()
        for rows in self.batches.values():
            self.take(rows)

    def _may_crash(self) -> None:
        if self.dice.random() < CRASHES:
            raise Crashes


class Connection:
    """A question at a time."""

    def __init__(self, streams: Streams) -> None:
        self._reader, self._writer = streams

    async def greet(self, key: WireKey, dice: Random) -> None:
        nonce = f"{dice.getrandbits(128):032x}"
        hello = {"version": wire.VERSION, "right": key.right, "nonce": nonce, "log": None}
        self._writer.write(wire.PREFACE + wire.control(FrameKind.HELLO, hello))
        other = str((await self._expect(FrameKind.CHALLENGE))["nonce"])
        self._writer.write(wire.control(FrameKind.PROOF, {"proof": wire.prove(key, "client", nonce, other)}))
        welcome = await self._expect(FrameKind.WELCOME)
        assert wire.same(wire.prove(key, "server", other, nonce), welcome["proof"])

    async def call(self, kind: FrameKind, fields: Mapping[str, object]) -> dict[str, object]:
        self._writer.write(wire.control(kind, fields))
        return await self._expect(FrameKind.OK)

    async def read(self, batch: Batch) -> AsyncIterator[tuple[int, bytes]]:
        """(seed, whole records), as in `pyspark_walflow.client`."""
        self._writer.write(wire.control(FrameKind.READ, {**batch._asdict(), "consumer": CONSUMER}))
        while True:
            kind, payload = await self._receive()
            if kind == FrameKind.DATA:
                yield wire.SEED.unpack_from(payload)[0], payload[wire.SEED.size :]
            elif kind == FrameKind.LOST:
                lost = wire.fields_of(payload)
                if not lost.get("empty"):
                    raise LostForGood(f"positions {lost['first']} to {lost['last']}: {lost['reason']}")
            else:
                _look_at(kind, payload)
                return

    async def _expect(self, wanted: FrameKind) -> dict[str, object]:
        while True:
            kind, payload = await self._receive()
            if kind != FrameKind.BUSY:
                _look_at(kind, payload)
                assert kind == wanted
                return wire.fields_of(payload)

    async def _receive(self) -> tuple[FrameKind, bytes]:
        async with asyncio.timeout(PATIENCE):
            size, checksum, kind = wire.HEADER.unpack(await self._reader.readexactly(wire.HEADER.size))
            payload = await self._reader.readexactly(size)
        wire.check(payload, checksum)
        return FrameKind(kind), payload


def _look_at(kind: FrameKind, payload: bytes) -> None:
    """Raises RequestRefused."""
    if kind == FrameKind.ERROR:
        fields = wire.fields_of(payload)
        raise RequestRefused(str(fields["code"]), str(fields["message"]))


def _text(path: str) -> str:
    """Raises OSError: it is not there yet."""
    on = disk()
    fd = on.open_to_read(path)
    try:
        return on.read(fd, on.stat(fd).size, 0).decode().strip()
    finally:
        on.close(fd)
