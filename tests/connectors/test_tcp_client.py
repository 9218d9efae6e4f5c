"""A client whose peer is there, is not there, comes back, falls silent or does not read."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest
from pydantic import ValidationError

from connectors.tcp import TcpClient
from tests.connectors.started import started
from tests.waiting import PATIENCE
from walflow.contract import Guarantee
from walflow.framing import WHOLE
from walflow.net.client import LOSES
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler


class Peer(asyncio.Protocol):
    """A server with one client at a time."""

    def __init__(self) -> None:
        self.received: list[bytes] = []  # by each connection
        self.echoing = False
        self.left = 1_000_000  # lines that it takes before it leaves
        self._transport: asyncio.Transport | None = None
        self._transports: list[asyncio.Transport] = []
        self._server: asyncio.Server | None = None
        self.port = 0

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: self, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transports.append(self._transport)
        self.received.append(b"")

    def data_received(self, data: bytes) -> None:
        if data.count(b"\n") > self.left:
            data = b"".join(data.splitlines(keepends=True)[: self.left])
            asyncio.get_running_loop().call_later(0.01, self.leave)  # the echo is read first
        self.left -= data.count(b"\n")
        self.received[-1] += data
        if self.echoing:
            self.send(data)

    @property
    def unsent(self) -> int:
        assert self._transport is not None
        return self._transport.get_write_buffer_size()

    def send(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def pause(self) -> None:
        assert self._transport is not None
        self._transport.pause_reading()

    def resume(self) -> None:
        assert self._transport is not None
        self._transport.resume_reading()

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    def abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def leave(self) -> None:
        assert self._server is not None
        self._server.close()
        for transport in self._transports:
            transport.abort()


class World:
    def __init__(self, *, linked: bool = True) -> None:
        self.scheduler = VirtualScheduler()
        self.inlet = MemoryInlet(self.scheduler, behind_log=True)
        self.outlet = MemoryOutlet(self.scheduler, linked=linked)
        self.peer = Peer()

    @property
    def fed(self) -> list[bytes]:
        """By each stream."""
        return [b"".join(stream.fed) for stream in self.outlet.streams]

    def give(self, *events: bytes) -> None:
        self.inlet.give(self.inlet.lines_of(*events))

    async def until(self, happened: Callable[[], object], step: float = 0) -> None:
        """`step`: virtual seconds that pass with each look."""
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < deadline, f"{self.outlet.lines} {self.inlet.acked} {self.inlet.failed}"
            self.scheduler.advance(step)
            await asyncio.sleep(0)

    @asynccontextmanager
    async def running(self, **config: object) -> AsyncIterator[None]:
        client = TcpClient.model_validate({"url": f"127.0.0.1:{self.peer.port}", **config})
        try:
            async with started(client.run(self.inlet, self.outlet)):
                yield
        finally:
            self.peer.leave()
            await asyncio.sleep(0)

    @asynccontextmanager
    async def connected(self, **config: object) -> AsyncIterator[None]:
        await self.peer.listen()
        async with self.running(**config):
            await self.until(lambda: self.peer.received == [b""])
            yield


async def test_written_is_acked_and_what_comes_is_events() -> None:
    world = World()
    async with world.connected():
        world.give(b"1", b"2")
        await world.until(lambda: world.inlet.acked == [b"1\n2\n"])
        await world.until(lambda: world.peer.received == [b"1\n2\n"])
        world.peer.send(b'{"answer":')
        await world.until(lambda: world.fed == [b'{"answer":'])
        assert world.outlet.streams[0].meta == {
            "tcp_client": {"tls": False, "peer": {"host": "127.0.0.1", "port": world.peer.port}}
        }
        assert world.inlet.triggered == []
    assert world.outlet.streams[0].ended == "closed"


async def test_what_was_written_is_lost_with_a_peer_that_did_not_read_it() -> None:
    world = World()
    async with world.connected():
        world.peer.pause()
        world.give(b"1")
        await world.until(lambda: world.inlet.acked == [b"1\n"])
        world.peer.abort()
        await world.until(lambda: len(world.peer.received) == 2, step=0.01)
        world.give(b"2")
        await world.until(lambda: world.peer.received == [b"", b"2\n"])


async def test_an_end_of_the_stream_is_a_loss_at_once() -> None:
    world = World()
    async with world.connected():
        world.peer.send(b"last\n")
        world.peer.close()
        await world.until(lambda: world.inlet.breaker)
        assert "the peer closed the connection" in str(world.inlet.breaker)
        assert world.fed == [b"last\n"]
        assert world.outlet.streams[0].ended == "incomplete"
        world.give(b"1")
        await world.until(lambda: world.peer.received == [b"", b"1\n"], step=0.01)
        assert world.inlet.breaker is None
        assert len(world.outlet.streams) == 2


async def test_echoes_ack_and_other_lines_are_events() -> None:
    world = World()
    async with world.connected(ack="echo"):
        world.give(b"1", b"2")
        world.give(b"3")
        await world.until(lambda: world.peer.received == [b"1\n2\n3\n"])
        assert world.inlet.acked == []
        world.peer.send(b"hello\n1\n2\n3")
        await world.until(lambda: world.inlet.acked == [b"1\n2\n"])
        world.peer.send(b"\nbye\n")
        await world.until(lambda: world.inlet.acked == [b"1\n2\n", b"3\n"])
        await world.until(lambda: world.fed == [b"hello\nbye\n"])


async def test_no_echo_in_time_is_a_loss() -> None:
    world = World()
    async with world.connected(ack="echo", echo_timeout=5_000_000_000):
        world.give(b"1", b"2")
        await world.until(lambda: world.peer.received == [b"1\n2\n"])
        world.scheduler.advance(4)
        world.peer.send(b"1\n")
        world.peer.send(b"x\n")
        await world.until(lambda: world.fed == [b"x\n"])
        world.scheduler.advance(4)
        assert world.inlet.failed == []
        world.scheduler.advance(3)
        assert [data for data, _ in world.inlet.failed] == [b"2\n"]
        assert "no echo within echo_timeout" in world.inlet.failed[0][1]


async def test_echoes_are_read_while_events_are_not_wanted() -> None:
    world = World()
    async with world.connected(ack="echo"):
        world.outlet.pause()
        world.give(b"1")
        await world.until(lambda: world.peer.received == [b"1\n"])
        world.peer.send(b"event\n1\n")
        await world.until(lambda: world.inlet.acked == [b"1\n"])
        assert world.fed == [b""]
        world.outlet.resume()
        assert world.fed == [b"event\n"]


async def test_events_that_are_not_wanted_are_not_read() -> None:
    world = World()
    async with world.connected(ack="echo"):
        world.outlet.pause()
        much = b"event\n" * (1 << 20)
        world.peer.send(much)
        await world.until(lambda: world.peer.unsent)
        for _ in range(100):
            await asyncio.sleep(0)
        assert world.fed == [b""]
        world.outlet.resume()
        await world.until(lambda: world.fed == [much])


async def test_a_peer_that_does_not_read_stops_the_sources_and_is_waited_for() -> None:
    world = World()
    async with world.connected():
        world.peer.pause()
        event = b"x" * (1 << 20)
        for _ in range(16):
            world.give(event)
        await world.until(lambda: world.inlet.breaker, step=0.1)
        assert str(world.inlet.breaker).endswith("does not read what is written to it")
        acked = len(world.inlet.acked)
        assert acked < 16
        world.peer.resume()
        await world.until(lambda: len(world.inlet.acked) == 16)
        await world.until(lambda: world.inlet.breaker is None, step=0.1)
        await world.until(lambda: len(world.peer.received[0]) == 16 * (len(event) + 1))


async def test_a_write_timeout_connects_anew_and_sends_again_what_was_not_written() -> None:
    world = World()
    async with world.connected(write_timeout=3_000_000_000):
        world.peer.pause()
        event = b"x" * (1 << 20)
        for _ in range(16):
            world.give(event)
        await world.until(lambda: len(world.peer.received) == 2, step=0.1)
        await world.until(lambda: len(world.inlet.acked) == 16, step=0.01)
        assert world.inlet.failed == []
        assert len(world.inlet.acked) == 16


async def test_it_gives_up_after_max_retries() -> None:
    world = World()
    await world.peer.listen()
    world.peer.leave()
    async with world.running(reconnect={"retry": {"max_retries": 3, "randomized": False}}):
        world.give(b"1")
        await world.until(lambda: "gave up" in world.outlet.lines, step=0.01)
        assert world.outlet.lines.count("cannot connect") == 3
        assert world.inlet.breaker is not None
    assert [data for data, _ in world.inlet.failed] == [b"1\n"]


async def test_a_stop_writes_what_it_can_and_fails_the_rest() -> None:
    world = World()
    async with world.connected(ack="echo"):
        world.give(b"1")
        await world.until(lambda: world.peer.received == [b"1\n"])
        world.give(b"2")
    assert world.inlet.acked == []
    assert [data for data, _ in world.inlet.failed] == [b"1\n", b"2\n"]


async def test_without_a_linked_source_half_what_comes_is_counted() -> None:
    world = World(linked=False)
    async with world.connected():
        world.peer.send(b"1\n")
        await world.until(lambda: world.outlet.counter("unlinked_bytes_total").value == 2)
        assert world.outlet.streams == []


async def test_an_echo_wants_events_that_end() -> None:

    world = World()
    async with world.connected(ack="echo"):
        world.inlet.give(world.inlet.block(b"1", framing=WHOLE))
        await world.until(lambda: world.inlet.rejected)
        assert "separate" in world.inlet.rejected[0][1]


def test_what_its_acks_are_worth() -> None:
    written, echoed = (
        TcpClient.model_validate({"url": "a:1"}),
        TcpClient.model_validate({"url": "a:1", "ack": "echo"}),
    )
    source = "what was read from the peer cannot be read again: a crash loses the events that no log has acked yet"
    assert written.guarantee(behind_log=False) == Guarantee(
        source,
        "an event is acked when it is in the kernel's buffer. Events that the peer has not read by then are lost if the "
        "peer or the connection dies",
    )
    assert written.guarantee(behind_log=True).warnings == (LOSES,)
    assert echoed.guarantee(behind_log=True) == Guarantee(
        source,
        "an event is acked when the peer has sent it back. Events that are not back when the connection ends, or within "
        "echo_timeout, fail; then the peer may get them twice",
    )
    assert "put a log upstream" in echoed.guarantee(behind_log=False).warnings[0]


@pytest.mark.parametrize(
    "config",
    [
        {"url": "http://a"},
        {"url": "a:70000"},
        {"url": "a:1", "tls": {"key": "k"}},
        {"url": "a:1", "ack": "maybe"},
        {"url": "a:1", "reconnect": {"retry": {"growth": 2}}},
    ],
)
def test_what_it_refuses(config: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TcpClient.model_validate(config)


def test_the_default_port_is_tremors() -> None:
    assert TcpClient.model_validate({"url": "example.org"}).address == ("example.org", 4242)


async def test_a_peer_that_sends_at_once_is_not_read_while_its_events_are_not_wanted() -> None:
    """uvloop reads after a `connection_made` that has paused it: one read, and no more."""
    world = World()
    await world.peer.listen()
    world.outlet.pause()
    async with world.running():
        await world.until(lambda: world.outlet.streams)
        world.peer.send(b"1234567\n" * (4 << 20))
        calm, before = 0, -1
        while calm < 100:  # looks at which nothing moves
            calm = calm + 1 if world.peer.unsent == before else 0
            before = world.peer.unsent
            await asyncio.sleep(0.001)
        assert world.peer.unsent > 16 << 20
        assert sum(map(len, world.fed)) <= 256 << 10
        world.peer.leave()
