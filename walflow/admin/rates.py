"""Reads the counters once a second and computes rates. The delay of that timer is the loop's lag."""

import asyncio
from collections import deque
from collections.abc import Sequence
from operator import add
from typing import Final, NamedTuple

from walflow.metrics import Metrics

EVERY: Final = 1.0  # seconds
OVER: Final = 5  # looks back: a rate is over so many seconds
LAGS: Final = 10

REQUESTS: Final = "request_seconds"


class RequestRates(NamedTuple):
    """`per_second`: requests. `median` and `p99`: seconds that half, and 99 of 100, took at most,
    to the resolution of the buckets."""

    per_second: float
    median: float
    p99: float


def quantile(counts: Sequence[int], bounds: Sequence[float], share: float) -> float:
    """Within its bucket it is taken as even, as Prometheus does; above the last bound, it is that bound."""
    wanted, total = share * sum(counts), 0
    for number, count in enumerate(counts):
        if count and total + count >= wanted:
            if number >= len(bounds):
                break
            low = bounds[number - 1] if number else 0.0
            return low + (bounds[number] - low) * (wanted - total) / count
        total += count
    return bounds[-1] if bounds else 0.0


class Rates:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._looks: deque[tuple[float, dict[tuple[str, str, str], int]]] = deque(maxlen=OVER + 1)
        self._requests: deque[tuple[float, dict[tuple[str, str], list[int]]]] = deque(maxlen=OVER + 1)
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
        self._requests.append((now, self._request_counts()))

    def _request_counts(self) -> dict[tuple[str, str], list[int]]:
        """Of each sink of requests: how many took so long, by bucket, whatever their outcome."""
        counts: dict[tuple[str, str], list[int]] = {}
        for name, labels, histogram in self._metrics.histograms():
            if name == REQUESTS:
                of = labels["flow"], labels["component"]
                before = counts.get(of)
                counts[of] = [*map(add, before, histogram.counts)] if before else list(histogram.counts)
        return counts

    def requests(self, flow: str, component: str) -> RequestRates | None:
        """Of the last seconds; if there was none in them, the times of all since the start.
        None: there was no request."""
        bounds = next((one.bounds for name, _, one in self._metrics.histograms() if name == REQUESTS), ())
        if len(self._requests) < 2:
            return None
        (began, before), (ended, after) = self._requests[0], self._requests[-1]
        counts = after.get((flow, component), [])
        if not any(counts):
            return None
        old = before.get((flow, component)) or [0] * len(counts)
        recent = [now - then for now, then in zip(counts, old, strict=True)]
        shown = recent if any(recent) else counts
        return RequestRates(
            round(sum(recent) / (ended - began), 1), quantile(shown, bounds, 0.5), quantile(shown, bounds, 0.99)
        )

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
