"""When a source may read on: its gate is open, and no call of it waits for a turn."""

from collections import deque
from collections.abc import Callable

from walflow.contract import Scheduler
from walflow.nodes.gate import ReasonGate
from walflow.nodes.run_context import Signal


class Turns:
    """Of all calls that wait, one has each turn of the loop, in their order. `may_read` is set while a source may."""

    def __init__(self, gate: ReasonGate, scheduler: Scheduler, may_read: Signal) -> None:
        self._gate = gate
        self._scheduler = scheduler
        self._may_read = may_read
        self._waiting: deque[Callable[[], None]] = deque()
        self._void = False
        self.gate_changed()

    def __bool__(self) -> bool:
        """Some wait."""
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
        self._waiting[0]()  # still among them: what it asks for is not the first
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
        while self._gate.shut or self._waiting:  # what a stream held back may have shut it again
            await self._may_read.wait()

    def end(self) -> None:
        self._void = True
