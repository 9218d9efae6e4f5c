"""When a source may read again: its gate is open, and no call waits for a turn."""

from collections import deque
from collections.abc import Callable

from walflow.contract import Scheduler
from walflow.nodes.gate import ReasonGate
from walflow.nodes.run_context import Signal


class Turns:
    """Of all waiting calls, one is made in each turn of the loop, in order. `may_read` is set while the source may
    read."""

    def __init__(self, gate: ReasonGate, scheduler: Scheduler, may_read: Signal) -> None:
        self._gate = gate
        self._scheduler = scheduler
        self._may_read = may_read
        self._waiting: deque[Callable[[], None]] = deque()
        self._void = False
        self.gate_changed()

    def __bool__(self) -> bool:
        """Whether calls wait."""
        return bool(self._waiting)

    def next(self, call: Callable[[], None]) -> None:
        if self._void:
            return
        if not self._waiting:
            self._may_read.clear()
            self._scheduler.call_soon(self._have)
        self._waiting.append(call)

    def _have(self) -> None:
        if self._void:
            return
        self._waiting[0]()  # it stays in the queue: a call that it adds is not the first
        if self._void:
            return
        self._waiting.popleft()
        if self._waiting:
            self._scheduler.call_soon(self._have)
        else:
            self.gate_changed()

    def gate_changed(self) -> None:
        if self._gate.shut or self._waiting:
            self._may_read.clear()
        else:
            self._may_read.set()

    async def until_readable(self) -> None:
        while self._gate.shut or self._waiting:  # the bytes that a stream held may have shut it again
            await self._may_read.wait()

    def end(self) -> None:
        """Drops the calls that wait, and those that come."""
        self._void = True
        self._waiting.clear()
