"""What lies outside of a simulated daemon, with ledgers that outlive it: clients that send an event until it is
acked, and peers that take events, refuse them, are away, or do not answer. And the connectors to them.

An event is `{"n": 17, "from": "client", "id": "client 17", "pad": ""}`. A client numbers its own from 0.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from random import Random
from typing import ClassVar, Final, Literal, cast

from walflow import (
    Block,
    CodecUse,
    Connector,
    Frames,
    Guarantee,
    Inlet,
    Lossless,
    Outlet,
    PeerAway,
    PeerSink,
    Ports,
    Receipt,
    SinkPeer,
    StreamId,
    Traits,
    WalflowError,
)
from walflow.codecs import JSON
from walflow.framing import LINES
from walflow.receipt import members
from walflow.testing.simulation.life import Life, now_running
from walflow.world import wall_ns

BURST: Final = 5  # events in a block, at most
PAUSE: Final = 0.05  # seconds between two blocks, on the average
IN_FLIGHT: Final = 40  # events
AGAIN: Final = 0.3  # seconds until a client sends a failed event again

Mood = Literal["well", "away", "silent", "busy"]


class PeerWentAway(PeerAway):
    """A peer that is not there."""


class PeerBusy(WalflowError):
    """A peer that takes nothing for now."""


class ClientLedger:
    """`acked`: events whose ack it got. `sent`: how often it sent each. `wants`: how many it is to send in all.
    `doubtful`: what the daemon may have taken although it said that it did not."""

    def __init__(self, name: str, dice: Random) -> None:
        self.name = name
        self.wants = 0
        self.pad = ""  # of each event, to make it larger
        self.acked: set[int] = set()
        self.sent: Counter[int] = Counter()
        self.doubtful: set[int] = set()
        self._dice = dice
        self._next = 0
        self._in_flight: set[int] = set()
        self._again: deque[int] = deque()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {len(self.acked)} of {self._next} acked>"

    @property
    def done(self) -> bool:
        return len(self.acked) == self.wants

    async def pause(self) -> None:
        await asyncio.sleep(self._dice.expovariate(1 / PAUSE))

    def begin(self) -> None:
        """A connection. What the one before has not seen acked goes first."""
        self._in_flight.clear()
        self._again = deque(number for number in range(self._next) if number not in self.acked)

    def due(self) -> list[int]:
        """What it sends next: a few events, or none."""
        most = min(self._dice.randint(1, BURST), IN_FLIGHT - len(self._in_flight))
        numbers = [self._again.popleft() for _ in range(min(most, len(self._again)))]
        while len(numbers) < most and self._next < self.wants:
            numbers.append(self._next)
            self._next += 1
        return numbers

    def events(self, numbers: Sequence[int]) -> list[bytes]:
        values = [{"n": number, "from": self.name, "id": f"{self.name} {number}"} for number in numbers]
        return [JSON.encode({**value, "pad": self.pad}) for value in values]

    def has_sent(self, numbers: Sequence[int]) -> None:
        self.sent.update(numbers)
        self._in_flight.update(number for number in numbers if number not in self.acked)

    def has_ack(self, numbers: Iterable[int]) -> None:
        self.acked.update(numbers)
        self._in_flight.difference_update(self.acked)


class StoryClient(ClientLedger):
    """It hands its blocks to an outlet."""

    async def talk(self, out: Outlet, life: Life) -> None:
        self.begin()
        ready = asyncio.Event()
        out.on_ready(ready.set)
        stream = StreamId(out.name, out.run, 1)
        while True:
            await self.pause()
            numbers = self.due()
            while numbers and not self._send(numbers, out, stream, life):
                ready.clear()
                await ready.wait()

    def _send(self, numbers: Sequence[int], out: Outlet, stream: StreamId, life: Life) -> bool:
        data = LINES.join(self.events(numbers))
        receipt = Receipt(partial(self._settled, numbers, life), len(numbers))
        block = Block(stream, Frames(data, len(numbers), LINES), JSON, receipt, ingest_ns=wall_ns(), meta={})
        if not out.send(block):
            receipt.withdraw()
            return False
        self.has_sent(numbers)
        return True

    def _settled(self, numbers: Sequence[int], life: Life, receipt: Receipt) -> None:
        if not life.alive:
            return
        failed = set(members(receipt.outcome().failed)) if receipt.cause is not None else set[int]()
        self._in_flight.difference_update(numbers)
        self.has_ack(number for at, number in enumerate(numbers) if at not in failed)
        again = [numbers[at] for at in sorted(failed)]
        if again:
            asyncio.get_running_loop().call_later(AGAIN, self._again.extend, again)


class BrokerClient(ClientLedger):
    """It hands its events to a broker, which has them from then on."""

    async def publish(self, put: Callable[[bytes], bool]) -> None:
        """`put` hands one event to the broker. It returns False as long as nobody has subscribed."""
        while True:
            await self.pause()
            numbers = self.due()
            for number, event in zip(numbers, self.events(numbers), strict=True):
                while not put(event):
                    await self.pause()
                self.has_sent([number])
                self.has_ack([number])


class PeerLedger:
    """`got`: how often it took each event, by client and number; `letters`: the same of error records, by the sinks
    that they are about (none: a pipeline). `poison`: events that it refuses for ever. `chokes`: events on which it
    fails for ever."""

    def __init__(self, name: str, dice: Random) -> None:
        self.name = name
        self.mood: Mood = "well"
        self.got: Counter[tuple[str, int]] = Counter()
        self.letters: Counter[tuple[frozenset[str], str, int]] = Counter()  # of which sinks, and the event
        self.torn = 0  # letters about what is no event
        self.poison: frozenset[int] = frozenset()
        self.chokes: frozenset[int] = frozenset()
        self.latency = 0.002
        self.dice = dice

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"<{kind} {self.name}, {self.mood}: {len(self.got)} events, {len(self.letters)} letters>"

    def becomes(self, mood: Mood) -> None:
        self.mood = mood

    def take(self, payloads: Iterable[bytes]) -> None:
        for payload in payloads:
            value = cast("Mapping[str, object]", JSON.decode(payload))
            if "error" in value:
                about = str(value.get("sink") or value.get("source") or "::")
                sinks = frozenset(one.partition("::")[2] for one in about.split(" and ") if one != "::")
                self._take_letter(sinks, value.get("event"))
            else:
                self.got.update(_told_in(value))

    def _take_letter(self, sinks: frozenset[str], event: object) -> None:
        told = _told_in(cast("Mapping[str, object]", event)) if isinstance(event, dict) else []
        if not told:  # a line that is torn for ever
            self.torn += 1
        self.letters.update((sinks, *each) for each in told)


def _told_in(event: Mapping[str, object]) -> list[tuple[str, int]]:
    """Which events of clients it is: that of a window is of many."""
    numbers = event.get("ns", [event["n"]] if "n" in event else [])
    return [(str(event["from"]), number) for number in cast("Sequence[int]", numbers)]


class FilePeer(PeerLedger):
    """A file that a sink writes. What is in it counts."""

    def read(self, content: bytes) -> None:
        """Raises AssertionError where a line is torn."""
        self.got.clear()
        assert not content or content.endswith(b"\n"), f"{self.name} ends in a torn line"
        self.take(content.splitlines())


class StoryPeer(PeerLedger):
    """It is handed blocks by a sink."""

    def __init__(self, name: str, dice: Random) -> None:
        super().__init__(name, dice)
        self.connections: list[PeerConnection] = []

    def becomes(self, mood: Mood) -> None:
        super().becomes(mood)
        for connection in [*self.connections]:
            connection.life.run(connection.mood_changed)


class PeerConnection(SinkPeer):
    """Answers each block after a while."""

    def __init__(self, peer: StoryPeer, inlet: Inlet, life: Life) -> None:
        self.peer = peer
        self.life = life
        self._inlet = inlet
        self._sent: dict[int, Block] = {}
        self._count = 0
        self._connected = False
        peer.connections.append(self)
        life.on_gone.append(self.forget)

    def send(self, waiting: deque[Block]) -> bool:
        while waiting and len(self._sent) < 4:
            block = waiting.popleft()
            self._count += 1
            self._sent[self._count] = block
            if self.peer.mood != "silent":
                self._answer_later(self._count)
        return len(self._sent) < 4

    def unfinished(self) -> Iterable[tuple[Block, int]]:
        sent, self._sent = self._sent, {}
        return [(block, 0) for block in sent.values()]

    def connect(self) -> None:
        self._connected = True
        self.sink.connected()

    def forget(self) -> None:
        """It is over: its connector was stopped, or its process is gone."""
        self._sent.clear()
        if self in self.peer.connections:
            self.peer.connections.remove(self)

    def mood_changed(self) -> None:
        if self.peer.mood == "away":
            self._connected = False
            self.sink.lost(PeerWentAway("it is away"))
            self.sink.fail_all(PeerWentAway("it went away"))
            return
        if not self._connected:
            self.connect()
        for number in [*self._sent]:
            self._answer_later(number)

    def _answer_later(self, number: int) -> None:
        peer = self.peer
        self._inlet.scheduler.call_later(peer.dice.expovariate(1 / peer.latency), partial(self._answer, number))

    def _answer(self, number: int) -> None:
        block = self._sent.get(number)
        if block is None or self.peer.mood == "silent":
            return
        del self._sent[number]
        if self.peer.mood == "busy":
            self.sink.fail(block, PeerBusy("it is busy"))
            self.sink.troubled(PeerBusy("it is busy"))
            return
        self._take(block)
        self.sink.wake()

    def _take(self, block: Block) -> None:
        """It answers by event, as an endpoint for lists does; of a block with one that it chokes on it has none."""
        peer, payloads = self.peer, block.frames.payloads()
        numbers = [cast("Mapping[str, int]", value).get("n", -1) for value in block.values]
        if any(number in peer.chokes for number in numbers):
            self.sink.fail(block, PeerBusy("it chokes"))
            return
        refused = [number in peer.poison for number in numbers]
        self.sink.delivered()
        if not any(refused):
            peer.take(payloads)
            self._inlet.ack(block)
            return
        for part, payload, no in zip(block.split([1] * len(payloads)), payloads, refused, strict=True):
            if no:
                self._inlet.reject(part, "never")
            else:
                peer.take([payload])
                self._inlet.ack(part)


class Outside:
    """`clients` and `peers` by the aliases of their connectors."""

    def __init__(self, dice: Random, clients: Iterable[str], peers: Iterable[str]) -> None:
        self.clients: dict[str, ClientLedger] = {name: StoryClient(name, dice) for name in clients}
        self.peers: dict[str, PeerLedger] = {name: StoryPeer(name, dice) for name in peers}


outside: ContextVar[Outside] = ContextVar("outside")


def _life() -> Life:
    life = now_running()
    assert life is not None
    return life


class Clients(Connector):
    """A source: a client of the story."""

    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN)

    def ports_used(self) -> Ports:
        return Ports(inputs=())

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(source=Lossless("a client sends an event until it is acked"), sink="")

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        client = outside.get().clients[out.name.rpartition("::")[2]]
        assert isinstance(client, StoryClient)
        await client.talk(out, _life())


class Peers(Connector):
    """A sink: a peer of the story."""

    traits: ClassVar[Traits] = Traits(codec=CodecUse.OPTIONAL)

    def ports_used(self) -> Ports:
        return Ports(outputs=("err",))

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(source="", sink=Lossless("an event is acked when the peer has it"))

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        peer = outside.get().peers[inlet.name.rpartition("::")[2]]
        assert isinstance(peer, StoryPeer)
        connection = PeerConnection(peer, inlet, _life())
        sink = PeerSink(inlet, connection)
        sink.serve(PeerWentAway("not connected yet"))
        if peer.mood != "away":
            connection.connect()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await sink.close()
            connection.forget()
