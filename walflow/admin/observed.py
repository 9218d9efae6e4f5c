"""What is seen of the flow over time, for the page: backlogs of ten minutes,
and the rate of each link while a page is open."""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from walflow.delivery import BACKLOG_EVENTS
from walflow.nodes.ports import PortCounts, PortName
from walflow.runtime.daemon import Daemon

EVERY: Final = 1.0  # seconds
KEPT: Final = 2  # looks for each backlog that is kept
LENGTH: Final = 300  # backlogs
OVER: Final = 4  # looks of a rate
UNWATCHED: Final = 10.0  # seconds after the last question in which the links are counted


class Backlogs(NamedTuple):
    """`events`: of each log, by FLOW/CONNECTOR. `at`: seconds since the daemon's start."""

    at: float
    events: Mapping[str, float]


class Observed:
    """Nothing is counted at the links while no page asks."""

    def __init__(self, daemon: Daemon) -> None:
        self.backlogs: deque[Backlogs] = deque(maxlen=LENGTH)
        self._daemon = daemon
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._asked = 0.0
        self._counts: PortCounts | None = None
        self._looks: deque[tuple[float, Mapping[PortName, int]]] = deque(maxlen=OVER)

    async def run(self) -> None:
        number = 0
        while True:
            if number % KEPT == 0:
                self._note_backlogs()
            self._look()
            number += 1
            await asyncio.sleep(EVERY)

    def rates(self) -> dict[PortName, float]:
        """Events per second at each port where some passed. The first answer after a while is empty."""
        self._asked = self._clock()
        if self._counts is None:
            self._counts = PortCounts()
            self._daemon.nodes.ports.watch(self._counts, self._daemon.nodes.ports.names)
            self._looks.clear()
            self._look()
        if len(self._looks) < 2:
            return {}
        (began, before), (ended, after) = self._looks[0], self._looks[-1]
        return {port: round((count - before.get(port, 0)) / (ended - began), 1) for port, count in after.items()}

    def _look(self) -> None:
        if self._counts is None:
            return
        if self._clock() - self._asked > UNWATCHED:
            self._daemon.nodes.ports.unwatch(self._counts)
            self._counts = None
            return
        self._looks.append((self._clock(), dict(self._counts.events)))

    def _note_backlogs(self) -> None:
        events = {
            f"{labels['flow']}/{labels['component']}": value
            for _, labels, value in self._daemon.metrics.gauges(lambda name, _: name == BACKLOG_EVENTS)
        }
        self.backlogs.append(Backlogs(round(self._clock() - self._began, 1), events))
