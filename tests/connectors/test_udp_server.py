"""Datagrams by real sockets: into blocks, counted where the kernel drops them, and each one by itself."""

import asyncio
import json
import random
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from pydantic import ValidationError

from connectors.udp import UdpServer
from connectors.udp.server import DatagramLosses
from connectors.udp.sockets import dropped_by
from tests.nodes.world import Taker, World
from tests.system.daemon import ROOT, free_port, running as daemon_running
from tests.waiting import until
from walflow.codecs import JSON, STRING
from walflow.event import Codec
from walflow.framing import MESSAGES, Incoming, incoming
from walflow.handover import Handover
from walflow.net.sockets import CannotListen
from walflow.nodes.ingress import TURN_EVENTS
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler
from walflow.world import MACHINE, entered

LARGEST = 65507  # bytes of a datagram over IPv4
RMEM_MAX = int(Path("/proc/sys/net/core/rmem_max").read_text())


@asynccontextmanager
async def running(server: UdpServer, outlet: MemoryOutlet) -> AsyncIterator[int]:
    """The port."""
    task = asyncio.ensure_future(server.run(MemoryInlet(outlet.scheduler, linked=False), outlet))
    await until(lambda: "listening" in outlet.lines or task.done())
    try:
        yield int(str(outlet.logged[-1]["address"]).rsplit(":", 1)[1])
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert outlet.scheduler.timers == []


def sender(port: int, host: str = "127.0.0.1") -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect((host, port))
    return sock


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_datagram_is_an_event(host: str) -> None:
    outlet = MemoryOutlet(VirtualScheduler())
    sent = [b"1", b"", b"two\nlines", b"x" * LARGEST, bytes(range(256)), b"last"]
    async with running(UdpServer(url=f"[{host}]:0" if ":" in host else f"{host}:0"), outlet) as port:
        with sender(port, host) as sock:
            for datagram in sent:
                sock.send(datagram)
        await until(lambda: len(outlet.streams[0].fed) == len(sent))
        assert outlet.streams[0].fed == sent
        assert outlet.streams[0].meta == {}
    assert outlet.streams[0].ended == "closed"
    assert outlet.counters["dropped_datagrams_total"].value == 0


async def test_what_one_wake_up_finds_is_one_block() -> None:
    async with delivering(Incoming((), MESSAGES), STRING) as (sock, world, taker):
        for number in range(500):
            sock.send(b"%d" % number)  # the loop does not turn in between
        await until(lambda: world.count("received_events_total") == 500)
        assert [payload for block in taker.blocks for payload in block.frames.payloads()] == [
            b"%d" % number for number in range(500)
        ]
        assert len(taker.blocks) == 1


async def test_with_preprocessors_a_datagram_is_all_there_is() -> None:
    """What one sender left unended is not joined to what another one sent."""
    async with delivering(incoming([("separate", {})], messages=True), JSON) as (sock, world, taker):
        for datagram in (b"1\n2", b'{"a":', b"3\n\n4\n"):
            sock.send(datagram)
        await until(lambda: world.count("received_events_total") + world.count("rejected_events_total") >= 5)
        assert [value for block in taker.blocks for value in block.values] == [1, 2, 3, 4]


async def test_chunks_of_gelf_meet_although_each_is_a_datagram() -> None:
    async with delivering(incoming([("gelf-chunking", {})], messages=True), JSON) as (sock, world, taker):
        for number, part in reversed(list(enumerate((b'{"a"', b":", b"1}")))):
            sock.send(b"\x1e\x0f12345678" + bytes((number, 3)) + part)
        sock.send(b"2")
        await until(lambda: world.count("received_events_total") == 2)
        assert [value for block in taker.blocks for value in block.values] == [{"a": 1}, 2]


async def test_no_datagram_is_read_before_the_last_one_had_all_its_turns() -> None:
    """They would wait in memory, and not in the kernel, which has a bound."""
    async with delivering(incoming([("separate", {})]), JSON) as (sock, world, _):
        sock.send(b"1\n" * 30_000)
        await until(lambda: world.count("received_events_total") == TURN_EVENTS)
        sock.send(b"2\n")
        for _ in range(100):
            await asyncio.sleep(0)
        assert world.count("received_events_total") == TURN_EVENTS

        def all_came() -> bool:
            world.scheduler.run()
            return world.count("received_events_total") == 30_001

        await until(all_came)


async def test_whatever_comes_is_an_event_or_rejected() -> None:
    dice = random.Random(7)
    pieces = [b'{"a":1}', b"[", b"\0", b"\xff", b"\n", b"12", b'"\xe2\x82"', b"{" * 5000, b" "]
    async with delivering(Incoming((), MESSAGES), JSON) as (sock, world, taker):
        for _ in range(500):
            sock.send(b"".join(dice.choices(pieces, k=dice.randrange(4))))
        sock.send(b'"sound"')
        await until(lambda: world.count("received_events_total") + world.count("rejected_events_total") == 501)
        assert taker.blocks[-1].values[-1] == "sound"
        for block in taker.blocks:
            assert [json.loads(payload) for payload in block.frames.payloads()] == block.values


@asynccontextmanager
async def delivering(chain: Incoming, codec: Codec) -> AsyncIterator[tuple[socket.socket, World, Taker]]:
    """Through the runtime's own source half."""
    world, taker = World(), Taker(ack=True)
    outlet = world.source(taker, codec=codec, framing=chain)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = UdpServer(url=f"127.0.0.1:{port}")
    task = asyncio.ensure_future(server.run(MemoryInlet(world.scheduler), outlet))
    await world.scheduler.settle()
    try:
        with sender(port) as sock:
            yield sock, world, taker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_in_a_pause_the_kernel_drops_and_it_is_counted_and_said() -> None:
    scheduler = VirtualScheduler()
    outlet = MemoryOutlet(scheduler)
    dropped = outlet.counter("dropped_datagrams_total")
    async with running(UdpServer(url="127.0.0.1:0", receive_buffer=16384), outlet) as port:
        outlet.pause()
        with sender(port) as sock:
            for _ in range(1000):
                sock.send(b"x" * 100)
            await scheduler.settle()
            assert outlet.streams[0].fed == []
            scheduler.advance(1)
            assert 0 < dropped.value < 1000
            assert outlet.logged[-1]["event"] == "the kernel dropped datagrams"
            assert outlet.logged[-1]["datagrams"] == dropped.value
            outlet.resume()
            await until(lambda: len(outlet.streams[0].fed) + dropped.value == 1000)

            said = len(outlet.lines)
            outlet.pause()
            for _ in range(1000):
                sock.send(b"x" * 100)
            scheduler.advance(5)
            assert len(outlet.lines) == said  # not again so soon
            scheduler.advance(5)
            assert outlet.lines[said:] == ["the kernel dropped datagrams"]
    assert len(outlet.streams[0].fed) + dropped.value == 2000  # with what nobody had read at the end
    assert sum(int(line.get("datagrams", 0)) for line in outlet.logged) == dropped.value


async def test_two_on_one_port() -> None:
    outlet = MemoryOutlet(VirtualScheduler())
    async with running(UdpServer(url="127.0.0.1:0"), outlet) as port:
        second = MemoryOutlet(VirtualScheduler())
        with pytest.raises(CannotListen, match=rf"cannot listen on 127.0.0.1:{port}: Address already in use"):
            await UdpServer(url=f"127.0.0.1:{port}").run(MemoryInlet(second.scheduler), second)


async def test_a_receive_buffer_that_the_kernel_does_not_give_is_said() -> None:
    outlet = MemoryOutlet(VirtualScheduler())
    async with running(UdpServer(url="127.0.0.1:0", receive_buffer=(1 << 30) - 1), outlet):
        line = outlet.logged[0]
        assert line["event"] == "receive buffer smaller than asked for"
        assert line["bytes"] <= RMEM_MAX
        assert line["hint"] == "sysctl -w net.core.rmem_max=1073741823"


def test_what_the_kernel_says_it_dropped() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, socket.socket() as stream:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.bind(("127.0.0.1", 0))
        with sender(sock.getsockname()[1]) as other:
            for _ in range(100):
                other.send(b"x" * 500)
        held = 0
        sock.setblocking(False)
        with suppress(BlockingIOError):
            while sock.recv(1000):
                held += 1
        assert dropped_by(sock) == 100 - held > 0
        assert dropped_by(stream) == 0


async def test_what_the_process_before_has_counted_is_for_its_own_sockets_alone() -> None:
    """A server that runs anew later has others, of which the kernel counts from 0."""
    place, handed = "udp 127.0.0.1:514", Handover()
    handed.told = {place: [500]}
    outlet = MemoryOutlet(VirtualScheduler())
    with entered(MACHINE._replace(handover=handed)), socket.socket(type=socket.SOCK_DGRAM) as sock:
        counts = [DatagramLosses([sock], outlet, place)._before[sock] for _ in range(2)]
    assert counts == [500, 0]


@pytest.mark.parametrize("leaving", [True, False])
async def test_only_a_process_that_leaves_tells_what_it_has_counted(leaving: bool) -> None:
    handed, port = Handover(), free_port()
    with entered(MACHINE._replace(handover=handed)):
        async with running(UdpServer(url=f"127.0.0.1:{port}"), MemoryOutlet(VirtualScheduler())):
            handed.leaving = leaving
    assert handed.tells == ({f"udp 127.0.0.1:{port}": [0]} if leaving else {})


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({}, "url"),
        ({"url": "tcp://h:1"}, "url"),
        ({"url": "127.0.0.1:1", "receive_buffer": 0}, "receive_buffer"),
        ({"url": "127.0.0.1:1", "socket_options": {"TCP_NODELAY": True}}, "TCP_NODELAY"),
    ],
)
def test_wrong_configurations(config: dict[str, object], key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        UdpServer.model_validate(config)


def test_what_is_warned_of() -> None:
    assert UdpServer(url="127.0.0.1:1").guarantee(behind_log=False).warnings == ()
    assert UdpServer(url="0.0.0.0:1", insecure="a VPN").guarantee(behind_log=False).warnings == ()
    (warning,) = UdpServer(url="0.0.0.0:1").guarantee(behind_log=False).warnings
    assert warning.startswith("0.0.0.0:1 is open to the network")


def test_a_flood_on_a_daemon_is_in_the_file_or_counted(tmp_path: Path) -> None:
    """flows/udp/collect.troy. A datagram that the sender's system took has come, or is in a line about drops."""
    text = (ROOT / "flows" / "udp" / "collect.troy").read_text()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        receiver.bind(("127.0.0.1", 0))
        text = text.replace("127.0.0.1:5140", "127.0.0.1:0").replace("5141", str(receiver.getsockname()[1]))
        flow = tmp_path / "collect.troy"
        flow.write_text(text.replace('"receive_buffer": 4194304', '"receive_buffer": 8192'))
        with daemon_running(flow, tmp_path) as daemon:
            port = daemon.port()
            daemon.wait_for("ready")
            threads = [threading.Thread(target=flood, args=(port, name)) for name in "ab"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            daemon.wait_for("the kernel dropped datagrams")
            assert daemon.terminate() == 0
        logged = (tmp_path / "out.log").read_bytes().splitlines()
        dropped = sum(int(str(line.get("datagrams", 0))) for line in daemon.lines)
        assert dropped > 0
        assert len(logged) + dropped == 2 * FLOOD
        assert len(set(logged)) == len(logged) > 0
        assert receiver.recv(1000) == logged[0]  # and it went on, by udp_client


FLOOD = 20_000


def flood(port: int, name: str) -> None:
    with sender(port) as sock:
        for number in range(FLOOD):
            sock.send(f"{name}{number}".encode().ljust(200, b"."))
