"""Clients of all doors and a peer of a sink, at one rate, in a process of their own:
`python -m bench.steady.load '{"tcp": 1, "http": 2, "ws": 3, "peer": 4, "directory": "…", "seconds": 60}'`.

It ends by itself, and prints how many events each door has taken from it. Every few seconds a client goes and another
comes, a file is rotated, a line is no JSON, and once a minute the peer goes away for five seconds.
"""

import asyncio
import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from websockets.asyncio.client import connect

TICK: Final = 0.05  # seconds between two writes of a client
LINES: Final = 10  # a write of TCP or of a file
TCP_CLIENTS: Final = 8
TCP_LIVES: Final = 20.0  # seconds of a connection
HTTP_EVENTS: Final = 10  # a request
WS_MESSAGES: Final = 5  # a tick
ROTATES: Final = 30.0  # seconds from one file to the next
KEEPS: Final = 3  # rotated files
BAD_EVERY: Final = 20  # ticks
PEER_STAYS, PEER_AWAY = 55.0, 5.0  # seconds


@dataclass(frozen=True)
class Doors:
    tcp: int
    http: int
    ws: int
    peer: int
    directory: str
    seconds: float


class Clients:
    """`sent`: good events that each door has taken, by door."""

    def __init__(self, doors: Doors) -> None:
        self.doors = doors
        self.sent = Counter[str]()
        self._end = time.monotonic() + doors.seconds
        self._numbers = itertools.count()

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._end

    async def run(self) -> None:
        tcp = [self._again(self._tcp) for _ in range(TCP_CLIENTS)]
        peer = asyncio.create_task(self._peer())
        await asyncio.gather(*tcp, self._again(self._http), self._again(self._ws), self._files())
        await asyncio.sleep(PEER_AWAY * 2)  # it takes what is left
        peer.cancel()
        with suppress(asyncio.CancelledError):
            await peer

    async def _again(self, client: Callable[[], Awaitable[None]]) -> None:
        while not self.over:
            await client()

    def _event(self, door: str) -> bytes:
        number = next(self._numbers)
        event = {
            "seq": number,
            "door": door,
            "host": f"web-{number % 50}",
            "ms": number % 997 / 10,
            "message": f"GET /item/{number % 100_000} of {door}",
        }
        return json.dumps(event, separators=(",", ":")).encode()

    def _lines(self, door: str, tick: int) -> bytes:
        lines = [self._event(door) for _ in range(LINES)]
        if tick % BAD_EVERY == 0:
            lines.append(b'{"no": "JSON')
        self.sent[door] += LINES
        return b"\n".join(lines) + b"\n"

    async def _tcp(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.doors.tcp)
        until = time.monotonic() + TCP_LIVES
        for tick in itertools.count():
            if self.over or time.monotonic() >= until:
                break
            writer.write(self._lines("tcp", tick))
            await writer.drain()
            await asyncio.sleep(TICK)
        writer.write_eof()
        await reader.read()  # all was read: the server ends it
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def _http(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.doors.http)
        until = time.monotonic() + TCP_LIVES
        while not self.over and time.monotonic() < until:
            body = b"\n".join(self._event("http") for _ in range(HTTP_EVENTS)) + b"\n"
            writer.write(
                b"POST / HTTP/1.1\r\nHost: here\r\nContent-Type: application/x-ndjson\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body) + body
            )
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200 "):
                raise SystemExit(f"http_server answers {head[:80]!r}")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length or b"0"))
            self.sent["http"] += HTTP_EVENTS
            await asyncio.sleep(TICK)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def _ws(self) -> None:
        async with connect(f"ws://127.0.0.1:{self.doors.ws}/", max_queue=None) as socket:
            until = time.monotonic() + TCP_LIVES
            while not self.over and time.monotonic() < until:
                for _ in range(WS_MESSAGES):
                    await socket.send(self._event("ws").decode())
                self.sent["ws"] += WS_MESSAGES
                await asyncio.sleep(TICK)
            await (await socket.ping())  # it has come, and so have all before it

    async def _files(self) -> None:
        place = Path(self.doors.directory) / "in.log"
        rotated = time.monotonic() + ROTATES
        for tick in itertools.count():
            if self.over:
                return
            if time.monotonic() >= rotated:
                for number in range(KEEPS - 1, 0, -1):
                    with suppress(FileNotFoundError):
                        os.replace(f"{place}.{number}", f"{place}.{number + 1}")
                os.replace(place, f"{place}.1")
                rotated += ROTATES
            with place.open("ab") as file:
                file.write(self._lines("file", tick))
            await asyncio.sleep(TICK)

    async def _peer(self) -> None:
        """Sends back what comes."""
        while True:
            server = await asyncio.start_server(_echo, "127.0.0.1", self.doors.peer)
            async with server:
                await asyncio.sleep(PEER_STAYS)
                for writer in [*_connected]:
                    writer.transport.abort()
            await asyncio.sleep(PEER_AWAY)


_connected = set[asyncio.StreamWriter]()


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    _connected.add(writer)
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except (OSError, asyncio.CancelledError):
        pass  # it goes away, or all is over
    finally:
        _connected.discard(writer)
        writer.close()


def main() -> None:
    clients = Clients(Doors(**json.loads(sys.argv[1])))
    asyncio.run(clients.run())
    print(json.dumps(clients.sent))


if __name__ == "__main__":
    main()
