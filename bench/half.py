"""How long an event takes under load: half of the rate that the system has just sustained, in a write a millisecond.

The time of a write is from the moment it was due, however late it goes out, to the read that completes it. So a
system that stops reading for a while pays for all that was due meanwhile.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from statistics import quantiles
from typing import Final

from bench.wire import Wire

SLOT: Final = 0.001  # seconds from one write to the next
PARTS: Final = 1000  # of the quantiles


class HalfLoad:
    """`receive`: waits so many seconds for what comes back, and reads it. `rate`: events a second, all wires."""

    def __init__(self, wires: Sequence[Wire], receive: Callable[[float], object], rate: float) -> None:
        self._wires = wires
        self._receive = receive
        self._rate = rate
        self._due: dict[Wire, deque[tuple[int, float]]] = {wire: deque() for wire in wires}  # events, when
        self._goals = {wire: wire.sent for wire in wires}  # bytes
        self._seconds: list[float] = []

    def run(self, seconds: float) -> Mapping[str, float]:
        """Nothing is under way when it begins."""
        begun = due = time.perf_counter()
        planned = 0
        while (now := time.perf_counter()) < begun + seconds:
            while due <= now:
                wire = self._wires[planned % len(self._wires)]
                planned += 1
                events = round(self._rate * SLOT * planned) - round(self._rate * SLOT * (planned - 1))
                if events:
                    self._goals[wire] += wire.bytes_of(events)
                    self._due[wire].append((wire.events_at(self._goals[wire]), due))
                due += SLOT
            behind = [wire for wire in self._wires if wire.sent < self._goals[wire] and not self._send(wire)]
            self._receive(0 if behind else max(0.0, due - time.perf_counter()))
            self._look()
        return self._result()

    def _send(self, wire: Wire) -> bool:
        """Whether it has sent all that is due."""
        try:
            wire.send_up_to(self._goals[wire])
        except BlockingIOError:
            return False
        return wire.sent == self._goals[wire]

    def _look(self) -> None:
        now = time.perf_counter()
        for wire, due in self._due.items():
            returned = wire.events_returned
            while due and due[0][0] <= returned:
                self._seconds.append(now - due.popleft()[1])

    def _result(self) -> Mapping[str, float]:
        now = time.perf_counter()
        self._seconds += [now - when for due in self._due.values() for _, when in due]  # so long at least
        return half_percentiles(self._seconds)


def half_percentiles(seconds: list[float]) -> Mapping[str, float]:
    """Without any, if there are fewer than two."""
    if len(seconds) < 2:
        return {}
    parts = quantiles(seconds, n=PARTS, method="inclusive")
    return {"half_p50_us": parts[499] * 1e6, "half_p99_us": parts[989] * 1e6, "half_p999_us": parts[998] * 1e6}
