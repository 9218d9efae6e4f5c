"""For `format("socket")`: one reader gets each event as a line, paced, at most once.

Nothing ever comes back from that source, so a line counts as done before it is sent. The port is the bridge's too:
`format("walflow")` says its preface at once, a socket source never says a word.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final

from connectors.spark.config import SparkConfig
from connectors.spark.consumers import PLAIN
from connectors.spark.socket.sent_lines import SentLines, readable
from connectors.spark.spark_log import ServedLog
from pyspark_walflow.wire import PREFACE
from walflow import Half
from walflow.net import Listener, SocketOptions, listen_tcp, within

PROMISE: Final = (
    "at most once to Spark's own socket source: a line counts as done before it is sent, and what was in a socket or "
    "in Spark's memory when either side died is gone"
)

SILENCE: Final = 0.25  # seconds in which a client of the bridge has said so
BACKLOG: Final = 16
SEND_BUFFER: Final = 128 << 10  # bytes; what is in it is lost with its reader

HandOver = Callable[[socket.socket, object, bytes], None]


class PlainPort:
    """`hand_over` gets a connection that sent the bridge's preface,
    the peer's address and the bytes that were read."""

    def __init__(self, config: SparkConfig, served: ServedLog, half: Half, hand_over: HandOver) -> None:
        assert config.socket_address is not None
        self._address = config.socket_address
        self._consumers = served.consumers
        self._half = half
        self._hand_over = hand_over
        self._sending = SentLines(served, half, config.max_lines_per_second)
        self._refused = half.counter("refused_connections_total")
        self._reader = ""  # who it is
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Serves Spark's socket source until it is cancelled."""
        sockets = listen_tcp(self._address, BACKLOG, SocketOptions())
        listener = Listener(sockets, self._arrived, self._half)
        listener.start()
        self._half.log.info("listening for a socket source", address=_name(sockets[0].getsockname()))
        try:
            await self._broken
        finally:
            await listener.close()
            if self._sending.owed:
                self._half.log.warning("lines lost", count=self._sending.owed, reason="committed, and never sent")

    async def _arrived(self, sock: socket.socket, address: object) -> None:
        try:
            said = await _first_words(sock)
        except BaseException:
            sock.close()
            raise
        if said == PREFACE:
            self._hand_over(sock, address, said)
            return
        with sock:
            reason = self._refusal(said)
            if reason is None:
                await self._serve(sock, _name(address))
            elif reason:
                self._refused.value += 1
                self._half.log.warning("socket reader refused", reason=reason, peer=_name(address))

    def _refusal(self, said: bytes | None) -> str | None:
        """The reason to refuse a peer; "": the peer has disconnected, which is not logged."""
        if said:
            return f"it began with {said!r}, and Spark's socket source says nothing"
        if said is not None:
            return ""
        return f"{self._reader} reads already, and there can be only one" if self._reader else None

    async def _serve(self, sock: socket.socket, peer: str) -> None:
        self._reader = peer
        with contextlib.suppress(OSError):  # gone already
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            SocketOptions().connected(sock)
        self._say("socket reader")
        gone = asyncio.ensure_future(_silent_until_gone(sock))
        sending = asyncio.ensure_future(self._sending.run(sock, peer))
        try:
            await asyncio.wait((gone, sending), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _end(sending)
            self._sending.rest(sock)
            raise
        finally:
            await _end(gone)
            self._look_at(await _end(sending))
            self._say("socket reader gone")
            self._reader = ""

    def _say(self, event: str) -> None:
        self._half.log.info(event, peer=self._reader, position=self._consumers.committed(PLAIN) - self._sending.owed)

    def _look_at(self, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, OSError) and not self._broken.done():
            self._broken.set_exception(error)


async def _first_words(sock: socket.socket) -> bytes | None:
    """The first bytes of the peer: the preface, or bytes that cannot be one. None: it sends nothing. b"": it has
    disconnected."""
    said = b""
    try:
        async with within(SILENCE):
            while len(said) < len(PREFACE) and PREFACE.startswith(said):
                await readable(sock)
                some = sock.recv(len(PREFACE) - len(said))
                if not some:
                    return said
                said += some
    except TimeoutError:
        return said or None
    except OSError:
        return b""
    return said


async def _silent_until_gone(sock: socket.socket) -> None:
    """Waits until the peer disconnects, and ignores what it sends."""
    with contextlib.suppress(OSError):
        while True:
            await readable(sock)
            if not sock.recv(4096):
                return


async def _end(task: "asyncio.Future[None]") -> BaseException | None:
    """The error of the task, unless it was cancelled now."""
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    return outcome if isinstance(outcome, Exception) else None


def _name(address: object) -> str:
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)  # pyright: ignore[reportUnknownArgumentType]
