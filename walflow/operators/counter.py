from typing import ClassVar, Final

from walflow.codecs import JSON
from walflow.codecs.json import within_record
from walflow.event import Block, Frames, Node
from walflow.framing import LINES
from walflow.operators.operator import Operator, OperatorContext

BLOCK_BYTES: Final = 256 << 10
BLOCK_EVENTS: Final = 4096
NO_JSON: Final = "generic::counter writes JSON, and this event has no JSON form, or nests too deep"


class EventCounter(Operator):
    """Numbers events: each one becomes `{"count": N, "event": …}`. The first event since the start of walflow has
    number 1. An event that is sent again, after a failure or from a log, has another number then: for a number that
    stays, take `qos::stamp`."""

    example: ClassVar[str] = """\
define operator numbers from generic::counter;
create operator numbers;
select event from in into numbers;
select event from numbers into out;
"""

    def node(self, place: OperatorContext) -> Node:
        return _Counter(place)


class _Counter:
    def __init__(self, place: OperatorContext) -> None:
        self._to = place.exits["out"].to
        self._err = place.err
        self._count = 0

    def accept(self, block: Block) -> None:
        lines: list[bytes] = []
        passed: list[int] = []
        refused: list[int] = []
        for number, payload in enumerate(block.frames.payloads()):
            event = within_record(block.timed_codec, payload)
            if event is None:
                refused.append(number)
                continue
            self._count += 1
            passed.append(number)
            lines.append(b'{"count":%d,"event":%b}' % (self._count, event))
        if not refused:
            self._hand_on(block.with_frames(Frames(LINES.join(lines), len(lines), LINES), JSON))
            return
        block.receipt.fork(bool(passed))
        if passed:
            frames = Frames(LINES.join(lines), len(lines), LINES)
            self._hand_on(block.picked(passed, frames, JSON, block.receipt.pick(passed)))
        left = Frames(LINES.join([b""] * len(refused)), len(refused), LINES)
        reasons = [NO_JSON] * len(refused)
        self._err.take(block.picked(refused, left, JSON, block.receipt.pick(refused)), reasons)

    def _hand_on(self, block: Block) -> None:
        for part in block.split(block.frames.sizes(BLOCK_BYTES, BLOCK_EVENTS)):
            self._to.accept(part)
