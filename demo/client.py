"""Clients that send numbered lines and want each back: after a lost connection they send again what was not
echoed."""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import cycle
from typing import Final, cast

from demo.ledger import Account, Connection
from demo.lines import Lines

WINDOW: Final = 512 << 10  # bytes a client sends ahead of their echo
TICK: Final = 0.01  # seconds between looks at how many lines are due
RECONNECT: Final = 0.02  # seconds
LONGER: Final = 4  # times as long as planned


class Client:
    """One connection at a time. Lines become due by `allow`, whether or not the server is there to take them."""

    def __init__(self, number: int, lines: Lines) -> None:
        self.account = Account(number)
        self.lines = lines
        self.due = 0  # lines
        self.outstanding: deque[bytes] = deque()  # sent and not echoed, oldest first
        self.outstanding_bytes = 0
        self._wire: _Wire | None = None

    def allow(self, due: int) -> None:
        self.due = due
        self.send()

    def settle(self) -> None:
        """No more lines than those already sent once."""
        self.due = self.account.sent

    async def run(self, port: int) -> None:
        """Connects again and again, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                transport, wire = await loop.create_connection(lambda: _Wire(self), "127.0.0.1", port)
            except OSError:
                await asyncio.sleep(RECONNECT)
                continue
            try:
                await wire.lost
            finally:
                transport.abort()

    def connected(self, wire: "_Wire") -> None:
        """All that was not echoed goes out anew, under the number of this connection."""
        self._wire = wire
        self.outstanding.clear()
        self.outstanding_bytes = 0
        self.account.connections.append(Connection(self.account.echoed, self.account.echoed))
        self.send()

    def disconnected(self) -> None:
        self._wire = None

    def send(self) -> None:
        if self._wire is None:
            return
        connection = self.account.connections[-1]
        number = len(self.account.connections) - 1
        batch: list[bytes] = []
        while connection.next < self.due and self.outstanding_bytes < WINDOW:
            line = self.lines.make(self.account.client, connection.next, number)
            connection.next += 1
            self.outstanding_bytes += len(line)
            batch.append(line)
        if batch:
            self.outstanding.extend(batch)
            self._wire.transport.write(b"".join(batch))

    def echoed(self, line: bytes) -> None:
        if self.outstanding and line == self.outstanding[0]:
            self.outstanding.popleft()
            self.outstanding_bytes -= len(line)
            self.account.echoed += 1
            return
        number = self.lines.number(line)
        if number is None:
            self.account.altered.append(line)
        elif number.client != self.account.client:
            self.account.foreign.append(line)
        else:
            self.account.unasked.append(line)


class _Wire(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, client: Client) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._client = client
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        self._client.connected(self)

    def data_received(self, data: bytes) -> None:
        *lines, self._tail = (self._tail + data).split(b"\n")
        for line in lines:
            self._client.echoed(line + b"\n")
        self._client.send()

    def connection_lost(self, error: Exception | None) -> None:
        self._client.disconnected()
        if not self.lost.done():
            self.lost.set_result(None)


class Traffic:
    """All clients together. `rate`: lines a second that become due, for all of them; None: as many as come back."""

    def __init__(self, clients: int, lines: Lines, rate: float | None) -> None:
        self.clients = [Client(number, lines) for number in range(clients)]
        self._rate = rate
        self.flowing = True  # until the last line was due

    @property
    def accounts(self) -> list[Account]:
        return [client.account for client in self.clients]

    @property
    def sent(self) -> int:
        return sum(account.sent for account in self.accounts)

    @property
    def echoed(self) -> int:
        return sum(account.echoed for account in self.accounts)

    @property
    def underway(self) -> int:
        return sum(len(client.outstanding) for client in self.clients)

    @property
    def settled(self) -> bool:
        return self.sent == self.echoed

    async def flow(self, seconds: float, wanted: Callable[[], bool] = lambda: False) -> None:
        """Lets lines become due for so long, and while more are `wanted`, but no longer than LONGER times as long. At
        the end none is due that was not sent."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for client in cycle(self.clients):
            elapsed = loop.time() - began
            if elapsed >= seconds and (elapsed >= LONGER * seconds or not wanted()):
                break
            client.allow(1 << 62 if self._rate is None else int(elapsed * self._rate / len(self.clients)))
            await asyncio.sleep(TICK / len(self.clients))
        for client in self.clients:
            client.settle()
        self.flowing = False
