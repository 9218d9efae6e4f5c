"""Events to datagrams: acked when the system has them, rejected where they are too large,
held where it takes none."""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pydantic import ValidationError

from connectors.udp import UdpClient
from connectors.udp.client import AT_ONCE, Refusals, datagram_sink
from connectors.udp.sockets import CannotSend
from tests.connectors.started import started
from walflow import PeerSink
from walflow.framing import MESSAGES
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler

TOO_LARGE = b"x" * 65508


@asynccontextmanager
async def running(client: UdpClient) -> AsyncIterator[MemoryInlet]:
    scheduler = VirtualScheduler()
    inlet = MemoryInlet(scheduler, behind_log=True)
    async with started(client.run(inlet, MemoryOutlet(scheduler, linked=False))) as task:
        async with asyncio.timeout(100):
            while not scheduler.timers and not task.done():
                scheduler.run()  # looks the name up
                await asyncio.sleep(0)
        yield inlet
    assert scheduler.timers == []


@asynccontextmanager
async def listening(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[socket.socket]:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(100)
        sock.bind((host, port))
        yield sock


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_each_event_is_a_datagram(host: str) -> None:
    async with listening(host) as peer:
        port = peer.getsockname()[1]
        async with running(UdpClient(url=f"[{host}]:{port}" if ":" in host else f"{host}:{port}")) as inlet:
            inlet.give(inlet.lines_of(b"1", b"2"), inlet.block(MESSAGES.join([b"a\nb", b""]), framing=MESSAGES))
            assert [peer.recv(100) for _ in range(4)] == [b"1", b"2", b"a\nb", b""]
            assert len(inlet.acked) == 2
            assert inlet.triggered == []


async def test_from_where_it_is_told_to() -> None:
    async with listening() as peer, listening() as probe:
        port = probe.getsockname()[1]
        probe.close()
        async with running(UdpClient(url=f"127.0.0.1:{peer.getsockname()[1]}", bind=f"127.0.0.1:{port}")) as inlet:
            inlet.give(inlet.lines_of(b"1"))
            assert peer.recvfrom(100) == (b"1", ("127.0.0.1", port))


async def test_an_event_larger_than_a_datagram_is_rejected_and_the_others_are_sent() -> None:
    async with listening() as peer:
        async with running(UdpClient(url=f"127.0.0.1:{peer.getsockname()[1]}")) as inlet:
            inlet.give(inlet.lines_of(b"1", TOO_LARGE, b"2", TOO_LARGE), inlet.lines_of(TOO_LARGE, b"3"))
            inlet.give(inlet.lines_of(TOO_LARGE[1:]))
            assert [peer.recv(1 << 16) for _ in range(4)] == [b"1", b"2", b"3", TOO_LARGE[1:]]
            assert {reason for _, reason in inlet.rejected} == {
                "event of 65508 bytes is more than a datagram to this peer holds"
            }
            assert [data for data, _ in inlet.rejected] == [TOO_LARGE + b"\n"] * 3
            assert inlet.acked == [b"1\n", b"2\n", b"3\n", TOO_LARGE[1:] + b"\n"]


async def test_refusals_are_counted_and_said_and_stop_nothing() -> None:
    async with listening() as peer:
        port = peer.getsockname()[1]
    async with running(UdpClient(url=f"127.0.0.1:{port}")) as inlet:
        for number in range(100):
            inlet.give(inlet.lines_of(b"%d" % number))
        assert len(inlet.acked) == 100
        inlet.scheduler.advance(1)  # what the last one brought
        assert inlet.counters["refused_datagrams_total"].value == 100
        assert inlet.lines == ["no program listens at the peer"]
        async with listening(port=port) as peer:
            inlet.give(inlet.lines_of(b"here"))
            assert peer.recv(100) == b"here"
    assert inlet.lines == ["no program listens at the peer"] * 2
    assert sum(int(line["datagrams"]) for line in inlet.logged) == 100
    assert inlet.triggered == []


class Socket:
    """A connected one whose system refuses the next sends with `failing`."""

    def __init__(self, *failing: int) -> None:
        self.failing = list(failing)
        self.sent: list[bytes] = []

    def send(self, data: bytes, /) -> int:
        if self.failing:
            number = self.failing.pop(0)
            raise OSError(number, os.strerror(number))
        if data == TOO_LARGE:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
        self.sent.append(data)
        return len(data)

    def getsockopt(self, level: int, option: int, /) -> int:
        return 0


def sending(sock: Socket, *, replaceable: bool = False) -> tuple[MemoryInlet, PeerSink]:
    inlet = MemoryInlet(VirtualScheduler(), replaceable=replaceable)
    sink = datagram_sink(sock, inlet, Refusals(sock, inlet, "peer"))
    sink.connected()
    inlet.serve(sink.accept)
    return inlet, sink


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOBUFS, errno.ENETUNREACH, errno.EPERM])
def test_what_the_system_does_not_take_is_held_and_sent_in_order(number: int) -> None:
    sock = Socket()
    inlet, _ = sending(sock)
    inlet.give(inlet.lines_of(b"1"))
    sock.failing = [number] * 3
    inlet.give(inlet.lines_of(b"2", b"3"), inlet.lines_of(b"4"))
    assert sock.sent == [b"1"]
    inlet.scheduler.advance(1)
    assert sock.sent == [b"1", b"2", b"3", b"4"]
    assert inlet.triggered == []  # it did not last

    sock.failing = [number] * 10
    inlet.give(inlet.lines_of(b"5"))
    inlet.scheduler.advance(1)
    assert inlet.breaker == f"cannot send: {os.strerror(number)}"
    inlet.give(inlet.lines_of(b"6"))
    inlet.scheduler.advance(20)
    assert inlet.breaker is None
    assert len(inlet.triggered) == 1
    assert sock.sent[4:] == [b"5", b"6"]
    assert inlet.acked == [b"1\n", b"2\n3\n", b"4\n", b"5\n", b"6\n"]
    assert inlet.scheduler.timers == []


def test_refused_again_and_again_it_is_held() -> None:
    sock = Socket(*[errno.ECONNREFUSED] * AT_ONCE)
    inlet, _ = sending(sock)
    inlet.give(inlet.lines_of(b"1"))
    assert inlet.acked == []
    inlet.scheduler.advance(1)
    assert inlet.acked == [b"1\n"]
    assert inlet.counters["refused_datagrams_total"].value == AT_ONCE


async def test_a_name_that_means_nothing() -> None:
    with pytest.raises(CannotSend, match=r"^cannot send to no\.such\.name\.invalid:1: "):
        async with running(UdpClient(url="no.such.name.invalid:1")):
            pass
    with pytest.raises(CannotSend, match=r"^cannot send to 255\.255\.255\.255:1: "):  # broadcast
        async with running(UdpClient(url="255.255.255.255:1")):
            pass


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "url"),
        ({"url": "h"}, "names no port"),
        ({"url": "h:1", "bind": "tcp://h:1"}, "bind"),
        ({"url": "h:99999"}, "url"),
    ],
)
def test_wrong_configurations(config: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        UdpClient.model_validate(config)
