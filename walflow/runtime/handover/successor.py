"""The next process, as this one sees it."""

import asyncio
import base64
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

import structlog

from walflow.exit_codes import EX_TEMPFAIL, EX_UNAVAILABLE
from walflow.handover import HandedConnection, Handover
from walflow.runtime.handover import parent
from walflow.runtime.handover.channel import MOST_DESCRIPTORS, Channel, ChannelClosed
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

CHECK_SECONDS: Final = 120.0  # for the next process to start and to check
SILENT_SECONDS: Final = 30.0  # then it is taken for dead
TELLINGS: Final = 500  # tries
SOON: Final = 0.01  # seconds
LAST_SECONDS: Final = 1.0  # for answers that are passed on, after that

STRANGE: Final = "what the next process says is not understood"

log = structlog.get_logger(component="handover")


class NextProcess(Protocol):
    """`ended`: is set once it has."""

    @property
    def pid(self) -> int: ...
    @property
    def channel(self) -> Channel: ...
    @property
    def ended(self) -> asyncio.Event: ...

    async def wait(self) -> int:
        """Its exit code, once it has ended; of one that a signal has ended, that number below 0."""
        ...

    def tell(self, number: signal.Signals) -> None:
        """Without effect if it has ended."""
        ...

    def close(self) -> None:
        """Nothing is wanted of it any more."""
        ...


class Launch(Protocol):
    def start(self) -> NextProcess:
        """Raises OSError."""
        ...


class Successor:
    """`end` has to be called in any case, unless it serves."""

    def __init__(self, reload: Reload, launch: Launch, handover: Handover) -> None:
        self.reload = reload
        self.told: signal.Signals | None = None  # to stop, while it was to take over
        self._launch = launch
        self._handover = handover
        self._process: NextProcess | None = None
        self._channel: Channel | None = None
        self._sockets: list[tuple[str, list[socket.socket]]] = []
        self._locks: list[int] = []
        self._late: set[asyncio.Task[None]] = set()
        self._has_connections = False

    def __repr__(self) -> str:
        return f"<Successor {self.reload.pid}, {self.reload.phase}>"

    # while this process serves

    async def check(self, running: Description) -> bool:
        """Starts it, and waits until it has checked its flows. `running`: what runs here, for it to compare. False:
        it has refused, or died: `reload` says why, and nothing has changed."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                self._start()
                self.keep()
                await self._send(FirstMessage(self.reload, running))
                await self._hand_over()
                said = await self._receive()
        except TimeoutError:
            self._fail([f"the next process was silent for {CHECK_SECONDS:g} s"], EX_TEMPFAIL)
            return False
        except NotUnderstood as error:
            self._fail([f"{STRANGE}: {error}"], EX_TEMPFAIL)
            return False
        except (ChannelClosed, OSError) as error:
            await self._fail_ended(error)
            return False
        self.reload.lines = said.lines
        self.reload.flows = said.flows
        if said.what != "checked":
            self._fail(said.lines, said.code)
            return False
        return True

    def _start(self) -> None:
        """Raises OSError."""
        self._process = process = self._launch.start()
        self._channel = process.channel
        self.reload.pid = process.pid

    async def _fail_ended(self, error: Exception) -> None:
        if isinstance(error, OSError):
            self._fail([f"the next process cannot be started: {error.strerror}"], EX_UNAVAILABLE)
            return
        assert self._process is not None
        code = await self._process.wait()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        self._fail([f"the next process {how} and said nothing; its own lines are in the log"], EX_TEMPFAIL)

    # as this process stops

    def keep(self) -> None:
        """From now on the sockets and locks stay open, whatever closes theirs."""
        self.drop()
        self._sockets = self._handover.hand_on()
        self._locks = self._handover.locks.hand_on()

    async def _hand_over(self) -> None:
        """The sockets and locks that are kept."""
        locks = list(self._locks)
        groups = [(where, sockets) for where, sockets in self._sockets if len(sockets) <= MOST_DESCRIPTORS]
        while groups or locks:
            named: list[tuple[str, int]] = []
            descriptors: list[int] = []
            while groups and len(descriptors) + len(groups[0][1]) <= MOST_DESCRIPTORS:
                where, sockets = groups.pop(0)
                named.append((where, len(sockets)))
                descriptors += [sock.fileno() for sock in sockets]
            room = 0 if groups else MOST_DESCRIPTORS - len(descriptors)
            some, locks = locks[:room], locks[room:]
            await self._send(DescriptorMessage(named, len(some)), descriptors + some)
        await self._send(DescriptorMessage(all=True, tells=self._handover.tells))

    # when it has stopped

    async def switch(self, say: Callable[[str], bool]) -> bool:
        """Hands all on. True: it serves, or was told to stop, and this process may end. False: it has ended
        otherwise; this process goes on."""
        self.reload.phase = "switching"
        self._has_connections = True
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                await self._hand_all_over()
            await self._until_it_serves()
        except (ChannelClosed, NotUnderstood, TimeoutError) as error:
            if isinstance(error, NotUnderstood):
                return await self._goes_back(f"as it took over: {STRANGE}: {error}")
            if isinstance(error, TimeoutError):
                log.error("next process is silent", pid=self.reload.pid, seconds=SILENT_SECONDS)
            return await self._goes_back("as it took over")
        self.reload.phase = "serving"
        await self._tell_main(say, self.reload.pid)
        log.info("next process serves", pid=self.reload.pid)
        if await self._stay():
            return True
        ends = await self._goes_back("soon after it served")
        if not ends:
            await self._tell_main(say, os.getpid())
        return ends

    async def _hand_all_over(self) -> None:
        going, self._handover.going = self._handover.going, []
        await self._hand_over()
        for first in range(0, len(going), MOST_DESCRIPTORS):
            await self._send_connections(going[first : first + MOST_DESCRIPTORS])
        self._handover.on_connection = self._pass_on
        await self._send(ConnectionMessages(begin=self.reload))

    async def _goes_back(self, when: str) -> bool:
        """True: it does not, for the next process has ended well, so somebody has told it to."""
        code = await self.end()
        if code == 0:
            log.info("next process was told to stop", pid=self.reload.pid)
            return True
        self._fail([f"the next process ended {when}; the old one runs anew"], EX_TEMPFAIL)
        return False

    async def _tell_main(self, say: Callable[[str], bool], pid: int) -> None:
        """To the service manager, which takes the end of its main process for the end of the service; and to the
        parent in a container."""
        parent.tell(pid)
        for _ in range(TELLINGS):
            if say(f"MAINPID={pid}"):
                return
            await asyncio.sleep(SOON)
        log.error("the service manager does not listen", pid=pid, advice="it takes the service for stopped")

    async def _until_it_serves(self) -> None:
        while True:
            async with asyncio.timeout(SILENT_SECONDS):
                said = await self._receive()
            if said.what == "serving":
                return

    async def _stay(self) -> bool:
        """Whether it still runs after a while."""
        assert self._process is not None
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.ended.wait(), self.reload.watch)
            return False
        for relay in list(self._handover.relays):
            relay.finish()
        deadline = asyncio.get_running_loop().time() + LAST_SECONDS
        while self._handover.relays and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110  # a second
            await asyncio.sleep(0.01)
        if self._late:
            await asyncio.wait(self._late, timeout=LAST_SECONDS)
        return not self._process.ended.is_set()

    def tell(self, number: signal.Signals) -> None:
        """A signal that came to this process is for that one."""
        self.told = number
        if self._process is not None:
            self._process.tell(number)

    async def end(self) -> int:
        """Ends it, if it has not ended. Returns its exit code."""
        code = 0
        if self._process is not None:
            self._process.tell(signal.SIGKILL)
            code = await self._process.wait()
        self._handover.on_connection = None
        for relay in list(self._handover.relays):
            relay.abort()
        self._handover.relays.clear()
        going, self._handover.going = self._handover.going, []
        if self._has_connections:  # it may have read from them
            for connection in going:
                connection.socket.close()
        self._channel = None
        if self._process is not None:
            self._process.close()
        return code

    def go_back(self) -> None:
        """This process goes on with what it has kept."""
        self._handover.receive(self._sockets, self._locks)
        self._handover.told, self._handover.tells = self._handover.tells, {}
        self._sockets, self._locks = [], []

    def drop(self) -> None:
        """Closes what was kept for it."""
        for _, group in self._sockets:
            for sock in group:
                sock.close()
        for fd in self._locks:
            self._handover.locks.close(fd)
        self._sockets, self._locks = [], []

    def refuse(self, why: str) -> None:
        """For a reason of this process."""
        self._fail([why], EX_TEMPFAIL)

    def _fail(self, lines: list[str], code: int) -> None:
        self.reload.phase = "failed"
        self.reload.lines, self.reload.code = lines, code
        log.error("reload failed", number=self.reload.number, by=self.reload.by, reason=lines[0] if lines else "")

    # messages

    async def _send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        if self._channel is None:
            raise ChannelClosed
        await self._channel.send(message, descriptors)

    async def _receive(self) -> Said:
        if self._channel is None:
            raise ChannelClosed
        return (await receive(self._channel, Said))[0]

    def _pass_on(self, connection: HandedConnection) -> None:
        task = asyncio.get_running_loop().create_task(self._send_late(connection))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _send_late(self, connection: HandedConnection) -> None:
        with suppress(ChannelClosed):
            await self._send_connections([connection])

    async def _send_connections(self, connections: Sequence[HandedConnection]) -> None:
        described = [
            ConnectionMessage(each.where, each.peer, base64.b64encode(each.came).decode(), each.secure)
            for each in connections
        ]
        try:
            await self._send(ConnectionMessages(described), [each.socket.fileno() for each in connections])
        finally:
            for each in connections:
                each.socket.close()
