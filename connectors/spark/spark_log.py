"""The log of a `spark` connector, with what writes it, acks it and reads it."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from connectors.spark.consumers import Admission, Consumers
from connectors.spark.durable_end import DurableEnd
from connectors.spark.serve.ranges import LogRanges
from walflow import Inlet, Outlet
from walflow.delivery import Arriving, BacklogAge, Checkpoints, LogSink, Retention, Tags, measure, measure_writer
from walflow.wal import Commit, Log

LOOK: Final = 60.0  # seconds between looks for a consumer that holds the log
HELD: Final = 0.5  # of the budget: from here on it is said


class ServedLog(NamedTuple):
    """The part of the log that both ports use."""

    log: Log
    durable_end: DurableEnd
    consumers: Consumers


class SparkLog:
    """The log for one run. No block is taken from `inlet` before `begin`."""

    def __init__(
        self,
        log: Log,
        consumers: Sequence[str],
        admission: Admission | None,
        inlet: Inlet,
        out: Outlet,
        arriving: Arriving | None = None,
        retain_ns: int | None = None,
    ) -> None:
        self._log = log
        self._inlet = inlet
        self._checkpoints = Checkpoints(log, inlet.scheduler, inlet, lambda: self._writer.room())
        self._retention = Retention(log, inlet, self._checkpoints, retain_ns)
        known = Consumers(log, consumers, out, self._checkpoints.acked, admission)
        self.served = ServedLog(log, DurableEnd(log), known)
        if out.flow is not None:
            log.trail.runs(*out.flow, log.durable)
        self._look_seconds = LOOK if admission is None else min(LOOK, admission.seconds / 2)
        self.ranges = LogRanges(log, self.served.durable_end, out, self._checkpoints.acked)
        measured = measure(log, inlet, _Unread(log, inlet))

        def committed(commit: Commit) -> None:
            measured(commit)
            self.ranges.committed(commit)

        self._writer = LogSink(
            log,
            inlet,
            Tags(),
            self.served.durable_end.moved,
            self._checkpoints,
            committed,
            on_full=self._tell_full,
            arriving=arriving,
            retention=self._retention,
        )
        measure_writer(self._writer, inlet)

    def begin(self) -> None:
        self._inlet.serve(self._writer.accept)
        self._checkpoints.acked()
        self._look()

    async def end(self) -> None:
        """Starts no more work. Work that has started goes on."""
        self._writer.stop()
        self._retention.stop()
        self._checkpoints.stop()
        await self.ranges.close()
        await self.served.consumers.close()

    def _tell_full(self) -> None:
        self.served.consumers.tell(full=True)

    def _look(self) -> None:
        if self._log.fill >= HELD:
            self.served.consumers.tell(full=self._writer.is_full)
        self.served.consumers.forget_silent()
        self._inlet.scheduler.call_later(self._look_seconds, self._look)


class _Unread:
    """For the metrics. `out.backlog` is not told of it: a drain does not wait for Spark."""

    first_ingest_ns = 0

    def __init__(self, log: Log, inlet: Inlet) -> None:
        self._log = log
        self.ages = BacklogAge(log, inlet.scheduler.time)

    def backlog(self) -> int:
        log = self._log
        return sum(last - first + 1 for first, last in log.unacked(log.low + 1, log.durable))
