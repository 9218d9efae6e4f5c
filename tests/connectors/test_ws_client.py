"""A WebSocket client whose peer is there, is not there, comes back, falls silent, or is somebody else."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol
from websockets.utils import accept_key

from connectors.ws import WsClient
from tests.connectors.started import started
from tests.waiting import PATIENCE
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler


class Peer:
    """A server that keeps what each connection brought."""

    def __init__(self) -> None:
        self.received: list[list[str | bytes]] = []
        self.headers: list[Headers] = []
        self.connections: list[ServerConnection] = []
        self.echoing = False
        self.ends_at: str | None = None  # the message at which it ends the connection
        self.left = 1_000_000  # messages that it takes before it ends
        self.token: str | None = None
        self.subprotocols: list[Subprotocol] | None = None
        self.port = 0
        self._server: Server | None = None

    async def listen(self) -> None:
        self._server = await serve(
            self._serve,
            "127.0.0.1",
            self.port,
            process_request=self._judge,
            subprotocols=self.subprotocols,
            ping_interval=None,
            close_timeout=0.1,
        )
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    def end(self) -> None:
        """Without waiting for it."""
        if self._server is not None:
            for connection in self.connections:
                connection.transport.abort()
            self._server.close()

    async def leave(self) -> None:
        self.end()
        if self._server is not None:
            await self._server.wait_closed()

    @property
    def last(self) -> ServerConnection:
        return self.connections[-1]

    def _judge(self, connection: ServerConnection, request: Request) -> Response | None:
        self.headers.append(request.headers)
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return connection.respond(401, "no\n")
        return None

    async def _serve(self, connection: ServerConnection) -> None:
        mine: list[str | bytes] = []
        self.received.append(mine)
        self.connections.append(connection)
        try:
            async for message in connection:
                if not self.left:
                    self.end()
                    return
                self.left -= 1
                mine.append(message)
                if message == self.ends_at:
                    connection.transport.abort()
                if self.echoing:
                    await connection.send(message)
        except ConnectionClosed:
            pass


class World:
    def __init__(self, *, linked: bool = True, replaceable: bool = False) -> None:
        self.scheduler = VirtualScheduler()
        self.inlet = MemoryInlet(self.scheduler, behind_log=True, replaceable=replaceable)
        self.outlet = MemoryOutlet(self.scheduler, linked=linked)
        self.peer = Peer()

    @property
    def fed(self) -> list[list[bytes]]:
        """By each stream."""
        return [stream.fed for stream in self.outlet.streams]

    def give(self, *events: bytes) -> None:
        self.inlet.give(self.inlet.lines_of(*events))

    def said(self, line: str) -> list[object]:
        return [entry.get("reason") for entry in self.outlet.logged if entry["event"] == line]

    async def until(self, happened: Callable[[], object], step: float = 0) -> None:
        """`step`: virtual seconds that pass with each look."""
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < deadline, f"{self.outlet.logged} {self.inlet.acked} {self.inlet.failed}"
            self.scheduler.advance(step)
            await asyncio.sleep(0)

    @asynccontextmanager
    async def running(self, **config: object) -> AsyncIterator[None]:
        client = WsClient.model_validate({"url": f"ws://127.0.0.1:{self.peer.port}/events?of=us", **config})
        try:
            async with started(client.run(self.inlet, self.outlet)):
                yield
        finally:
            await self.peer.leave()

    @asynccontextmanager
    async def connected(self, **config: object) -> AsyncIterator[None]:
        await self.peer.listen()
        async with self.running(**config):
            await self.until(lambda: self.peer.received == [[]])
            yield


async def test_an_event_is_a_message_and_a_message_an_event() -> None:
    world = World()
    async with world.connected(headers={"X-Of": "us"}):
        world.give(b"1", b"2")
        world.give(b"3")
        await world.until(lambda: world.inlet.acked == [b"1\n2\n", b"3\n"])
        assert world.peer.received == [["1", "2", "3"]]
        await world.peer.last.send(["frag", "ment", "ed"])
        await world.peer.last.send(b"binary")
        await world.until(lambda: world.fed == [[b"fragmented", b"binary"]])
        assert world.outlet.streams[0].meta == {
            "ws_client": {"tls": False, "peer": {"host": "127.0.0.1", "port": world.peer.port}}
        }
        assert world.peer.last.request is not None
        assert world.peer.last.request.path == "/events?of=us"
        assert world.peer.headers[0]["X-Of"] == "us"
        assert "Sec-WebSocket-Extensions" not in world.peer.headers[0]
        assert world.inlet.triggered == []
    assert world.outlet.streams[0].ended == "closed"
    assert world.peer.last.close_code == 1001


async def test_binary_and_compressed_if_asked_to() -> None:
    world = World()
    async with world.connected(binary=True, compression=True):
        world.give(b"1" * 1000)
        await world.until(lambda: world.inlet.acked)
        assert world.peer.received == [[b"1" * 1000]]
        assert "permessage-deflate" in world.peer.headers[0]["Sec-WebSocket-Extensions"]


async def test_a_message_without_a_pong_behind_it_is_sent_again() -> None:
    world = World()
    async with world.connected():
        world.peer.last.transport.pause_reading()
        world.give(b"1", b"2")
        world.give(b"3")
        await world.scheduler.settle()
        assert world.inlet.acked == []
        world.peer.last.transport.abort()
        await world.until(lambda: len(world.inlet.acked) == 2, step=0.01)
        assert world.peer.received == [[], ["1", "2", "3"]]
        assert world.inlet.acked == [b"1\n2\n", b"3\n"]
        assert world.inlet.failed == []
        assert world.inlet.triggered
        assert world.inlet.breaker is None


@pytest.mark.parametrize("behind_log", [True, False], ids=["behind a log", "alone"])
async def test_what_ends_each_connection_is_the_logs_to_judge(behind_log: bool) -> None:
    world = World()
    world.inlet.upstream = world.inlet.upstream._replace(behind_log=behind_log)
    world.peer.ends_at, world.peer.echoing = "bad", True
    async with world.connected(ack="message", reconnect={"retry": {"interval_ms": 10, "growth_rate": 1.0}}):
        world.give(b"1")
        await world.until(lambda: world.inlet.acked)
        world.give(b"2", b"bad", b"3")
        world.give(b"4")
        if behind_log:
            await world.until(lambda: len(world.inlet.failed) == 2, step=0.01)
            assert [event for event, _ in world.inlet.failed] == [b"bad\n3\n", b"4\n"]
            assert [read[-2:] for read in world.peer.received[1:]] == [["bad", "3"]] * 4, "it was not the connection"
            world.give(b"5")
            await world.until(lambda: world.inlet.acked[-1] == b"5\n", step=0.01)
        else:
            await world.until(lambda: len(world.peer.received) > 9, step=0.01)
            assert world.inlet.failed == [], "without a log the sink keeps them"


async def test_a_goodbye_is_a_loss_at_once() -> None:
    world = World()
    async with world.connected():
        await world.peer.last.close(4000, "enough")
        await world.until(lambda: world.inlet.triggered)
        assert (
            world.inlet.triggered[0]
            == f"lost 127.0.0.1:{world.peer.port}: the peer closed the connection: 4000 enough"
        )
        world.give(b"1")
        await world.until(lambda: world.inlet.acked, step=0.01)
        assert world.peer.received == [[], ["1"]]


async def test_before_the_first_connection_others_take_its_blocks() -> None:
    world = World(replaceable=True)
    await world.peer.listen()
    async with world.running():
        world.give(b"0")
        await world.until(lambda: world.inlet.failed)
        assert world.inlet.triggered == [f"not connected to 127.0.0.1:{world.peer.port} yet"]


@pytest.mark.parametrize("ack", ["written", "pong"])
async def test_a_peer_that_does_not_answer_is_given_up(ack: str) -> None:
    """With nothing sent a ping asks whether it is there, so a connection of which one side knows nothing ends."""
    world = World()
    async with world.connected(ack=ack):
        world.peer.last.transport.pause_reading()
        await world.until(lambda: world.inlet.triggered, step=1)
        assert world.inlet.triggered[0].endswith("no pong within pong_timeout")
        assert world.scheduler.time() < 60
        await world.until(lambda: len(world.peer.received) == 2, step=0.01)


async def test_a_peer_that_is_silent_and_answers_pings_stays() -> None:
    world = World()
    async with world.connected(ack="message"):
        for _ in range(200):
            world.scheduler.advance(1)
            for _ in range(20):
                await asyncio.sleep(0)
        assert world.inlet.triggered == []


async def test_sent_back_is_acked_and_the_rest_is_sent_again() -> None:
    world = World()
    async with world.connected(ack="message", id_field="id"):
        world.give(b'{"id":1}', b'{"id":2}', b'{"id":3}')
        await world.until(lambda: len(world.peer.received[0]) == 3)
        await world.peer.last.send("3")
        await world.peer.last.send('{"hello":"you"}')
        await world.peer.last.send('{"id":1,"taken":true}')
        await world.peer.last.send("4")
        await world.until(lambda: world.fed == [[b'{"hello":"you"}', b"4"]])
        assert world.inlet.acked == []
        world.peer.last.transport.abort()
        await world.until(lambda: world.inlet.acked == [b'{"id":1}\n', b'{"id":3}\n'])
        await world.until(lambda: world.peer.received[1:] == [['{"id":2}']], step=0.01)
        await world.peer.last.send("2")
        await world.until(lambda: len(world.inlet.acked) == 3)
        assert world.inlet.failed == []


async def test_an_event_that_does_not_come_back_fails_with_all_behind_it() -> None:
    world = World()
    async with world.connected(ack="message", echo_timeout=5_000_000_000):
        world.give(b"1", b"2")
        await world.until(lambda: len(world.peer.received[0]) == 2)
        await world.peer.last.send("1")
        await world.until(lambda: len(world.inlet.failed) == 1, step=0.1)
        world.give(b"3")
        assert world.inlet.acked == [b"1\n"]
        assert world.inlet.failed[0][0] == b"2\n"
        assert world.inlet.triggered[0].endswith("no echo within echo_timeout")
        await world.until(lambda: len(world.peer.received) == 2, step=0.01)
        await world.until(lambda: world.peer.received[1] == ["3"])


async def test_answers_are_read_while_events_are_not_wanted() -> None:
    world = World()
    async with world.connected():
        world.outlet.pause()
        await world.peer.last.send("not now")
        world.give(b"1")
        await world.until(lambda: world.inlet.acked == [b"1\n"])
        assert world.fed == [[]]
        world.outlet.resume()
        await world.until(lambda: world.fed == [[b"not now"]])


async def test_the_token_is_read_at_each_connection(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    world = World()
    world.peer.token = "new"
    await world.peer.listen()
    async with world.running(token={"file": str(token)}):
        await world.until(lambda: len(world.said("cannot connect")) == 2, step=0.01)
        assert world.said("cannot connect")[0] == "the peer answers 401 Unauthorized"
        token.unlink()
        await world.until(lambda: len(world.said("cannot connect")) >= 4, step=0.01)
        assert world.said("cannot connect")[-1] == f"cannot read the secret in {token}: No such file or directory"
        token.write_text("two\nlines")
        await world.until(
            lambda: world.said("cannot connect")[-1] == "the token holds what no header can hold", step=0.01
        )
        token.write_text("new\n")
        await world.until(lambda: world.peer.received == [[]], step=0.01)
        assert "new" not in str(world.outlet.logged)


async def test_both_must_speak_the_subprotocol() -> None:
    world = World()
    world.peer.subprotocols = None
    await world.peer.listen()
    async with world.running(subprotocol="chat"):
        await world.until(lambda: world.said("cannot connect"))
        assert world.said("cannot connect") == ["the peer does not speak the subprotocol chat"]
        await world.peer.leave()
        world.peer.subprotocols = [Subprotocol("chat")]
        await world.peer.listen()
        await world.until(lambda: world.peer.connections and world.peer.last.subprotocol == "chat", step=0.01)


async def test_a_message_over_the_limit_is_rejected_unread() -> None:
    world = World()
    async with world.connected(max_event_bytes=1000):
        await world.peer.last.send("x" * 1000)
        await world.peer.last.send("x" * 1001)
        await world.until(lambda: world.inlet.triggered)
        assert world.fed == [[b"x" * 1000]]
        assert world.outlet.streams[0].rejected == ["a message of more than max_event_bytes, 1000"]
        await world.until(lambda: world.peer.connections[0].close_code == 1009)
        await world.until(lambda: len(world.peer.received) == 2, step=0.01)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://h\r\n\r\n", "the peer answers 302 Found"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "the peer answers 200 OK"),
        (b"220 mail.example ESMTP\r\n", "no WebSocket: did not receive a valid HTTP response"),
        (b"\x00" * 100_000, "no WebSocket: read 100000 bytes, expected no more than 8192 bytes"),
        (b"", "no WebSocket: did not receive a valid HTTP response"),
    ],
)
async def test_whoever_is_no_websocket_server_is_named(answer: bytes, reason: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    world = World()
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    world.peer.port = server.sockets[0].getsockname()[1]
    async with world.running():
        await world.until(lambda: world.said("cannot connect"))
        assert world.said("cannot connect")[0] == reason
        world.give(b"1")
        server.close()
        await world.peer.listen()
        await world.until(lambda: world.inlet.acked == [b"1\n"], step=0.01)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"url": "http://h"}, "'http://h' is not ws://host:port/path"),
        ({"url": "ws://me:secret@h"}, "a url holds no user and password"),
        ({"url": "ws://h:x"}, "is not ws://host:port/path"),
        ({"url": "ws://a..b"}, "'a..b' is no name of a machine"),
        ({"url": "ws://h", "tls": True}, "write wss://"),
        ({"url": "h", "id_field": "id"}, 'id_field is for `"ack": "message"`'),
        ({"url": "h", "headers": {"Host": "x"}}, "the handshake's own"),
        ({"url": "h", "headers": {"X": "a\r\nY: b"}}, "a value that cannot be sent"),
        ({"url": "h", "headers": {"X Y": "a"}}, "no name of a header"),
        ({"url": "h", "headers": {"authorization": "a"}, "token": "b"}, "name one"),
        ({"url": "h", "subprotocol": "a b"}, "String should match"),
    ],
)
def test_what_cannot_be_meant(config: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said) as refused:
        WsClient.model_validate(config)
    assert "secret" not in str(refused.value.errors()[0]["msg"])


def test_what_is_warned_of(tmp_path: Path) -> None:
    def warnings(**config: object) -> tuple[str, ...]:
        return WsClient.model_validate({"ack": "message", **config}).guarantee(behind_log=True).warnings

    kept = {"file": str(tmp_path / "token")}
    assert warnings(url="h") == ()
    assert warnings(url="wss://h", token=kept) == ()
    assert warnings(url="localhost:1", token=kept) == ()
    assert warnings(url="h", token=kept) == (
        "the token goes to h:80 without TLS, so every machine on the way can read it",
    )
    assert warnings(url="wss://h", token="secret") == (
        "the token stands in the flow file; name a file, env or credential instead",
    )
    assert warnings(url="wss://h", headers={"authorization": "secret"}) == (
        "headers contain an Authorization; name a file with it in `token` instead",
    )


def test_where_it_connects_to() -> None:
    assert str(WsClient(url="h").address) == "h:80"
    assert str(WsClient(url="h", tls=True).address) == "h:443"
    assert str(WsClient(url="wss://[::1]/x").address) == "[::1]:443"
    assert WsClient(url="127.0.0.1:4242/x?y").uri.path == "/x"


async def test_a_peer_that_says_all_at_once_is_heard_and_then_lost() -> None:
    """The answer to the handshake, a message, and what breaks the protocol, in one read; and so again and again."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = head.split("Sec-WebSocket-Key: ")[1].split("\r\n")[0]
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept_key(key).encode() + b"\r\n\r\n\x81\x01x\x82\x7f" + b"\x7f" * 8
        )
        await reader.read()
        writer.close()

    world = World()
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    world.peer.port = server.sockets[0].getsockname()[1]
    async with world.running():
        world.give(b"1")
        await world.until(lambda: len(world.outlet.streams) == 3, step=0.01)
        assert world.fed[:2] == [[b"x"], [b"x"]]
        assert world.outlet.streams[0].rejected == ["a message of more than max_event_bytes, 1048576"]
        server.close()
        await world.until(lambda: len(world.said("cannot connect")) >= 3, step=0.01)
        await world.peer.listen()
        await world.until(lambda: world.inlet.acked == [b"1\n"], step=0.01)


async def test_a_peer_that_asks_and_does_not_read_is_left() -> None:
    world = World()
    async with world.connected():
        world.peer.last.transport.pause_reading()
        ping = Frame(Opcode.PING, b"x" * 125).serialize(mask=False) * 1000
        while not world.inlet.triggered:
            if world.peer.last.transport.get_write_buffer_size() < 1 << 20:
                world.peer.last.transport.write(ping)
            await asyncio.sleep(0)
        assert world.inlet.triggered[0].endswith("it does not read the pongs it asks for")
