"""What every sink owes, of those that write to a socket: the clients of unix sockets and WebSockets,
and what a server sends its client."""

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from connectors.unix import UnixSocketClient, UnixSocketServer
from connectors.ws import WsClient
from tests.connectors import test_tcp_client, test_ws_client
from tests.connectors.test_sink_promises import NO_ECHO, EchoSubject
from walflow import Inlet, Outlet
from walflow.testing import MemoryOutlet, VirtualScheduler
from walflow.testing.sinks import NotOffered, RunsSink, SinkSubject, sink_promises


class UnixPeer(test_tcp_client.Peer):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    async def listen(self) -> None:
        self._server = await asyncio.get_running_loop().create_unix_server(lambda: self, str(self._path))
        self.port = 1  # it has listened


class UnixSubject(EchoSubject):
    def __init__(self) -> None:
        super().__init__()
        self._directory = Path(tempfile.mkdtemp())
        self.peer = UnixPeer(self._directory / "s")
        self.peer.echoing = True

    def client(self) -> RunsSink:
        return UnixSocketClient.model_validate({"path": str(self._directory / "s"), **self.config})

    async def close(self) -> None:
        await super().close()
        shutil.rmtree(self._directory)


test_unix = sink_promises(UnixSubject, without=NO_ECHO)


class WsSubject(SinkSubject):
    """In trouble, no program listens."""

    notices = True
    config: Mapping[str, object] = {}

    def __init__(self) -> None:
        self.peer = test_ws_client.Peer()
        self._away = False
        self._listening: asyncio.Future[None] | None = None

    async def open(self) -> RunsSink:
        await self.peer.listen()
        if self._away:
            self.peer.end()
        return await self.again()

    async def again(self) -> RunsSink:
        return WsClient.model_validate({"url": f"ws://127.0.0.1:{self.peer.port}/", **self.config})

    def got(self) -> Sequence[bytes]:
        messages = [message for received in self.peer.received for message in received]
        return [message.encode() if isinstance(message, str) else message for message in messages]

    def fail(self) -> None:
        self._away = True
        self.peer.end()

    def fail_after(self, events: int) -> None:
        raise NotOffered("trouble within a block: a pong is the library's, whatever its program has read")

    def mend(self) -> None:
        self._away, self.peer.left = False, 1_000_000
        self._listening = asyncio.ensure_future(self.peer.listen())

    async def close(self) -> None:
        if self._listening is not None:
            await self._listening
        await self.peer.leave()


class WsEchoSubject(WsSubject):
    """What was sent when the connection ended, and is not back, is sent again."""

    exactly = False
    config = {"ack": "message"}  # noqa: RUF012  # it is read alone

    def __init__(self) -> None:
        super().__init__()
        self.peer.echoing = True

    def fail_after(self, events: int) -> None:
        self.peer.left = events

    def hold(self, scheduler: VirtualScheduler) -> None:
        self.peer.echoing = False

    def release(self, scheduler: VirtualScheduler) -> None:
        if not self.peer.echoing and self.peer.received and self.peer.received[-1]:
            self._sending = asyncio.gather(*map(self.peer.last.send, self.peer.received[-1]))
        self.peer.echoing = True


test_ws = sink_promises(WsSubject)
test_ws_echo = sink_promises(WsEchoSubject, without=NO_ECHO)


class ServerSubject(SinkSubject):
    """A server, and the client that its events are for.
    What its client does not read is dropped with it, and stops no source for long."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp())
        self._path = str(self._directory / "s")
        self._read = b""
        self._reading: asyncio.Future[None] | None = None

    async def open(self) -> RunsSink:
        return self

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        assert isinstance(out, MemoryOutlet)
        self._out = out
        await UnixSocketServer.model_validate({"path": self._path}).run(inlet, out)

    async def ready(self) -> None:
        reader, self._writer = await asyncio.open_unix_connection(self._path)
        self._reading = asyncio.ensure_future(self._keep(reader))
        while not self._out.streams:
            self._out.scheduler.run()
            await asyncio.sleep(0)

    async def _keep(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                self._read += data

    def got(self) -> Sequence[bytes]:
        return self._read.splitlines()

    async def close(self) -> None:
        if self._reading is not None:
            self._writer.close()
            await self._reading
        shutil.rmtree(self._directory)


test_server = sink_promises(
    ServerSubject,
    without={
        "a_block_that_comes_after_the_stop_fails_at_once": "its client is gone, and the event is of no use: "
        "it is acked"
    },
)
