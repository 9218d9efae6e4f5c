"""Clients and peers of a story that speak TCP and HTTP, each from a host of its own. They are plain asyncio.

with entered(machine.other("near")):
    task = asyncio.create_task(peer.run("near", 4242))
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Final, NamedTuple, cast

from walflow.codecs import JSON
from walflow.testing.simulation.ends import AGAIN, ClientLedger, Mood, PeerLedger

PATIENCE: Final = 40.0  # seconds that a client waits for an answer: http_server answers after 30
COMES_BACK: Final = 0.1  # seconds, on the average, until it connects again
LEAVES: Final = 0.02  # of all pauses: after these a client ends its connection
LATENCIES: Final = (0.002, 0.002, 0.05)  # seconds for an answer, on the average
BUSY_HEADS: Final = ("503 Busy", "503 Busy\r\nRetry-After: 1", "500 Broken", "429 Slower")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
GONE: Final = (OSError, asyncio.IncompleteReadError, TimeoutError, EOFError)


class OutOfOrder(AssertionError):
    """What came back on a connection is not what was sent on it, in order."""


class WireClient(ClientLedger):
    """Connects again whenever its connection has ended. `troubles`: connections that were refused, or ended by the
    other side, and requests that failed."""

    def __init__(self, name: str, dice: Random) -> None:
        super().__init__(name, dice)
        self.troubles = 0

    async def run(self, host: str, port: int) -> None:
        while True:
            try:
                async with asyncio.timeout(PATIENCE):
                    reader, writer = await asyncio.open_connection(host, port)
                try:
                    self.begin()
                    await self.talk(reader, writer)
                finally:
                    writer.transport.abort()
            except GONE:
                self.troubles += 1
            await asyncio.sleep(self._dice.expovariate(1 / COMES_BACK))

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    def leaves(self) -> bool:
        return self._dice.random() < LEAVES


class EchoClient(WireClient):
    """Sends lines. An event is acked when its line is back."""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent: deque[bytes] = deque()
        more = asyncio.Event()
        listening = asyncio.create_task(self._listen(reader, sent, more))
        try:
            while not listening.done():
                await self.pause()
                numbers = self.due()
                events = self.events(numbers)
                sent += events
                if events:
                    more.set()
                    writer.write(b"\n".join(events) + b"\n")
                    self.has_sent(numbers)
                    async with asyncio.timeout(PATIENCE):
                        await writer.drain()
                if self.leaves():
                    writer.write_eof()
                    more.set()
                    await self._until_all_is_back(listening, sent)
                    return
            listening.result()
        finally:
            listening.cancel()

    async def _until_all_is_back(self, listening: "asyncio.Task[None]", sent: deque[bytes]) -> None:
        while sent and not listening.done():
            await self.pause()

    async def _listen(self, reader: asyncio.StreamReader, sent: deque[bytes], more: asyncio.Event) -> None:
        while True:
            if not sent:
                more.clear()
                await more.wait()
                continue
            async with asyncio.timeout(PATIENCE):
                line = await reader.readuntil(b"\n")
            expected = sent.popleft()
            if line[:-1] != expected:
                raise OutOfOrder(f"{self.name} got {line!r}, and not {expected!r}")
            self.has_ack([JSON.decode(expected)["n"]])  # type: ignore[index]  # it is its own


class HttpSender(WireClient):
    """Posts lines. They are acked when the answer is 2xx; otherwise the same request is sent again, with its
    Idempotency-Key."""

    def __init__(self, name: str, dice: Random) -> None:
        super().__init__(name, dice)
        self._request: tuple[list[int], str] | None = None

    def begin(self) -> None:
        """The request that has no answer goes first."""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not self.leaves():
            await self.pause()
            if self._request is None and (numbers := self.due()):
                self._request = numbers, self._dice.randbytes(8).hex()
            if self._request is None:
                continue
            numbers, key = self._request
            body = b"\n".join(self.events(numbers)) + b"\n"
            head = (
                f"POST /events HTTP/1.1\r\nHost: walflow\r\nContent-Type: application/x-ndjson\r\n"
                f"Content-Length: {len(body)}\r\nIdempotency-Key: {key}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            self.has_sent(numbers)
            async with asyncio.timeout(PATIENCE):
                answer = await read_message(reader)
            status = int(answer.first.split()[1])
            if 200 <= status < 300:
                self.has_ack(numbers)
                self._request = None
            else:
                self.doubtful.update(numbers)
                self.troubles += 1
                await asyncio.sleep(AGAIN)
            if answer.headers.get("connection") == "close":
                return


class HttpMessage(NamedTuple):
    first: str
    headers: dict[str, str]
    body: bytes


async def read_message(reader: asyncio.StreamReader) -> HttpMessage:
    """Of HTTP/1.1, with a Content-Length or without a body. Raises IncompleteReadError."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return HttpMessage(head[0], headers, await reader.readexactly(int(headers.get("content-length", "0"))))


class WirePeer(PeerLedger):
    """A server. While it is away it does not listen; while it is silent it reads and answers nothing."""

    def __init__(self, name: str, dice: Random) -> None:
        super().__init__(name, dice)
        self.latency = dice.choice(LATENCIES)
        self._changed = asyncio.Event()
        self._listens = asyncio.Event()
        self._writers: dict[asyncio.StreamWriter, None] = {}  # in their order, for stories to be told again
        self._talks: set[asyncio.Task[None]] = set()

    def becomes(self, mood: Mood) -> None:
        super().becomes(mood)
        self._changed.set()
        self._listens.set()

    async def run(self, host: str, port: int) -> None:
        server: asyncio.Server | None = None
        while True:
            if self.mood == "away":
                if server is not None:
                    server.close()
                    server = None
                for writer in [*self._writers]:
                    writer.transport.abort()
            elif server is None:
                server = await asyncio.start_server(self._begin, host, port)
            self._listens.clear()
            await self._listens.wait()

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._talks.add(task)
        task.add_done_callback(self._talks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[writer] = None
        try:
            with suppress(*GONE):
                await self.talk(reader, writer)
        finally:
            del self._writers[writer]
            writer.transport.abort()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    async def speaks(self) -> None:
        """Its time for an answer, and for as long as it is silent."""
        await asyncio.sleep(self.dice.expovariate(1 / self.latency))
        while self.mood == "silent":
            self._changed.clear()
            await self._changed.wait()

    def numbers(self, events: Sequence[bytes]) -> set[int]:
        values = [cast("Mapping[str, int]", JSON.decode(event)) for event in events]
        return {value["n"] for value in values if "n" in value}


class EchoPeer(WirePeer):
    """Sends each line back. It closes a connection when it is busy, and when it chokes."""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            line = await reader.readuntil(b"\n")
            await self.speaks()
            if self.mood == "busy" or self.numbers([line]) & self.chokes:
                return
            self.take([line])
            writer.write(line)
            await writer.drain()


class HttpEndpoint(WirePeer):
    """Takes lines. A request that holds one that it refuses is answered with 400; with one that it chokes on, with
    500. It knows a request by its Idempotency-Key."""

    def __init__(self, name: str, dice: Random) -> None:
        super().__init__(name, dice)
        self._known: set[str] = set()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await read_message(reader)
            await self.speaks()
            head = self._answer(request)
            writer.write(f"HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()

    def _answer(self, request: HttpMessage) -> str:
        events = request.body.splitlines()
        numbers, key = self.numbers(events), request.headers.get("idempotency-key", "")
        if self.mood == "busy":
            return self.dice.choice(BUSY_HEADS)
        if numbers & self.chokes:
            return "500 Broken"
        if numbers & self.poison:
            return "400 Refused"
        if key not in self._known:
            self.take(events)
        if key:
            self._known.add(key)
        return "200 OK"
