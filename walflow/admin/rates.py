"""Reads the counters once a second and computes rates. The delay of that timer is the loop's lag."""

import asyncio
from collections import deque
from typing import Final

from walflow.metrics import Metrics

EVERY: Final = 1.0  # seconds
OVER: Final = 5  # looks back: a rate is over so many seconds
LAGS: Final = 10

Labels = tuple[tuple[str, str], ...]


class Rates:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._looks: deque[tuple[float, dict[tuple[str, str, str], int]]] = deque(maxlen=OVER + 1)
        self._lags: deque[float] = deque(maxlen=LAGS)

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        self.look(clock())
        due = clock() + EVERY
        while True:
            await asyncio.sleep(due - clock())
            now = clock()
            self.lagged(now - due)
            self.look(now)
            due = now + EVERY

    @property
    def lag(self) -> float:
        return max(self._lags, default=0.0)

    def lagged(self, seconds: float) -> None:
        self._lags.append(max(0.0, seconds))

    def look(self, now: float) -> None:
        values = {
            (labels.get("flow", ""), labels.get("component", ""), name): value
            for name, labels, value in self._metrics
            if name.endswith("_events_total")
        }
        self._looks.append((now, values))

    def of(self, flow: str, component: str) -> dict[str, float]:
        """Events per second by the counter's name."""
        if len(self._looks) < 2:
            return {}
        (began, before), (ended, after) = self._looks[0], self._looks[-1]
        return {
            name.removesuffix("_events_total"): round(
                (value - before.get((flow, component, name), 0)) / (ended - began), 1
            )
            for (of_flow, of_component, name), value in after.items()
            if (of_flow, of_component) == (flow, component)
        }
