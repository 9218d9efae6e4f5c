"""The plain listener, with real sockets: one reader, at most once, and whatever was not written is the next one's."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from connectors.spark.config import SparkConfig
from connectors.spark.consumers import PLAIN, Consumers
from connectors.spark.durable_end import DurableEnd
from connectors.spark.socket.plain import PlainPort
from connectors.spark.spark_log import ServedLog
from pyspark_walflow.wire import PREFACE
from tests.connectors.spark.socket.test_lines import add, block
from tests.waiting import until
from walflow.testing import MemoryOutlet, VirtualScheduler
from walflow.wal import Log, LogOptions


class World:
    """One life of a daemon's log and its plain listener."""

    def __init__(self, path: Path, **config: object) -> None:
        self.config = SparkConfig.model_validate({"path": str(path), "socket_url": "127.0.0.1:0", **config})
        self.log = Log(LogOptions(str(path)))
        self.outlet = MemoryOutlet(VirtualScheduler())
        self.consumers = Consumers(self.log, [*self.config.consumers, PLAIN], self.outlet, lambda: None)
        self.served = ServedLog(self.log, DurableEnd(self.log), self.consumers)
        self.handed: list[tuple[socket.socket, bytes]] = []

    def give(self, *numbers: int, size: int = 0) -> None:
        add(self.log, block(b"".join(b'{"n":%d,"x":"%s"}\n' % (number, b"x" * size) for number in numbers)))
        self.served.durable_end.moved()

    @property
    def committed(self) -> int:
        return self.consumers.committed(PLAIN)

    def said(self, event: str) -> list[dict[str, object]]:
        return [dict(entry) for entry in self.outlet.logged if entry["event"] == event]

    async def until(self, happened: Callable[[], object]) -> None:
        await until(happened, lambda: self.outlet.logged)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        plain = PlainPort(self.config, self.served, self.outlet, self._hand_over)
        tasks = [asyncio.ensure_future(plain.run()), asyncio.ensure_future(self._turn())]
        try:
            await self.until(lambda: self.said("listening for a socket source") or tasks[0].done())
            yield
        finally:
            for task in tasks:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _turn(self) -> None:
        """The scheduler's thread works."""
        while True:
            self.outlet.scheduler.run()
            await asyncio.sleep(0.001)

    def _hand_over(self, sock: socket.socket, address: object, received: bytes) -> None:
        self.handed.append((sock, received))

    async def connect(self, says: bytes = b"") -> "Reader":
        port = int(str(self.said("listening for a socket source")[0]["address"]).rsplit(":", 1)[1])
        reader = Reader(socket.socket())
        reader.socket.setblocking(False)
        reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        await asyncio.get_running_loop().sock_connect(reader.socket, ("127.0.0.1", port))
        reader.socket.send(says)
        return reader

    async def reading(self) -> "Reader":
        before = len(self.said("socket reader"))
        reader = await self.connect()
        await self.until(lambda: len(self.said("socket reader")) > before)
        return reader

    def close(self) -> None:
        self.log.close()


class Reader:
    """Spark's side: it says nothing and reads lines."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.data = b""

    def read(self) -> bool:
        """What is there now; False: the end."""
        try:
            while data := self.socket.recv(1 << 16):
                self.data += data
        except BlockingIOError:
            return True
        except ConnectionResetError:
            pass
        return False

    def has_some(self) -> bool:
        """And leaves it there."""
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False

    @property
    def numbers(self) -> list[int]:
        return [int(line[5 : line.index(b",")]) for line in self.data.split(b"\n")[:-1]]

    async def until(self, world: World, count: int) -> list[int]:
        await world.until(lambda: not self.read() or self.data.count(b"\n") >= count)
        return self.numbers


async def test_events_are_lines_and_done_once_sent(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.give(1, 2)
    async with world.running():
        reader = await world.reading()
        assert await reader.until(world, 2) == [1, 2]
        world.give(3)
        assert await reader.until(world, 3) == [1, 2, 3]
        await world.until(lambda: world.committed == 4)
        reader.socket.close()
        await world.until(lambda: world.said("socket reader gone"))
    world.close()


async def test_nothing_is_sent_that_is_not_committed(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running():
        reader = await world.reading()
        world.outlet.scheduler.holding = True
        world.give(1)
        await world.until(lambda: world.outlet.scheduler.in_air)
        await asyncio.sleep(0.1)
        assert reader.read()
        assert reader.data == b""
        world.outlet.scheduler.holding = False
        assert await reader.until(world, 1) == [1]
        reader.socket.close()
        await world.until(lambda: world.said("socket reader gone"))
    world.close()


async def test_a_crash_repeats_nothing(tmp_path: Path) -> None:
    """What the file says when a line has arrived is beyond that line already."""
    world = World(tmp_path)
    world.give(*range(1, 1001))
    async with world.running():
        reader = await world.reading()
        await reader.until(world, 1)
        reader.read()
        got = len(reader.numbers)
        said = (tmp_path / "consumers").read_bytes()
        reader.socket.close()
        await world.until(lambda: world.said("socket reader gone"))
    world.log.abandon()
    (tmp_path / "consumers").write_bytes(said)

    again = World(tmp_path)
    assert again.committed > got
    again.close()


async def test_a_second_reader_is_refused_and_gets_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running():
        first = await world.reading()
        second = await world.connect()
        await world.until(lambda: not second.read())
        assert second.data == b""
        world.give(1)
        assert await first.until(world, 1) == [1]
        (line,) = world.said("socket reader refused")
        assert "reads already, and there can be only one" in str(line["reason"])
        assert world.outlet.counters["refused_connections_total"].value == 1
        for reader in (first, second):
            reader.socket.close()
        await world.until(lambda: world.said("socket reader gone"))
    world.close()


async def test_the_next_reader_goes_on_behind_the_last(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.give(*range(1, 2001))
    async with world.running():
        first = await world.reading()
        await first.until(world, 100)
        first.socket.shutdown(socket.SHUT_WR)
        await world.until(lambda: world.said("socket reader gone"))
        await world.until(lambda: not first.read())
        first.socket.close()
        second = await world.reading()
        rest = await second.until(world, 2000 - len(first.numbers))
        second.socket.close()
        await world.until(lambda: len(world.said("socket reader gone")) == 2)

    assert first.numbers + rest == [*range(1, 2001)], "one that left in order has read all that it was sent"
    world.close()


async def test_a_line_that_was_begun_for_one_is_not_ended_for_the_next(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.give(1, size=4 << 20)
    world.give(2)
    async with world.running():
        first = await world.reading()
        await world.until(first.has_some)
        first.socket.close()
        await world.until(lambda: world.said("socket reader gone"))
        second = await world.reading()
        assert await second.until(world, 1) == [2]
        second.socket.close()
        await world.until(lambda: len(world.said("socket reader gone")) == 2)
    world.close()


@pytest.mark.test
async def test_a_reader_that_does_not_read_stops_the_sending(tmp_path: Path) -> None:
    world = World(tmp_path, max_lines_per_second=1_000_000)
    for number in range(1, 129):
        world.give(number, size=64 << 10)
    async with world.running():
        reader = await world.reading()
        reached = 0
        while world.committed > reached:
            reached = world.committed
            await asyncio.sleep(0.3)
        assert reached < 120, "8 MiB do not fit the buffers of one connection"
        assert await reader.until(world, 128) == [*range(1, 129)]
        reader.socket.close()
        await world.until(lambda: world.said("socket reader gone"))
    world.close()


async def test_stopped_it_sends_what_it_committed(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.give(*range(1, 20_001))
    async with world.running():
        reader = await world.reading()
        await reader.until(world, 500)
    await world.until(lambda: not reader.read())
    reader.socket.close()

    assert reader.numbers == [*range(1, world.committed)]
    assert not world.said("lines lost")
    world.close()


async def test_stopped_before_a_full_socket_it_says_what_is_lost(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.give(1, size=4 << 20)
    world.give(2)
    async with world.running():
        reader = await world.reading()
        await world.until(lambda: world.committed == 2)
    reader.socket.close()

    assert [(line["count"], line["reason"]) for line in world.said("lines lost")] == [
        (1, "committed, and never sent")
    ]
    world.close()


async def test_who_says_the_preface_is_the_bridges(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.give(1)
    async with world.running():
        client = await world.connect(PREFACE[:5])
        client.socket.send(PREFACE[5:] + b"and more")
        await world.until(lambda: world.handed)
        ((sock, received),) = world.handed
        assert received == PREFACE
        sock.setblocking(True)
        assert sock.recv(100) == b"and more"
        sock.close()
        assert not client.read()
        assert client.data == b""
        client.socket.close()
    assert world.committed == 1
    world.close()


@pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\n\r\n", PREFACE[:4], b"\x16\x03\x01"])
async def test_who_says_anything_else_is_no_reader(words: bytes, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.give(1)
    async with world.running():
        client = await world.connect(words)
        await world.until(lambda: not client.read())
        assert client.data == b""
        assert "Spark's socket source says nothing" in str(world.said("socket reader refused")[0]["reason"])
        client.socket.close()
    assert world.committed == 1
    world.close()


async def test_who_leaves_at_once_takes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.give(1)
    async with world.running():
        (await world.connect()).socket.close()
        reader = await world.reading()
        assert await reader.until(world, 1) == [1]
        reader.socket.close()
        await world.until(lambda: world.said("socket reader gone"))
    assert len(world.said("socket reader")) == 1
    world.close()


async def test_others_keep_what_they_have_not_read(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.give(*range(1, 11))
    async with world.running():
        reader = await world.reading()
        await reader.until(world, 10)
        await world.until(lambda: world.committed == 11)
        reader.socket.close()
        await world.until(lambda: world.said("socket reader gone"))
    assert world.log.low == 0
    assert world.consumers.committed("spark") == 1
    world.close()


def test_open_to_the_network_it_wants_a_reason(tmp_path: Path) -> None:
    config = {"path": str(tmp_path), "socket_url": "0.0.0.0:9999"}
    with pytest.raises(ValidationError, match=r"socket_url 0\.0\.0\.0:9999 is open to the network"):
        SparkConfig.model_validate(config)
    assert SparkConfig.model_validate(config | {"insecure": "a test"}).socket_address == ("0.0.0.0", 9999)


def test_it_wants_a_port_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(
        ValidationError, match=r"socket_url and url are both 127\.0\.0\.1:7700: give them a port each"
    ):
        SparkConfig.model_validate({"path": str(tmp_path), "socket_url": "127.0.0.1"})
