from typing import ClassVar, Final, Literal

from pydantic import Field

from walflow.contract import Ports, Scheduler, Timer
from walflow.event import Node
from walflow.families import Families, Family
from walflow.operators.operator import HELD, OVERFLOW, Operator, OperatorContext
from walflow.operators.shed import ShedNode

MS: Final = 0.001
STEPS: Final = [50, 100, 250, 500, 1000, 5000, 10000]


class QosBackpressure(Operator):
    """Backs off from a sink that is slow. After a block that a sink behind `out` fails, or acks later than `timeout`,
    no event passes for the first of the `steps`. After the next such block it is the second step, and so on; a
    block that is acked in time ends this. Meanwhile events go to `overflow`, or, with `method = "pause"`, the sources
    wait. While a sink behind `out` is unavailable, all events do so."""

    example: ClassVar[str] = """\
define operator limit from qos::backpressure with timeout = 100000000 end;
create operator limit;
select event from in into limit;
select event from limit into out;
select {"left_out": event} from limit/overflow into out/ws1;
"""
    families: ClassVar[Families] = {
        "backoff_seconds": Family(
            "gauge", "For how long qos::backpressure passes no event, from its last slow ack on. 0: all pass."
        ),
        **HELD,
        **OVERFLOW,
    }

    chooses: ClassVar[bool] = True
    whole: ClassVar[bool] = True
    ports: ClassVar[Ports] = Ports(("in",), ("out", "overflow"))

    timeout: int = Field(ge=1, description="Nanoseconds after which an ack is late.")
    steps: list[int] = Field(
        default_factory=lambda: [*STEPS],
        min_length=1,
        description="Milliseconds for which no event passes. Default: 50, 100, 250, 500, 1000, 5000, 10000.",
    )
    method: Literal["discard", "pause"] = Field(
        default="discard", description="Where events go meanwhile: to `overflow`, or they stay in their sources."
    )

    def choice(self, source: str, sinks: str, operator: str) -> str:
        if self.method == "pause":
            return (
                f"{source} sends to {sinks}, by {operator}: while a sink behind `out` is slow or unavailable, "
                f"{source} waits"
            )
        return (
            f"{source} sends to {sinks}, by {operator}: while a sink behind `out` is slow or unavailable, "
            "events leave by `overflow`"
        )

    def node(self, place: OperatorContext) -> Node:
        backoff = _Backoff(self)
        place.gauge("backoff_seconds", lambda: backoff.seconds)
        backoff.node = _BackpressureNode(place, backoff, self.timeout)
        return backoff.node


class _BackpressureNode(ShedNode):
    def __init__(self, place: OperatorContext, backoff: "_Backoff", timeout_ns: int) -> None:
        super().__init__(place, backoff, timeout_ns)
        self._backoff = backoff

    def begin(self, scheduler: Scheduler) -> None:
        super().begin(scheduler)
        self._backoff.scheduler = scheduler

    def end(self) -> None:
        self._backoff.scheduler = None
        self._backoff.stop()
        super().end()


class _Backoff:
    """`level`: the number of the step that holds now or held last, 0 for none."""

    def __init__(self, config: QosBackpressure) -> None:
        self.waits = config.method == "pause"
        self.node: ShedNode | None = None
        self.scheduler: Scheduler | None = None
        self._steps = [step * MS for step in config.steps]
        self._level = 0
        self._timer: Timer | None = None

    def __repr__(self) -> str:
        return f"backs off for {self.seconds} s" if self._timer is not None else "all pass"

    @property
    def seconds(self) -> float:
        """The step that holds now."""
        return self._steps[self._level - 1] if self._timer is not None else 0.0

    def passes(self, events: int) -> int:
        return 0 if self._timer is not None else events

    def observed(self, *, good: bool) -> None:
        if good:
            self._level = 0
            self._over()
            return
        self._level = min(self._level + 1, len(self._steps))
        self.stop()
        if self.scheduler is not None:
            self._timer = self.scheduler.call_later(self._steps[self._level - 1], self._over)
            if self.waits and self.node is not None:
                self.node.stop("backoff", f"a sink behind `out` is slow: {self.seconds} s of back-off")

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        self.stop()
        if self.waits and self.node is not None:
            self.node.go("backoff")
