"""An event loop in virtual time: where nothing is ready, the time of the next timer begins at once.

What asyncio promises stays: calls run in the order in which they were given. What no program may count on is drawn:
which of two timers of one moment goes first, and which of several sockets is ready first. How long it takes until
something comes from outside, whoever calls `call_later` draws.
"""

import asyncio
import contextvars
import heapq
import selectors
import socket
from asyncio.selector_events import BaseSelectorEventLoop
from collections import deque
from collections.abc import Callable, Coroutine, MutableMapping
from random import Random
from typing import Any, Final, NamedTuple, Protocol, TypeVarTuple, Unpack, cast

from walflow.world import network

Arguments = TypeVarTuple("Arguments")
ErrorHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]

TICK: Final = 1e-7  # seconds within which timers change places
MOST_TURNS: Final = 100_000  # in which no time passes


class StandsStill(Exception):
    """Nothing is ready, and no timer is set: what is waited for never comes. Or it turns, and no time passes."""


class Owners(Protocol):
    """The processes in one loop."""

    def task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any],
        context: contextvars.Context | None = None,
    ) -> "asyncio.Task[Any]": ...

    def gone(self, context: contextvars.Context | None) -> bool:
        """What would run in it is never called."""
        ...

    def stopped(self, context: contextvars.Context | None) -> "SetAside | None":
        """What is called in it waits there, for now."""
        ...

    def handler(self, handler: ErrorHandler | None) -> None: ...

    def error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None: ...


class Sockets(Protocol):
    """Of a simulated network."""

    def poll(self, fd: int) -> int:
        """What of `selectors.EVENT_READ` and `EVENT_WRITE` it is ready for."""
        ...


class _Selector(selectors._BaseSelectorImpl):  # pyright: ignore[reportPrivateUsage]
    """Of simulated sockets. Where none is ready, time passes. Its base is Python's own for all selectors that have a
    register."""

    def __init__(self, now: float, dice: Random) -> None:
        super().__init__()
        self.now = now
        self.turns = 0
        self.sockets: Sockets | None = None
        self.stirred: set[int] = set()  # descriptors that may be ready
        self._still = 0
        self._dice = dice

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().register(fileobj, events, data)
        self.stirred.add(key.fd)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().modify(fileobj, events, data)
        self.stirred.add(key.fd)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns += 1
        ready = self._ready() if self.stirred else []
        if ready:
            return ready
        if timeout is None:
            raise StandsStill("nothing is ready, and no timer is set")
        if timeout > 0:
            self.now += timeout
            self._still = 0
        else:
            self._still += 1
            if self._still > MOST_TURNS:
                raise StandsStill(f"{MOST_TURNS:,} turns, and no time passed")
        return []

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        found: list[tuple[selectors.SelectorKey, int]] = []
        register = self.get_map()
        for fd in sorted(self.stirred):
            key = register.get(fd)
            mask = 0 if key is None or self.sockets is None else self.sockets.poll(fd) & key.events
            if key is None or not mask:
                self.stirred.discard(fd)
            else:
                found.append((key, mask))
        if len(found) > 1:
            self._dice.shuffle(found)
        return found


class SetAside(NamedTuple):
    """What a process that was stopped would do next."""

    calls: list[asyncio.Handle]
    timers: list[asyncio.TimerHandle]


class SimulatedLoop(BaseSelectorEventLoop):
    """Nothing outside of it can wake it up. `now`: what its clock says at first, in seconds. `owners`: who has the
    errors of what runs in it."""

    def __init__(self, dice: Random, owners: "Owners | None" = None, now: float = 0.0) -> None:
        self._chosen = _Selector(now, dice)
        super().__init__(self._chosen)
        self._dice = dice
        self._owners = owners
        self._outside = contextvars.copy_context()
        if owners is not None:
            self.set_task_factory(owners.task)  # type: ignore[arg-type]  # typeshed wants another protocol

    @property
    def turns(self) -> int:
        return self._chosen.turns

    def time(self) -> float:
        return self._chosen.now

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return super().call_at(when + self._dice.random() * TICK, callback, *args, context=context)

    def call_soon(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if self.is_closed():  # what is collected after a story that broke may still ask
            handle = asyncio.Handle(callback, args, self, context)
            handle.cancel()
            return handle
        handle = super().call_soon(callback, *args, context=context)
        if self._owners is not None:
            if self._owners.gone(context):
                handle.cancel()
            elif (aside := self._owners.stopped(context)) is not None:
                self._ready.pop()  # type: ignore[attr-defined]  # the one that was added now
                aside.calls.append(handle)
        return handle

    def set_exception_handler(self, handler: ErrorHandler | None) -> None:
        """For the process that asks for it."""
        if self._owners is None:
            super().set_exception_handler(handler)
        else:
            self._owners.handler(handler)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._owners is None:
            super().call_exception_handler(context)
        else:
            self._owners.error(self, context)

    def drop(self, which: Callable[[contextvars.Context | None], bool]) -> None:
        """Calls and timers whose context is such a one are never made."""
        handles: list[asyncio.Handle] = [*self._ready, *self._scheduled]  # type: ignore[attr-defined]  # asyncio's own
        for handle in handles:
            if not handle.cancelled() and which(getattr(handle, "_context", None)):
                handle.cancel()

    def set_aside(self, which: Callable[[contextvars.Context | None], bool]) -> "SetAside":
        """Calls and timers whose context is such a one wait for `put_back`."""
        ready = cast("deque[asyncio.Handle]", vars(self)["_ready"])  # asyncio's own
        timers = cast("list[asyncio.TimerHandle]", vars(self)["_scheduled"])
        aside = SetAside([], [])
        for at, handle in enumerate(ready):
            if which(getattr(handle, "_context", None)):
                aside.calls.append(handle)
                ready[at] = gone = asyncio.Handle(len, ("",), self)  # the loop has counted them
                gone.cancel()
        aside.timers.extend(timer for timer in timers if which(getattr(timer, "_context", None)))
        timers[:] = [timer for timer in timers if timer not in aside.timers]
        heapq.heapify(timers)
        return aside

    def put_back(self, aside: "SetAside") -> None:
        self._ready.extend(aside.calls)  # type: ignore[attr-defined]
        for timer in aside.timers:
            heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]

    def call_outside(self, seconds: float, callback: Callable[[], object]) -> None:
        """Of no process: what the network does goes on when the one that began it is gone."""
        self.call_later(seconds, callback, context=self._outside)

    # sockets

    def attach(self, sockets: Sockets) -> None:
        self._chosen.sockets = sockets

    def stir(self, fd: int) -> None:
        """It may be ready for something."""
        self._chosen.stirred.add(fd)

    def forget(self, fd: int, *, of_process: bool = False) -> None:
        """It is closed. `of_process`: one that runs, or was killed: then no transport closes it any more."""
        if fd in self._chosen.get_map():
            self._chosen.unregister(fd)
        transport = self._all_transports().pop(fd, None)
        if transport is not None and of_process:
            vars(transport)["_sock"] = None

    def remove_reader(self, fd: Any) -> bool:
        return not self._of_the_dead() and super().remove_reader(fd)

    def remove_writer(self, fd: Any) -> bool:
        return not self._of_the_dead() and super().remove_writer(fd)

    def _of_the_dead(self) -> bool:
        """A process that was killed is collected: its sockets are closed."""
        return self._owners is not None and self._owners.gone(None)

    def abort_all(self) -> None:
        """Every connection, at the end."""
        for transport in [*self._all_transports().values()]:
            transport.abort()

    def _all_transports(self) -> MutableMapping[int, asyncio.WriteTransport]:
        """asyncio's own, by descriptor."""
        found: MutableMapping[int, asyncio.WriteTransport] = vars(self)["_transports"]
        return found

    async def getaddrinfo(
        self,
        host: "bytes | str | None",
        port: "bytes | str | int | None",
        *,
        family: int = 0,
        type: int = 0,  # asyncio's name
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        kind = socket.SocketKind(type or socket.SOCK_STREAM)
        to_listen = bool(flags & socket.AI_PASSIVE)
        return [*network().addresses(str(host or ""), int(port or 0), kind, to_listen=to_listen)]

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **keys: Any) -> Any:
        """From the host in whose world it is called."""
        if keys.get("sock") is None:
            family, kind, protocol, _, where = (await self.getaddrinfo(host, port))[0]
            keys["sock"] = sock = network().socket(family, kind, protocol)
            try:
                await self.sock_connect(sock, where)
            except BaseException:
                sock.close()
                raise
        return await super().create_connection(protocol_factory, **keys)

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **keys: Any) -> Any:
        """On the host in whose world it is called."""
        if keys.get("sock") is None:
            family, kind, protocol, _, where = (await self.getaddrinfo(host, port, flags=socket.AI_PASSIVE))[0]
            keys["sock"] = sock = network().socket(family, kind, protocol)
            sock.bind(where)
        return await super().create_server(protocol_factory, **keys)

    def _make_self_pipe(self) -> None: ...

    def _close_self_pipe(self) -> None: ...

    def _write_to_self(self) -> None:
        """For `call_soon_threadsafe`: a thread that calls it holds the baton, so the loop does not sleep."""
