"""The source half of a log: its lanes. Each sends to its own sinks, at its own pace, from its own mark.

So a sink that is away stops its own lane alone. What all lanes have acked is acked in the log, and its space is free.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from walflow.contract import Outlet
from walflow.delivery.ages import BacklogAge
from walflow.delivery.checkpoints import Checkpoints
from walflow.delivery.in_flight import SendLimits
from walflow.delivery.lane import Lane
from walflow.delivery.measures import backlog_bytes
from walflow.delivery.outcomes import Outcomes
from walflow.delivery.tag import Tags
from walflow.wal import Dropped, Log
from walflow.world import handover

WINDOWS: Final = 2  # of the log's: so much may all lanes together hold that is not acked


def _never() -> bool:
    return False


class LogSource:
    """`max_attempts`: how often a single event may fail before it is rejected; None: no limit. `most`: how many
    events each lane may send that are not acked; None: no limit but the window. `is_full`: whether the log takes no
    events now."""

    def __init__(
        self,
        log: Log,
        out: Outlet,
        tags: Tags,
        checkpoints: Checkpoints,
        max_attempts: int | None = None,
        most: int | None = None,
        is_full: Callable[[], bool] = _never,
    ) -> None:
        self._log = log
        self._out = out
        self._checkpoints = checkpoints
        self.ages = BacklogAge(log, out.scheduler.time)
        self._outcomes = Outcomes(out)
        self._gaps_told = 0
        several = len(out.lanes) > 1
        sinks = [lane.sinks or [name] for name, lane in out.lanes.items()]
        begins = self._begins(sinks)
        window = min(log.window, log.window * WINDOWS // len(out.lanes))
        letters = frozenset(way.receiver for way in out.letters if way.gives_up)
        limits = SendLimits(most, max_attempts, letters)
        self._lanes = {
            name: Lane(log, mark, lane, tags, checkpoints, self._outcomes, window, limits, self._tell_gaps, is_full)
            for (name, lane), mark in zip(out.lanes.items(), log.part(sinks, begins), strict=True)
        }
        out.gauge("wal_cannot_read", lambda: sum(lane.fails for lane in self._lanes.values()))
        if out.flow is not None:
            log.trail.runs(*out.flow, log.durable)
        if several or out.flow is not None:
            checkpoints.now()  # makes the files of marks and trail, while the log does not need the room yet
        if several:
            out.backlog(self.backlog)
            for name, lane in self._lanes.items():
                self._measure(name, lane)

    def __repr__(self) -> str:
        return f"<LogSource {self._lanes!r}>"

    def _begins(self, lanes: Sequence[Sequence[str]]) -> Mapping[str, int | None]:
        """Where sinks begin that are new, as `walflow reload --begin` has it."""
        flow = self._out.name.rpartition("::")[0]
        wanted = handover().begins
        found = {name: wanted[f"{flow}::{name}"] for sinks in lanes for name in sinks if f"{flow}::{name}" in wanted}
        for name, first in found.items():
            self._out.log.info("new sink", sink=name, begins=self._log.durable + 1 if first is None else first)
        return found

    @property
    def first_ingest_ns(self) -> int:
        """When the first event that was read had been received, 0 if none was."""
        known = [lane.first_ingest_ns for lane in self._lanes.values() if lane.first_ingest_ns]
        return min(known, default=0)

    def backlog(self) -> int:
        """Events that are durable and not acked by every sink."""
        log = self._log
        return sum(last - first + 1 for first, last in log.unacked(log.low + 1, log.durable))

    def forget(self, dropped: Sequence[Dropped]) -> None:
        """The log has dropped these chunks, the oldest first. A sink may still settle some of their events; that has
        no effect."""
        for number, lane in enumerate(self._lanes.values()):
            lane.forget(dropped[-1].last, sum(one.of_lanes[number] for one in dropped if one.of_lanes))

    def pump(self) -> None:
        """Sends what may be sent."""
        for lane in self._lanes.values():
            lane.pump()

    def stop(self) -> None:
        """Reads no more. What is in flight may still settle."""
        for lane in self._lanes.values():
            lane.stop()

    def _measure(self, name: str, lane: Lane) -> None:
        self._out.gauge("wal_lane_backlog_events", lane.backlog, lane=name)
        self._out.gauge("wal_lane_backlog_bytes", lambda: backlog_bytes(self._log, lane.low), lane=name)
        self._out.gauge(
            "wal_lane_oldest_seconds", lambda: self.ages.since_receipt(lane.low, lane.received_ns()), lane=name
        )
        self._out.gauge("wal_lane_dropped_events", lambda: lane.dropped_events, lane=name)

    def _tell_gaps(self) -> None:
        """Logs damage to the operator, once for all lanes: damaged events are kept in quarantine/ and will not be
        sent."""
        gaps = self._log.gaps
        for gap in gaps[self._gaps_told :]:
            self._outcomes.quarantined(gap)
            self._out.log.error("quarantined", found=str(gap))
        if self._gaps_told < len(gaps):
            self._gaps_told = len(gaps)
            self._checkpoints.acked()  # so that a restart does not find and count them again
