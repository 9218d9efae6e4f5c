"""The simulated network. What a real one does in the same place was taken from Linux: `test_as_linux` compares."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from walflow.testing.simulation import Machine, simulated
from walflow.testing.simulation.network import KEEPALIVE
from walflow.world import entered, network

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Pair:
    """A connection from `client` to `server`, both ends of it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.net = machine.net
        self._accepted: asyncio.Queue[Streams] = asyncio.Queue()
        self._kept: list[Streams] = []  # a writer that is collected closes its connection

    async def listen(self) -> asyncio.Server:
        with entered(self.machine.other("server")):
            return await asyncio.start_server(lambda r, w: self._accepted.put_nowait((r, w)), "server", 80)

    async def connect(self) -> tuple[Streams, Streams]:
        with entered(self.machine.other("client")):
            ours = await asyncio.open_connection("server", 80)
        theirs = await self._accepted.get()
        self._kept += [ours, theirs]
        return ours, theirs

    async def close(self) -> None:
        """Also what was on a host without power: its program runs on here."""
        for _, writer in self._kept:
            writer.transport.abort()
        await asyncio.sleep(0.01)

    @property
    def now(self) -> float:
        return self.machine.loop.time()


def told(story: Callable[[Pair], Awaitable[None]], seeds: int = 20) -> None:
    async def run(machine: Machine) -> None:
        pair = Pair(machine)
        try:
            await story(pair)
        finally:
            await pair.close()

    for seed in range(seeds):
        simulated(run, Random(seed))


def test_bytes_come_whole_and_in_order() -> None:
    async def story(pair: Pair) -> None:
        await pair.listen()
        (_, writer), (reader, _) = await pair.connect()
        sent = Random(1).randbytes(400_000)
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent
        writer.write_eof()
        assert await reader.read() == b""

    told(story)


def test_who_sent_its_last_byte_still_reads() -> None:
    async def story(pair: Pair) -> None:
        await pair.listen()
        (reader, writer), (there, back) = await pair.connect()
        writer.write(b"question")
        writer.write_eof()
        assert await there.read() == b"question"
        back.write(b"answer")
        back.close()
        assert await reader.read() == b"answer"

    told(story)


def test_a_peer_that_reads_nothing_holds_the_sender_up() -> None:
    async def story(pair: Pair) -> None:
        await pair.listen()
        (_, writer), (there, _) = await pair.connect()
        writer.transport.set_write_buffer_limits(0)
        there._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(bytes(1_000_000))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await writer.drain()
        there._transport.resume_reading()  # type: ignore[attr-defined]
        reading = asyncio.ensure_future(there.readexactly(1_000_000))
        await writer.drain()
        assert len(await reading) == 1_000_000

    told(story, 5)


def test_nobody_listens() -> None:
    async def story(pair: Pair) -> None:
        pair.machine.other("server")
        with entered(pair.machine.other("client")), pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("server", 80)

    told(story)


def test_an_unknown_name() -> None:
    async def story(pair: Pair) -> None:
        with entered(pair.machine.other("client")), pytest.raises(socket.gaierror):
            await asyncio.open_connection("nowhere", 80)

    told(story, 1)


def test_nothing_passes_a_route_that_is_down_until_it_is_mended() -> None:
    async def story(pair: Pair) -> None:
        await pair.listen()
        (_, writer), (there, _) = await pair.connect()
        pair.net.route("server").down = True
        writer.write(b"late")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await there.readexactly(4)
        pair.net.mend()
        assert await there.readexactly(4) == b"late"

    told(story)


def test_no_answer_to_the_first_packet_is_an_error_after_two_minutes() -> None:
    async def story(pair: Pair) -> None:
        await pair.listen()
        pair.net.route("server").down = True
        with entered(pair.machine.other("client")), pytest.raises(TimeoutError):
            await asyncio.open_connection("server", 80)
        assert 120 < pair.now < 140

    told(story, 3)


def test_a_reset_is_told_to_both() -> None:
    async def story(pair: Pair) -> None:
        await pair.listen()
        (reader, _), (there, _) = await pair.connect()
        pair.net.reset("server")
        for one in (reader, there):
            with pytest.raises(ConnectionResetError):
                await one.readexactly(1)

    told(story)


def test_a_host_without_power_tells_nobody() -> None:
    """Who writes hears of it once it is back; who only reads, if it asks by keepalive."""

    async def story(pair: Pair) -> None:
        await pair.listen()
        (reader, writer), _ = await pair.connect()
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        (_, other), _ = await pair.connect()
        pair.net.host("server").cut()
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        assert KEEPALIVE <= pair.now < KEEPALIVE + 1
        other.write(b"is anyone there?")
        await asyncio.sleep(1)
        other.write(b"?")
        with pytest.raises(ConnectionResetError):
            await other.drain()

    told(story)


def test_two_processes_do_not_listen_on_one_port() -> None:
    async def story(pair: Pair) -> None:
        server = await pair.listen()
        with pytest.raises(OSError, match="in use"):
            await pair.listen()
        server.close()
        await pair.listen()

    told(story, 1)


def test_datagrams_come_or_not() -> None:
    async def story(pair: Pair) -> None:
        with entered(pair.machine.other("server")):
            there = network().socket(socket.AF_INET, socket.SOCK_DGRAM, 0)
            there.bind(("server", 53))
        pair.net.route("server").drops = 500
        with entered(pair.machine.other("client")):
            ours = network().socket(socket.AF_INET, socket.SOCK_DGRAM, 0)
            for number in range(100):
                ours.sendto(b"%d" % number, ("server", 53))
        await asyncio.sleep(1)
        got: list[bytes] = []
        with suppress(BlockingIOError):
            while True:
                got.append(there.recvfrom(100)[0])
        assert 20 < len(got) < 80
        assert len(set(got)) == len(got)
        for sock in (there, ours):
            sock.close()

    told(story, 3)


async def unread_bytes_are_a_reset(ours: Streams, theirs: Streams) -> str:
    theirs[0]._transport.pause_reading()  # type: ignore[attr-defined]
    ours[1].write(b"unread")
    await asyncio.sleep(0.05)
    theirs[1].transport.abort()
    return await outcome_of(ours[0].readexactly(1))


async def a_close_is_an_end(ours: Streams, theirs: Streams) -> str:
    theirs[1].close()
    return await outcome_of(ours[0].read())


async def what_came_before_an_end_is_read(ours: Streams, theirs: Streams) -> str:
    theirs[1].write(b"bytes")
    theirs[1].close()
    return await outcome_of(ours[0].read())


async def a_closed_peer_answers_with_a_reset(ours: Streams, theirs: Streams) -> str:
    theirs[1].close()
    await asyncio.sleep(0.05)
    found: list[str] = []
    for _ in range(3):
        ours[1].write(b"more")
        await asyncio.sleep(0.05)
        found.append(await outcome_of(ours[1].drain()))
    return ", ".join(found)


async def outcome_of(what: Coroutine[Any, Any, object]) -> str:
    try:
        return repr(await what)
    except (OSError, EOFError) as error:
        return type(error).__name__


@pytest.mark.parametrize(
    "happens",
    [
        unread_bytes_are_a_reset,
        a_close_is_an_end,
        what_came_before_an_end_is_read,
        a_closed_peer_answers_with_a_reset,
    ],
    ids=lambda one: one.__name__,
)
def test_as_linux(happens: Callable[[Streams, Streams], Coroutine[Any, Any, str]]) -> None:
    async def real() -> str:
        accepted: asyncio.Queue[Streams] = asyncio.Queue()
        server = await asyncio.start_server(lambda r, w: accepted.put_nowait((r, w)), "127.0.0.1", 0)
        ours = await asyncio.open_connection(*server.sockets[0].getsockname())
        theirs = await accepted.get()
        try:
            return await happens(ours, theirs)
        finally:
            for _, writer in (ours, theirs):
                writer.transport.abort()
            await asyncio.sleep(0)
            server.close()

    expected = asyncio.run(real())

    async def story(pair: Pair) -> None:
        await pair.listen()
        assert await happens(*await pair.connect()) == expected

    told(story)
