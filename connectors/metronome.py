"""An event every `interval`, on a grid that does not drift."""

import asyncio
from typing import ClassVar

from pydantic import Field, PrivateAttr

from walflow import CodecUse, Connector, Guarantee, Inlet, Outlet, Ports, Timer, Traits
from walflow.world import wall_ns

NANOS = 1_000_000_000


class Metronome(Connector):
    """A source of one event every `interval`. It sends `{"connector": "metronome", "ingest_ns": …, "id": n}`, the
    first after one interval."""

    ports: ClassVar[Ports] = Ports(inputs=(), outputs=("out", "err"))
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN)

    interval: int = Field(gt=0, strict=True, description="Nanoseconds from one event to the next.")

    legacy: bool = Field(
        default=False,
        description='Makes events as tremor 0.11 does: `{"onramp": "metronome", "id": n, "ingest_ns": …}`.',
    )

    _next_id: int = PrivateAttr(default=0)  # outlives a run: ids count per process

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(
            source=(
                "an event is made only while the flow accepts events: a tick during a pause makes none. The ids "
                "count from 0 in each process and have no gaps. An event that a sink fails is not sent again"
            )
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        if not out.linked:
            return
        ticking = _Ticking(self, out)
        try:
            ticking.start()
            await asyncio.get_running_loop().create_future()  # until it is cancelled
        finally:
            ticking.stop()

    def event(self) -> dict[str, object]:
        number = self._next_id
        self._next_id += 1
        if self.legacy:
            return {"onramp": "metronome", "id": number, "ingest_ns": wall_ns()}
        return {"connector": "metronome", "ingest_ns": wall_ns(), "id": number}


class _Ticking:
    """One run. `_tick` numbers the points of the grid, of which those in a pause or a stall are passed over."""

    def __init__(self, metronome: Metronome, out: Outlet) -> None:
        self._metronome = metronome
        self._scheduler = out.scheduler
        self._interval = metronome.interval / NANOS
        self._begin = out.scheduler.time()
        self._tick = 0
        self._paused = False
        self._timer: Timer | None = None
        self._stream = out.stream({}, pause=self._pause, resume=self._resume)

    def start(self) -> None:
        if not self._paused:
            self._set_timer()

    def stop(self) -> None:
        self._cancel_timer()
        self._stream.close()

    def _set_timer(self) -> None:
        passed = int((self._scheduler.time() - self._begin) / self._interval)
        # a timer may go off a little early, so the number alone says which tick was last
        self._tick = max(self._tick, passed) + 1
        due = self._begin + self._tick * self._interval
        self._timer = self._scheduler.call_later(max(0.0, due - self._scheduler.time()), self._emit)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _emit(self) -> None:
        self._timer = None
        self._stream.emit([self._metronome.event()])  # may pause, and resume
        if not self._paused and self._timer is None:
            self._set_timer()

    def _pause(self) -> None:
        self._paused = True
        self._cancel_timer()

    def _resume(self) -> None:
        self._paused = False
        if self._timer is None:
            self._set_timer()
