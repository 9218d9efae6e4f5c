from typing import ClassVar

from pydantic import Field

from walflow.contract import Ports
from walflow.event import Node
from walflow.families import Families, Family
from walflow.operators.operator import HELD, OVERFLOW, Operator, OperatorContext
from walflow.operators.shed import ShedNode


class QosPercentile(Operator):
    """Passes a share of the events, and sends the others to `overflow`. At first all events pass. The share gets
    smaller with each block that a sink behind `out` fails, or acks later than `timeout`, and when such a sink becomes
    unavailable. It grows with each block that is acked in time. It is never less than `step_up`, so that there is
    something to observe. While a sink behind `out` is unavailable, all events go to `overflow`."""

    example: ClassVar[str] = """\
define operator share from qos::percentile with timeout = 100000000 end;
create operator share;
select event from in into share;
select event from share into out;
select {"left_out": event} from share/overflow into out/ws1;
"""
    families: ClassVar[Families] = {
        "passed_share": Family("gauge", "The share of events that qos::percentile passes, 0 to 1."),
        **HELD,
        **OVERFLOW,
    }

    chooses: ClassVar[bool] = True
    whole: ClassVar[bool] = True
    ports: ClassVar[Ports] = Ports(("in",), ("out", "overflow"))

    timeout: int = Field(ge=1, description="Nanoseconds after which an ack is late.")
    step_down: float = Field(default=0.05, gt=0, le=1, description="By how much the share gets smaller.")
    step_up: float = Field(default=0.001, gt=0, le=1, description="By how much it grows.")

    def choice(self, source: str, sinks: str, operator: str) -> str:
        return (
            f"{source} sends to {sinks}, by {operator}: what a sink behind `out` fails or acks late makes the "
            "share that it gets smaller"
        )

    def node(self, place: OperatorContext) -> Node:
        judge = _Share(self.step_down, self.step_up)
        place.gauge("passed_share", lambda: judge.share)
        return ShedNode(place, judge, self.timeout)


class _Share:
    waits = False

    def __init__(self, down: float, up: float) -> None:
        self.share = 1.0
        self._down = down
        self._up = up
        self._owed = 0.0  # of an event, from the blocks before

    def __repr__(self) -> str:
        return f"{self.share:.1%} pass"

    def passes(self, events: int) -> int:
        exact = self.share * events + self._owed
        whole = min(events, int(exact + 1e-9))
        self._owed = exact - whole
        return whole

    def observed(self, *, good: bool) -> None:
        self.share = min(1.0, self.share + self._up) if good else max(self._up, self.share - self._down)
