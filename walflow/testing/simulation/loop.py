"""An event loop in virtual time: where nothing is ready, the time of the next timer begins at once.

What asyncio promises stays: calls run in the order in which they were given. What no program may count on is drawn:
which of two timers of one moment goes first, and, by whoever calls `call_later`, how long it takes until something
comes from outside.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, Protocol, TypeVarTuple, Unpack

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

    def handler(self, handler: ErrorHandler | None) -> None: ...

    def error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None: ...


class _NoSelector:
    """Where asyncio would wait for files, time passes."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.turns = 0
        self._still = 0

    def select(self, timeout: float | None) -> list[object]:
        self.turns += 1
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

    def close(self) -> None: ...


class SimulatedLoop(asyncio.BaseEventLoop):
    """Nothing outside of it can wake it up. `now`: what its clock says at first, in seconds. `owners`: who has the
    errors of what runs in it."""

    def __init__(self, dice: Random, owners: "Owners | None" = None, now: float = 0.0) -> None:
        super().__init__()
        self._dice = dice
        self._owners = owners
        self._selector = _NoSelector(now)
        if owners is not None:
            self.set_task_factory(owners.task)  # type: ignore[arg-type]  # typeshed wants another protocol

    @property
    def turns(self) -> int:
        return self._selector.turns

    def time(self) -> float:
        return self._selector.now

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
        handle = super().call_soon(callback, *args, context=context)
        if self._owners is not None and self._owners.gone(context):
            handle.cancel()
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

    def _process_events(self, event_list: list[object]) -> None: ...

    def _write_to_self(self) -> None:
        """For `call_soon_threadsafe`: a thread that calls it holds the baton, so the loop does not sleep."""
