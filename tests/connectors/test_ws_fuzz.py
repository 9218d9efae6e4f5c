"""Arbitrary bytes, however they are cut: nothing raises, nothing but messages becomes events, memory stays small."""

import asyncio
import struct
import zlib
from collections.abc import Iterable

from hypothesis import example, given, strategies as st
from websockets.frames import Frame, Opcode
from websockets.utils import accept_key

from connectors.ws import WsClient, WsServer
from connectors.ws.acks import MessagesPonged
from connectors.ws.client_connection import WsConnection
from connectors.ws.server import WsPeer
from walflow.net.client import StreamClient
from walflow.net.server import StreamServer
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler

REQUEST = (
    b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
)
LIMIT = 300

FRAMES = st.builds(
    lambda opcode, data, fin, mask: (
        Frame(opcode, data, fin).serialize(mask=mask)
        if len(data) < 126 and (fin or opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT))
        else b"\x81"
    ),
    st.sampled_from(list(Opcode)),
    st.binary(max_size=150),
    st.booleans(),
    st.sampled_from((True, True, True, False)),
)
PIECES = st.lists(st.one_of(st.binary(max_size=40), FRAMES, FRAMES), max_size=15)
CUTS = st.lists(st.integers(1, 60), max_size=30)


_DEFLATE = zlib.compressobj(wbits=-15)
_SMALL = _DEFLATE.compress(b"0" * 100_000) + _DEFLATE.flush(zlib.Z_SYNC_FLUSH)[:-4]
BOMB = bytes([0xC1, 0xFE]) + struct.pack("!H", len(_SMALL)) + bytes(4) + _SMALL  # 100 kB by the time it is read


class Pipe(asyncio.Transport):
    """Takes everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True


def cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    pieces: list[bytes] = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [piece for piece in [*pieces, data] if piece]


@given(st.booleans(), PIECES, CUTS, st.booleans())
@example(True, [b"\x88\x80mask", Frame(Opcode.TEXT, b"1").serialize(mask=True)], [], False)
@example(True, [b"\x81\xff" + b"\xff" * 12], [], False)
@example(True, [BOMB], [], True)
@example(False, [REQUEST[:-2], b"\r", b"\n", b"\x81\x80mask"], [1] * 30, False)
@example(False, [b"\r\n\r\n"], [], False)
def test_a_server_takes_anything(shaken: bool, pieces: list[bytes], sizes: list[int], compressed: bool) -> None:
    async def run() -> None:
        scheduler = VirtualScheduler()
        inlet, outlet = MemoryInlet(scheduler), MemoryOutlet(scheduler)
        config = WsServer(url="h:1", max_event_bytes=LIMIT, compression=compressed)
        server = StreamServer(config, inlet, outlet, lambda address: {})
        peer = WsPeer(server, {}, None, config)
        pipe = Pipe()
        peer.connection_made(pipe)
        if shaken:
            peer.data_received(REQUEST)
            assert pipe.written.startswith(b"HTTP/1.1 101 ")
        for piece in cut(b"".join(pieces), sizes):
            if pipe.closing:
                break
            peer.data_received(piece)
            assert len(peer._wire._begun) <= LIMIT
            assert len(peer._wire.protocol.reader.buffer) <= 16_384
        scheduler.advance(30)
        if outlet.streams:
            assert all(len(message) <= LIMIT for message in outlet.streams[0].fed)
            inlet.give()
            peer.write([inlet.lines_of(b"1")])
        if not pipe.closing:
            peer.eof_received()
        peer.connection_lost(None)
        scheduler.advance(30)
        assert len(inlet.settled) == len(outlet.streams)
        assert not server.clients

    asyncio.run(run())


@given(st.booleans(), PIECES, CUTS)
def test_a_client_takes_anything(shaken: bool, pieces: list[bytes], sizes: list[int]) -> None:
    async def run() -> None:
        scheduler = VirtualScheduler()
        inlet, outlet = MemoryInlet(scheduler), MemoryOutlet(scheduler)
        config = WsClient(url="h:1", max_event_bytes=LIMIT)
        acks = MessagesPonged(config, inlet, scheduler.time)

        async def connect(_: object) -> None: ...

        client = StreamClient(
            config, inlet, outlet, peer="h:1", meta={}, connect=connect, acks=acks, reads_answers=True
        )
        connection = WsConnection(client, config, acks)
        client.sink.sink.accept(inlet.lines_of(b"1", b"2"))
        pipe = Pipe()
        connection.connection_made(pipe)
        if shaken:
            protocol = connection._wire.protocol
            key = pipe.written.split(b"Sec-WebSocket-Key: ")[1][:24].decode()
            assert protocol.key == key  # type: ignore[attr-defined]
            connection.data_received(answer(key))
        for piece in cut(b"".join(pieces), sizes):
            connection.data_received(piece)
            assert len(connection._wire._begun) <= LIMIT
        connection.eof_received()
        connection.connection_lost(None)
        scheduler.advance(1)
        connection.abort()
        assert not inlet.acked or b"1\n2\n" in inlet.acked
        held = [*client.sink.sink.waiting]
        assert len(held) + len(inlet.acked) == 1  # nothing is lost, whatever came
        for block in held:
            inlet.ack(block)

    asyncio.run(run())


def answer(key: str) -> bytes:
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept_key(key).encode() + b"\r\n\r\n"
    )
