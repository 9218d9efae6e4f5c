"""Both ends of a system: a client that sends again what was not acked, and a receiver that can be told to fail."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, Protocol

from bench.crash.events import event, numbers
from bench.crash.ledger import POISON, Ledger

BATCH: Final = 20  # events of a request
AGAIN: Final = 0.2  # seconds until a client connects again
PATIENCE: Final = 5.0  # seconds that a client waits for an answer

Mood = Literal["well", "down", "hung", "busy"]


class Client(Protocol):
    """`acks`: what its ack means, in words."""

    acks: str

    async def send(self, first: int, count: int, ledger: Ledger) -> None:
        """Returns once they are acked. Raises OSError, EOFError or TimeoutError: it is asked again."""
        ...

    def close(self) -> None: ...


class Receiver:
    """`mood`: down (nothing listens), hung (nothing is read or answered), busy (each request is refused for now).
    `poison`: whether that event is refused for ever."""

    def __init__(self, ledger: Ledger, port: int) -> None:
        self.ledger = ledger
        self.port = port
        self.mood: Mood = "well"
        self.poison = False
        self.changed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def becomes(self, mood: Mood) -> None:
        was, self.mood = self.mood, mood
        self.changed.set()
        self.changed = asyncio.Event()
        if mood == "down":
            await self.stop()
        elif was == "down":
            await self.start()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._open.values():
            writer.transport.abort()
        if self._open:
            await asyncio.wait(self._open, timeout=1.0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        with suppress(OSError, EOFError, ValueError):  # it has ended, or makes no sense
            while True:
                await self.answer_one(reader, writer)
                await writer.drain()
        del self._open[task]
        writer.close()

    async def answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    async def judge(self, data: bytes) -> Literal["taken", "busy", "refused"]:
        """What is to be answered to these events, once it is to be answered."""
        while self.mood == "hung":
            await self.changed.wait()
        if self.mood == "down":
            raise EOFError
        if self.mood == "busy":
            return "busy"
        found = numbers(data)
        if self.poison and any(number == POISON for number, _ in found):
            self.ledger.refuse(POISON)
            return "refused"
        self.ledger.came(found)
        return "taken"


class HttpReceiver(Receiver):
    async def answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        status = {"taken": "200 OK", "busy": "500 Internal Server Error", "refused": "400 Bad Request"}
        verdict = await self.judge(body)
        writer.write(f"HTTP/1.1 {status[verdict]}\r\nContent-Length: 0\r\n\r\n".encode())


class QuotedHttpReceiver(HttpReceiver):
    """Of requests that have the events as strings of JSON."""

    async def judge(self, data: bytes) -> Literal["taken", "busy", "refused"]:
        return await super().judge(data.replace(b'\\"', b'"').replace(b"}", b"}\n"))


class HttpClient:
    """One request after the other, of `BATCH` events, each with a key: the same when it is sent again."""

    acks = "200 to the request"
    path = "/"

    def body(self, first: int, count: int) -> bytes:
        return b"".join(event(number) + b"\n" for number in range(first, first + count))

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, first: int, count: int, ledger: Ledger) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        body = self.body(first, count)
        head = f"POST {self.path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        head += f"Idempotency-Key: {first}\r\nContent-Length: {len(body)}\r\n\r\n"
        ledger.sent.update(range(first, first + count))
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        await reader.readexactly(length)
        if answer.split()[1] not in (b"200", b"202", b"204"):
            raise OSError(answer.split(b"\r\n")[0].decode())

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


def relp(transaction: int, command: str, data: bytes) -> bytes:
    """A frame, as librelp's doc/relp.html has it."""
    return b"%d %b %d%b\n" % (transaction, command.encode(), len(data), b" " + data if data else b"")


async def read_relp(reader: asyncio.StreamReader) -> tuple[int, str, bytes]:
    transaction = int(await reader.readuntil(b" "))
    command = (await reader.readuntil(b" ")).decode().strip()
    digits = b""
    while (one := await reader.readexactly(1)).isdigit():
        digits += one
    data = await reader.readexactly(int(digits)) if int(digits) else b""
    if one != b"\n":
        await reader.readexactly(1)
    return transaction, command, data


OFFER: Final = b"relp_version=0\nrelp_software=bench\ncommands=syslog"


class RelpReceiver(Receiver):
    async def answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, command, data = await read_relp(reader)
        if command == "open":
            writer.write(relp(number, "rsp", b"200 OK\n" + OFFER))
        elif command == "syslog":
            words = {"taken": b"200 OK", "busy": b"500 busy", "refused": b"500 refused"}
            writer.write(relp(number, "rsp", words[await self.judge(data)]))
        else:
            writer.write(relp(number, "rsp", b""))
            await writer.drain()
            raise EOFError


class RelpClient:
    """`BATCH` events, and then the answers to all of them."""

    acks = "rsp 200 to the event"

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._number = 0

    async def send(self, first: int, count: int, ledger: Ledger) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            self._number = 1
            self._streams[1].write(relp(1, "open", OFFER))
            await read_relp(self._streams[0])
        reader, writer = self._streams
        ledger.sent.update(range(first, first + count))
        for number in range(first, first + count):
            self._number += 1
            writer.write(relp(self._number, "syslog", b"<13>Jan  1 00:00:00 host bench: " + event(number)))
        for _ in range(count):
            _, _, answer = await read_relp(reader)
            if not answer.startswith(b"200"):
                raise OSError(answer.decode(errors="replace"))

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


class SyslogClient:
    """TCP: the protocol has no ack. What the kernel has taken counts, and is not sent again."""

    acks = "none: what TCP took counts"

    def __init__(self, port: int) -> None:
        self._port = port
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, first: int, count: int, ledger: Ledger) -> None:
        if self._writer is None:
            _, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        lines = [b"<13>Jan  1 00:00:00 host bench: " + event(number) for number in range(first, first + count)]
        ledger.sent.update(range(first, first + count))
        self._writer.write(b"".join(line + b"\n" for line in lines))
        await self._writer.drain()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None


async def load(client: Client, ledger: Ledger, events: int, rate: int, over: Callable[[], bool]) -> None:
    """Sends so many events, `rate` a second, each until it is acked."""
    loop = asyncio.get_running_loop()
    began, first = loop.time(), 0
    while first < events and not over():
        await asyncio.sleep(began + first / rate - loop.time())
        try:
            async with asyncio.timeout(PATIENCE):
                await client.send(first, BATCH, ledger)
        except (OSError, EOFError, TimeoutError, asyncio.IncompleteReadError):
            client.close()
            await asyncio.sleep(AGAIN)
            continue
        ledger.acked.update(range(first, first + BATCH))
        first += BATCH
    client.close()
