"""Rate limits by class, over a time that slides on with the events.

Whether an event passes depends on those before it. So the same event, sent again, may leave by the other port, and
upstream hears of this operator's own name alone (`walflow.operators.turnout`).
"""

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple

from walflow.contract import Ports, Scheduler
from walflow.errors import WalflowError
from walflow.event import Block, Node
from walflow.families import Families
from walflow.operators.operator import OVERFLOW, Operator, OperatorContext
from walflow.operators.turnout import Part, refused_part, turn_out
from walflow_kernel import json
from walflow_kernel.errors import NotJson
from walflow_kernel.values import kind_of

MS: Final = 1_000_000
MOST_CLASSES: Final = 1000
TIME_RANGE: Final = 1000  # milliseconds
WINDOWS: Final = 100
CARDINALITY: Final = 1000


class Bucket(Operator):
    """Limits events by class. The metadata of an event says which: `$class`, a string, and `$rate`, how many events
    pass in `$time_range` milliseconds (1,000 if it is absent). `$dimensions`, any value, divides a class: each value
    has the rate for itself, and the `$cardinality` (1,000) values that came last are remembered. The time is that at
    which events were received. It slides on in `$windows` (100) steps. What is beyond the rate leaves by `overflow`.
    An event without `$class` or `$rate` is rejected. At most 1,000 classes are remembered."""

    example: ClassVar[str] = """\
define script classify
script
  let $class = "tenant";
  let $dimensions = event.tenant;
  let $rate = 500;
  event
end;
create script classify;
define operator limit from grouper::bucket;
create operator limit;
select event from in into classify;
select event from classify into limit;
select event from limit into out;
select {"too_many": event} from limit/overflow into out/ws1;
"""
    families: ClassVar[Families] = OVERFLOW

    ports: ClassVar[Ports] = Ports(("in",), ("out", "overflow"))

    def node(self, place: OperatorContext) -> Node:
        return _Bucket(place)


class NoClass(WalflowError):
    """The metadata of an event does not say what its limit is."""


class _Limit(NamedTuple):
    rate: int
    step_ns: int
    windows: int


class _Passed:
    """Events that passed within the time range: `steps` has a step's number and how many passed in it."""

    __slots__ = ("_limit", "_steps", "_total")

    def __init__(self, limit: _Limit) -> None:
        self._limit = limit
        self._steps: deque[list[int]] = deque()
        self._total = 0

    def take(self, now_ns: int) -> bool:
        """Whether one more may pass."""
        limit, steps = self._limit, self._steps
        step = now_ns // limit.step_ns
        while steps and steps[0][0] <= step - limit.windows:
            self._total -= steps.popleft()[1]
        if self._total >= limit.rate:
            return False
        if steps and steps[-1][0] >= step:  # time that goes back counts into the last step
            steps[-1][1] += 1
        else:
            steps.append([step, 1])
        self._total += 1
        return True


class _Class:
    """The values of `$dimensions`, that which came last at the end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[bytes, _Passed] = OrderedDict()

    def of(self, dimensions: object, meta: Mapping[str, object]) -> _Passed:
        try:
            key = json.sorted_text(dimensions)
        except NotJson as why:
            raise NoClass(f"grouper::bucket: `$dimensions`: {why}") from None
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Passed(_limit(meta))
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return known


WAYS: Final = (" :out", " :overflow")


class _Bucket:
    def __init__(self, place: OperatorContext) -> None:
        self._name = place.name
        self._out = place.exits["out"].to
        self._overflow = place.exits["overflow"].to
        self._err = place.err
        self._classes: OrderedDict[str, _Class] = OrderedDict()
        self._overflowed = place.counter("overflow_events_total")

    def accept(self, block: Block) -> None:
        for part in block.lacked_by(self._name):
            for again, way in part.begun(WAYS):
                if way is None:
                    self._judge(again)
                else:
                    to = (self._out, self._overflow)[way]
                    turn_out(again, [Part(to, WAYS[way], range(again.frames.count))], self._name)

    def _judge(self, block: Block) -> None:
        passed: list[int] = []
        beyond: list[int] = []
        refused: list[int] = []
        reasons: list[str] = []
        for number in range(block.frames.count):
            meta = block.event_meta(number)
            try:
                (passed if self._of(meta).take(block.ingest_ns) else beyond).append(number)
            except NoClass as why:
                refused.append(number)
                reasons.append(str(why))
        self._overflowed.value += len(beyond)
        parts = [Part(self._out, WAYS[0], passed), Part(self._overflow, WAYS[1], beyond)]
        rest = refused_part(self._err, refused, reasons)
        turn_out(block, [part for part in (*parts, rest) if part.numbers], self._name)

    def _of(self, meta: Mapping[str, object]) -> _Passed:
        name = meta.get("class")
        if not isinstance(name, str):
            raise NoClass(f"grouper::bucket: `$class` is {_said(name)}, not a string")
        known = self._classes.get(name)
        if known is None:
            _limit(meta)  # what has none is not remembered
            known = self._classes[name] = _Class(_whole(meta, "cardinality", CARDINALITY))
            if len(self._classes) > MOST_CLASSES:
                self._classes.popitem(last=False)
        else:
            self._classes.move_to_end(name)
        return known.of(meta.get("dimensions"), meta)

    # walflow.operators.Running

    def begin(self, scheduler: Scheduler) -> None: ...

    def drain(self) -> None: ...

    def end(self) -> None: ...


def _limit(meta: Mapping[str, object]) -> _Limit:
    if "rate" not in meta:
        raise NoClass("grouper::bucket: `$rate` is absent")
    rate, range_ms = _whole(meta, "rate", 0, least=0), _whole(meta, "time_range", TIME_RANGE)
    windows = min(_whole(meta, "windows", WINDOWS), range_ms * MS)
    return _Limit(rate, range_ms * MS // windows, windows)


def _whole(meta: Mapping[str, object], name: str, default: int, least: int = 1) -> int:
    value = meta.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise NoClass(f"grouper::bucket: `${name}` is {_said(value)}, not a whole number from {least} on")
    return value


def _said(value: object) -> str:
    return "absent" if value is None else str(value) if type(value) is int else kind_of(value)
