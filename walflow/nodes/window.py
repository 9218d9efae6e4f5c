"""Limits how much a run may send before it is settled. This limit bounds everything downstream.

A synchronous `accept` cannot refuse a block, so the source is stopped instead. A source that pushes may exceed the
limit once, and then finds its gate shut. A source that sends block by block is refused. Both may continue when half
of the window is settled.
"""

from collections.abc import Callable
from typing import Final

from walflow.nodes.gate import ReasonGate

WINDOW: Final = 8 << 20  # bytes


def _nothing() -> None: ...


class SendWindow:
    """`window` and `window_events` are the limits. `inflight` counts bytes. `inflight_events` counts the events of
    blocks that were given to `send`. `on_full` is called when the limit is reached, `on_room` when a source that was
    refused may try again. After `over`, its receipts do not count any more."""

    def __init__(self, gate: ReasonGate, on_full: Callable[[], None]) -> None:
        self.window = WINDOW
        self.window_events: int | None = None
        self.inflight: int = 0
        self.inflight_events: int = 0
        self.delivered: int = 0  # blocks, in whole or in part
        self.refused = False
        self.over = False
        self.on_full = on_full
        self.on_room: Callable[[], None] = _nothing
        self.gate = gate

    @property
    def full(self) -> bool:
        """Whether the source must wait until something is settled."""
        all_events = self.window_events is not None and self.inflight_events >= self.window_events
        return self.refused or all_events or "window" in self.gate.reasons

    def exceed(self) -> None:
        """A source has pushed more than the limit."""
        self.gate.trigger("window", f"{self.window} bytes sent and not settled")
        self.on_full()

    def give_back(self, size: int) -> None:
        self.inflight -= size
        if self.inflight <= self.window >> 1:
            if self.gate.reasons:
                self.gate.restore("window")
            if self.refused and not self.gate.reasons:
                self.ask_again()

    def ask_again(self) -> None:
        self.refused = False
        self.on_room()
