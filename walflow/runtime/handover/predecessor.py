"""The process before, as the next one sees it."""

import asyncio
import base64
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NoReturn, Self, cast

import structlog

from walflow.errors import WalflowError
from walflow.handover import HandedConnection
from walflow.runtime.handover.channel import Channel, ChannelClosed
from walflow.runtime.handover.messages import (
    ConnectionMessage,
    ConnectionMessages,
    Description,
    DescriptorMessage,
    FirstMessage,
    NotUnderstood,
    Said,
    receive,
)
from walflow.runtime.handover.reload import Reload
from walflow.runtime.handover.successor import LAST_SECONDS
from walflow.world import handover, network

COUNT: Final = 0.1  # seconds
ALIVE: Final = 1.0  # seconds between two signs of life, until it serves
OVERDUE: Final = 30.0  # seconds after which the process before should have ended

log = structlog.get_logger(component="handover")


class TooManyErrors(WalflowError):
    """In the time for which the process before stays."""


class Predecessor:
    """`pid`: its number. `kill`: ends it. `reload`: what was asked for. `running`: the flows and the state of the
    process before."""

    def __init__(self, channel: Channel, pid: int, kill: Callable[[], None]) -> None:
        self.reload: Reload
        self.running: Description
        self._channel = channel
        self._pid = pid
        self._kill = kill
        self._handover = handover()
        self._begun = False

    def __repr__(self) -> str:
        return f"<Predecessor {self._pid}, {'has stopped' if self._begun else 'serves'}>"

    @property
    def lacking(self) -> frozenset[str]:
        """Connectors that are not ready there."""
        return frozenset(self.running.lacking)

    async def meet(self) -> Self:
        """Receives what it says first. Raises ChannelClosed if it has ended meanwhile, and NotUnderstood."""
        asked, _ = await receive(self._channel, FirstMessage)
        self.reload, self.running = asked.reload, asked.running
        await self._receive_descriptors()
        return self

    async def refused(self, lines: Sequence[str], code: int) -> None:
        """Nothing is taken over. Without effect once something was."""
        if not self._begun:
            await self._say(Said("refused", [*lines], code))

    async def checked(self, lines: Sequence[str], flows: str) -> bool:
        """Says so. False: no more is wanted, or the process before has ended."""
        try:
            await self._channel.send(Said("checked", [*lines], flows=flows))
            if self.reload.dry:
                return False
            await self._receive_descriptors()
            await self._receive_connections()
        except ChannelClosed:
            return False
        self._begun = True
        self._handover.watched = True
        self._handover.begins = self.reload.begin
        return True

    async def _receive_descriptors(self) -> None:
        sockets: list[tuple[str, Sequence[socket.socket]]] = []
        locks: list[int] = []
        while True:
            message, descriptors = await receive(self._channel, DescriptorMessage)
            if message.all:
                self._handover.told = message.tells
                break
            for where, count in message.sockets:
                group = [network().adopt(fd) for fd in descriptors[:count]]
                for sock in group:
                    sock.setblocking(False)
                sockets.append((where, group))
                descriptors = descriptors[count:]
            locks += descriptors
        self._handover.receive(sockets, locks)

    async def _receive_connections(self) -> None:
        """Until it is this process's turn."""
        while True:
            message, descriptors = await receive(self._channel, ConnectionMessages)
            if message.begin is not None:
                self.reload = message.begin
                return
            for connection in _adopted(message.connections, descriptors):
                self._handover.arrived(connection)

    async def _say(self, said: Said) -> None:
        with suppress(ChannelClosed):
            await self._channel.send(said)

    # once the loop runs

    def watch(self, errors: Callable[[], int], give_up: Callable[[WalflowError], NoReturn]) -> None:
        """Shows signs of life until `serves`, and takes what still comes. `errors`: events so far that failed or were
        rejected. `give_up`: if they are too many, so that the process before goes on."""
        self._errors, self._give_up = errors, give_up
        loop = asyncio.get_running_loop()
        self._tasks = {loop.create_task(self._live()), loop.create_task(self._listen())}

    def serves(self) -> None:
        if self.reload.phase == "serving":
            return
        self.reload.phase = "serving"
        self.reload.lines += self._handover.notes
        log.info("took over", by=self.reload.by, number=self.reload.number, flows=self.reload.flows, before=self._pid)
        loop = asyncio.get_running_loop()
        self._tasks.add(loop.create_task(self._say(Said("serving"))))
        loop.call_later(self.reload.watch + LAST_SECONDS + OVERDUE, self._end_overdue)
        if self.reload.errors is not None:
            self._count(loop, self.reload.errors)

    def _count(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        if not self._handover.watched:
            return
        errors = self._errors()
        if errors > most:
            said = f"{errors} events failed or were rejected, and {most} may: the old flow goes on"
            self._give_up(TooManyErrors(said))
        loop.call_later(COUNT, self._count, loop, most)

    async def _live(self) -> None:
        while self._handover.watched and self.reload.phase != "serving":
            await self._say(Said("alive"))
            await asyncio.sleep(ALIVE)

    async def _listen(self) -> None:
        while True:
            try:
                message, descriptors = await receive(self._channel, ConnectionMessages)
            except NotUnderstood as error:
                log.error("connection is not taken over", reason=str(error))
            except ChannelClosed:
                self._gone()
                return
            else:
                for connection in _adopted(message.connections, descriptors):
                    self._handover.arrived(connection)

    def _gone(self) -> None:
        """It will not go on any more."""
        self._handover.watched = False
        self._handover.drop()
        log.info("process before has ended", pid=self._pid)

    def _end_overdue(self) -> None:
        if self._handover.watched:
            log.error("process before does not end", pid=self._pid, advice="it is killed: no checkpoint is written")
            self._kill()


def _adopted(connections: Sequence[ConnectionMessage], descriptors: Sequence[int]) -> list[HandedConnection]:
    found: list[HandedConnection] = []
    for each, fd in zip(connections, descriptors, strict=True):
        peer: object = each.peer
        if isinstance(peer, list):  # JSON has no tuples
            peer = tuple(cast(list[object], peer))
        found.append(
            HandedConnection(each.where, network().adopt(fd), peer, base64.b64decode(each.came), each.secure)
        )
    return found
