"""Clients that know what they sent, and what must be true of the file in the end."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.waiting import PATIENCE

OUTSTANDING = 400  # lines sent and not echoed, per client


class Sender:
    """Sends numbered lines for ever; after a reconnect, first what was not echoed. Every transmission of a line has
    a try of its own, so a line that stands twice in the file was doubled by walflow, not by its client."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.chance = random.Random(number)
        self.next = 0
        self.tries: Counter[int] = Counter()
        self.sent: dict[bytes, int] = {}  # in flight on this connection
        self.unechoed: list[int] = []
        self.echoed: set[bytes] = set()
        self.strange: list[bytes] = []  # echoed here, and not sent on this connection

    def line(self, number: int) -> bytes:
        self.tries[number] += 1
        pad = "x" * random.Random(number).choice([0, 1, 30, 100, 1000, 9000])
        return (
            f'{{"client": {self.number}, "id":{number},"try":{self.tries[number]},'
            f'"big":{2**64 + number}{"0" * (number % 30)},"pad":"{pad}"}}\n'
        ).encode()

    async def run(self, port: int) -> None:
        """Until the connection ends."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        self.unechoed = sorted({*self.unechoed, *self.sent.values()})
        self.sent.clear()
        listening = asyncio.create_task(self._listen(reader))
        try:
            while not listening.done() and not writer.is_closing():
                if len(self.sent) < OUTSTANDING:
                    self._send_some(writer)
                    await writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            pass
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            writer.close()

    def _send_some(self, writer: asyncio.StreamWriter) -> None:
        for _ in range(self.chance.randrange(1, 60)):
            if self.unechoed:
                number = self.unechoed.pop(0)
            else:
                number, self.next = self.next, self.next + 1
            line = self.line(number)
            self.sent[line] = number
            writer.write(line)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while (line := await reader.readline()).endswith(b"\n"):
            if self.sent.pop(line, None) is None:
                self.strange.append(line)
            self.echoed.add(line)


async def load(senders: list[Sender], port: int, seconds: float, end: Callable[[], object]) -> None:
    """So many seconds of it, then `end`, then until every connection has ended."""
    tasks = [asyncio.create_task(sender.run(port)) for sender in senders]
    await asyncio.sleep(seconds)  # the fault's moment, not something waited for
    await asyncio.to_thread(end)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*tasks)


def settle(senders: list[Sender], file: Path) -> None:
    """Asserts what must be true: nothing echoed is missing, altered, torn, doubled or echoed to another."""
    lines = file.read_bytes().split(b"\n")
    assert lines.pop() == b""
    times = Counter(line + b"\n" for line in lines)
    for line in times:
        assert json.loads(line)["client"] in range(len(senders))
    assert [line for sender in senders for line in sender.strange] == []
    echoed = set().union(*(sender.echoed for sender in senders))
    assert echoed - times.keys() == set()
    assert [line for line, count in times.items() if count > 1] == []
