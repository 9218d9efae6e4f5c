"""walflow's own metrics as events, in the form that the codec `influx` writes."""

import asyncio
from typing import ClassVar, Final

from pydantic import Field

from walflow import CodecUse, Connector, Guarantee, Inlet, MetricValue, Outlet, Ports, Timer, Traits
from walflow.world import wall_ns

NANOS: Final = 1_000_000_000


class MetricEvents(Connector):
    """A source of walflow's own metrics: an event for each counter and each gauge, every `interval`. The shape is
    tremor's, which is that of the codec `influx`: `measurement`, `tags`, `fields` and `timestamp`."""

    ports: ClassVar[Ports] = Ports(inputs=(), outputs=("out", "err"))
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN)

    interval: int = Field(
        default=10 * NANOS,
        ge=NANOS // 10,
        strict=True,
        description="Nanoseconds from one round of events to the next.",
    )
    prefix: str = Field(
        default="", description="Only metrics whose name begins with this, for example `walflow_wal_`."
    )

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(
            source="counters and gauges of the daemon are sent every interval, while the flow accepts events: what a "
            "pause leaves out is not sent later. An event that a sink fails is not sent again, "
            "and the next one has the newer value"
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        if not out.linked:
            return
        rounds = MetricRounds(self, out)
        try:
            rounds.start()
            await asyncio.get_running_loop().create_future()  # until it is cancelled
        finally:
            rounds.stop()


class MetricRounds:
    """One run of the connector `metrics`."""

    def __init__(self, config: MetricEvents, out: Outlet) -> None:
        self._config = config
        self._out = out
        self._paused = False
        self._timer: Timer | None = None
        self._stream = out.stream({}, pause=self._pause, resume=self._resume)

    def __repr__(self) -> str:
        return f"<MetricRounds of {self._out.name}>"

    def start(self) -> None:
        self._timer = self._out.scheduler.call_later(self._config.interval / NANOS, self._emit)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._stream.close()

    def _emit(self) -> None:
        self.start()
        if self._paused:
            return
        now = wall_ns()
        prefix = self._config.prefix
        events = [event_of(one, now) for one in self._out.metrics() if one.name.startswith(prefix)]
        if events:
            self._stream.emit(events)

    def _pause(self) -> None:
        self._paused = True

    def _resume(self) -> None:
        self._paused = False


def event_of(metric: MetricValue, now: int) -> dict[str, object]:
    """tremor's measurements count events in `count`; here the field is `value`."""
    return {
        "measurement": metric.name,
        "tags": dict(metric.labels),
        "fields": {"value": metric.value},
        "timestamp": now,
    }
