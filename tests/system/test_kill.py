"""kill -9 under load, again and again: what was echoed is in the file, once, unaltered."""

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.system.daemon import PATIENCE, echo_flow, running

KILLS = 20
CLIENTS = 4
OUTSTANDING = 400  # lines sent and not echoed, per client


class Sender:
    """Sends numbered lines for ever; after a reconnect, first what was not echoed. Every transmission of a line has
    an attempt of its own, so a line that stands twice in the file with one attempt was doubled by walflow."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.chance = random.Random(number)
        self.next = 0
        self.attempts: Counter[int] = Counter()
        self.sent: dict[bytes, int] = {}  # in flight on this connection
        self.unechoed: list[int] = []
        self.echoed: set[bytes] = set()
        self.strange: list[bytes] = []

    def line(self, number: int) -> bytes:
        self.attempts[number] += 1
        pad = "x" * random.Random(number).choice([0, 1, 30, 100, 1000, 9000])
        return (
            f'{{"client": {self.number}, "id":{number},"try":{self.attempts[number]},'
            f'"big":{2**64 + number}{"0" * (number % 30)},"pad":"{pad}"}}\n'
        ).encode()

    async def run(self, port: int) -> None:
        """Until the connection ends."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        self.unechoed = sorted({*self.unechoed, *self.sent.values()})
        self.sent.clear()
        listening = asyncio.create_task(self._listen(reader))
        try:
            while not listening.done():
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
        while line := await reader.readline():
            if not line.endswith(b"\n"):
                return
            if self.sent.pop(line, None) is None:
                self.strange.append(line)
            self.echoed.add(line)


@pytest.mark.timeout(240)
def test_nothing_echoed_is_missing_torn_or_doubled(tmp_path: Path) -> None:
    flow = echo_flow(tmp_path)
    chance = random.Random(4)
    senders = [Sender(number) for number in range(CLIENTS)]
    replayed = 0
    for _ in range(KILLS):
        with running(flow, tmp_path) as daemon:
            port = daemon.port()
            asyncio.run(load(senders, port, chance.uniform(0.1, 0.6), daemon.kill))
            replayed += int(str(daemon.last("log open")["replays"]))
    with running(flow, tmp_path) as daemon:
        daemon.port()
        assert daemon.terminate() == 0
        assert daemon.last("stopped")["left"] == 0

    lines = (tmp_path / "out.log").read_bytes().split(b"\n")
    assert lines.pop() == b""
    in_file = Counter(line + b"\n" for line in lines)
    for line in in_file:
        assert json.loads(line)["client"] in range(CLIENTS)
    echoed = set().union(*(sender.echoed for sender in senders))
    assert [line for sender in senders for line in sender.strange] == []
    assert echoed - in_file.keys() == set()
    assert [line for line, times in in_file.items() if times > 1] == []
    for sender in senders:
        assert all(json.loads(line)["client"] == sender.number for line in sender.echoed)
    assert len(echoed) > KILLS * 100  # there was load
    assert replayed > 0  # and kills hit it


async def load(senders: list[Sender], port: int, seconds: float, kill: object) -> None:
    assert callable(kill)
    tasks = [asyncio.create_task(sender.run(port)) for sender in senders]
    await asyncio.sleep(seconds)  # the fault's moment, not something waited for
    await asyncio.to_thread(kill)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*tasks)
