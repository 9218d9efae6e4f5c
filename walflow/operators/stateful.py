"""A region that keeps something from one event to the next.

It acks under a name of its own: what a log sends again, because another branch has failed it, is in the state
already, and its results are in their buffers (walflow.plan.results). While a buffer is full, `gate` is shut, and
blocks wait as they came, unsettled, within the windows of their sources. So results never grow beyond their bounds:
what is made at a time is a block's, and of a large state that leaves as a whole, a part of a block's.
"""

from collections import deque
from typing import Final

from walflow.contract import Gate, Scheduler
from walflow.errors import WalflowError
from walflow.event import Block
from walflow.operators.select import Select

LENT_BYTES: Final = 4 << 20  # of the state, between two looks at the gate


class NotRun(WalflowError):
    """The daemon stopped while the results of earlier events waited for their sinks. The event may be sent again."""


class StatefulSelect:
    def __init__(self, select: Select, gate: Gate) -> None:
        self._select = select
        self._name = select.compiled.name
        self._gate = gate
        self._waiting: deque[Block] = deque()
        self._running = False
        self._resting = False  # the loop has its turn; then it goes on
        gate.watch(lambda: None, self._go_on)

    def __repr__(self) -> str:
        return f"<StatefulSelect {self._name} {len(self._waiting)} waiting>"

    @property
    def waiting(self) -> int:
        """Events that came and are not in the state yet."""
        return sum(block.frames.count for block in self._waiting)

    def accept(self, block: Block) -> None:
        for part in block.lacked_by(self._name):
            part.receipt.fork(1)
            self._waiting.append(part)
            self._go_on()
            part.receipt.ack(self._name)

    def _go_on(self) -> None:
        """What it sends may open or shut the gate meanwhile, hence the guard."""
        if self._running:
            return
        self._running = True
        try:
            while self._waiting and not self._gate.shut and not self._resting:
                left = self.take(self._waiting.popleft())
                if left is not None:
                    self._waiting.appendleft(left)
        finally:
            self._running = False

    def take(self, block: Block) -> Block | None:
        """What is left of it, because the gate is to be looked at first."""
        return self._select.begin(block, LENT_BYTES)

    # walflow.operators.Running

    def begin(self, scheduler: Scheduler) -> None: ...

    def drain(self) -> None: ...

    def end(self) -> None:
        while self._waiting:
            self._waiting.popleft().receipt.fail(NotRun(f"{self._name} has stopped"), 0, self._name)
