"""The process before, as the next one sees it."""

import asyncio
import base64
import os
import signal
import socket
import threading
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NoReturn, Self, cast

import msgspec
import structlog

from walflow.errors import WalflowError
from walflow.handover import OWN, HandedConnection
from walflow.runtime.handover.channel import ChannelClosed, receive, send
from walflow.runtime.handover.reload import Reload, Said
from walflow.runtime.handover.successor import CHANNEL, LAST_SECONDS

COUNT: Final = 0.1  # seconds
ALIVE: Final = 1.0  # seconds between two signs of life, until it serves
OVERDUE: Final = 30.0  # seconds after which the process before should have ended

log = structlog.get_logger(component="handover")


class TooManyErrors(WalflowError):
    """In the time for which the process before stays."""


class Predecessor:
    """`reload`: what was asked for. `running`: the flows and the state of the process before, as JSON documents."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._begun = False
        self._pid = os.getppid()
        message, _ = receive(channel)
        self.reload = msgspec.convert(message["reload"], Reload)
        self.running: Any = message["running"]
        self.lacking = frozenset[str](message["running"]["lacking"])  # connectors that are not ready there
        self._receive_descriptors()

    def __repr__(self) -> str:
        return f"<Predecessor {self._pid}, {'has stopped' if self._begun else 'serves'}>"

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] = os.environ) -> Self | None:
        """None: this is the first process. Raises SystemExit if the one before has ended meanwhile."""
        number = environment.pop(CHANNEL, None)
        if number is None:
            return None
        channel = socket.socket(fileno=int(number))
        channel.set_inheritable(False)
        try:
            return cls(channel)
        except ChannelClosed:
            raise SystemExit(0) from None

    def refused(self, lines: Sequence[str], code: int) -> None:
        """Nothing is taken over. Without effect once something was."""
        if not self._begun:
            with suppress(ChannelClosed):
                send(self._channel, Said("refused", [*lines], code))

    def checked(self, lines: Sequence[str], flows: str) -> None:
        """Says so. Raises SystemExit if no more is wanted, or the process before has ended."""
        try:
            send(self._channel, Said("checked", [*lines], flows=flows))
            if self.reload.dry:
                raise SystemExit(0)
            self._receive_descriptors()
            self._receive_connections()
        except ChannelClosed:
            raise SystemExit(0) from None
        self._begun = True
        OWN.watched = True

    def _receive_descriptors(self) -> None:
        sockets: list[tuple[str, Sequence[socket.socket]]] = []
        locks: list[int] = []
        while True:
            message, descriptors = receive(self._channel)
            if "all" in message:
                break
            for where, count in message["sockets"]:
                group = [socket.socket(fileno=fd) for fd in descriptors[:count]]
                for sock in group:
                    sock.setblocking(False)
                sockets.append((where, group))
                descriptors = descriptors[count:]
            locks += descriptors
        OWN.receive(sockets, locks)

    def _receive_connections(self) -> None:
        """Until it is this process's turn."""
        while True:
            message, descriptors = receive(self._channel)
            if "begin" in message:
                self.reload = msgspec.convert(message["begin"], Reload)
                return
            for connection in _connections(message, descriptors):
                OWN.arrived(connection)

    # once the loop runs

    def watch(self, errors: Callable[[], int], give_up: Callable[[WalflowError], NoReturn]) -> None:
        """Shows signs of life until `serves`, and takes what still comes. `errors`: events so far that failed or were
        rejected. `give_up`: if they are too many, so that the process before goes on."""
        self._errors, self._give_up = errors, give_up
        loop = asyncio.get_running_loop()
        self._live(loop)
        threading.Thread(target=self._listen, args=(loop,), name="handover", daemon=True).start()

    def serves(self) -> None:
        if self.reload.phase == "serving":
            return
        self.reload.phase = "serving"
        log.info("took over", by=self.reload.by, number=self.reload.number, flows=self.reload.flows, before=self._pid)
        with suppress(ChannelClosed):
            send(self._channel, Said("serving"))
        loop = asyncio.get_running_loop()
        loop.call_later(self.reload.watch + LAST_SECONDS + OVERDUE, self._end_overdue)
        if self.reload.errors is not None:
            self._count(loop, self.reload.errors)

    def _count(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        if not OWN.watched:
            return
        errors = self._errors()
        if errors > most:
            said = f"{errors} events failed or were rejected, and {most} may: the old flow goes on"
            self._give_up(TooManyErrors(said))
        loop.call_later(COUNT, self._count, loop, most)

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        if OWN.watched and self.reload.phase != "serving":
            with suppress(ChannelClosed):
                send(self._channel, Said("alive"))
            loop.call_later(ALIVE, self._live, loop)

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while True:
                message, descriptors = receive(self._channel)
                for connection in _connections(message, descriptors):
                    loop.call_soon_threadsafe(partial(OWN.arrived, connection))
        except ChannelClosed:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._gone)

    def _gone(self) -> None:
        """It will not go on any more."""
        OWN.watched = False
        OWN.drop()
        log.info("process before has ended", pid=self._pid)

    def _end_overdue(self) -> None:
        if OWN.watched:
            log.error("process before does not end", pid=self._pid, advice="it is killed: no checkpoint is written")
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)


def _connections(message: Any, descriptors: Sequence[int]) -> list[HandedConnection]:
    found: list[HandedConnection] = []
    for (where, peer, came, secure), fd in zip(message["connections"], descriptors, strict=True):
        address = tuple(cast(list[object], peer)) if isinstance(peer, list) else peer  # JSON has no tuples
        found.append(HandedConnection(where, socket.socket(fileno=fd), address, base64.b64decode(came), secure))
    return found
