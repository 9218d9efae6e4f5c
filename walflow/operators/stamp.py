from typing import ClassVar, Final, cast

from pydantic import Field

from walflow.codecs import JSON
from walflow.errors import CannotDecode, CannotEncode
from walflow.event import Block, Frames, Node
from walflow.framing import LINES
from walflow.operators.operator import Operator, OperatorContext

BLOCK_BYTES: Final = 256 << 10
BLOCK_EVENTS: Final = 4096

NO_POSITION: Final = (
    "its position in a log is not known: put qos::stamp behind a log on disk, before any `where` and qos::dedupe"
)


class Stamp(Operator):
    """Writes the event's position in its log into the event: `{"log": "<uuid>", "position": 17}`. The value is the
    same each time the event is sent, so a receiver can recognise a repeat: `qos::dedupe` in the next walflow, or a
    table with this key. Events are written as lines of JSON. An event that is no record, or whose position is not
    known, is rejected."""

    example: ClassVar[str] = """\
define operator stamp from qos::stamp;
create operator stamp;
select event from in into stamp;
select event from stamp into out;
"""

    needs_log: ClassVar[bool] = True

    field: str = Field(
        default="origin", min_length=1, description="The field that is written. An older value of it is replaced."
    )

    def node(self, place: OperatorContext) -> Node:
        return _Stamp(self.field, place)


class _Stamp:
    def __init__(self, field: str, place: OperatorContext) -> None:
        self._field = field
        self._to = place.exits["out"].to
        self._err = place.err

    def accept(self, block: Block) -> None:
        origin, positions = block.origin, block.positions
        if origin is None or positions is None:
            self._err.take(block, [NO_POSITION] * block.frames.count)
            return
        payloads: list[bytes] = []
        reasons: dict[int, str] = {}
        for number, (position, payload) in enumerate(zip(positions, block.frames.payloads(), strict=True)):
            try:
                payloads.append(self._stamped(block, payload, position, origin.log))
            except (CannotDecode, CannotEncode) as error:
                reasons[number] = str(error)
        if not payloads:
            self._err.take(block, [*reasons.values()])
        elif not reasons:
            self._hand_on(block.with_frames(_lines(payloads), JSON))
        else:
            block.receipt.fork(1)
            lost, kept = [*reasons], [number for number in range(block.frames.count) if number not in reasons]
            refused = block.picked(lost, _lines([b""] * len(lost)), JSON, block.receipt.pick(lost))
            self._hand_on(block.picked(kept, _lines(payloads), JSON, block.receipt.pick(kept)))
            self._err.take(refused, [*reasons.values()])

    def _stamped(self, block: Block, payload: bytes, position: int, log: str) -> bytes:
        value = block.timed_codec.decode(payload)
        if not isinstance(value, dict):
            raise CannotEncode("qos::stamp writes into records, and this event is none")
        record = cast("dict[object, object]", value)
        return JSON.encode({**record, self._field: {"log": log, "position": position}})

    def _hand_on(self, block: Block) -> None:
        for part in block.split(block.frames.sizes(BLOCK_BYTES, BLOCK_EVENTS)):
            self._to.accept(part)


def _lines(payloads: list[bytes]) -> Frames:
    return Frames(LINES.join(payloads), len(payloads), LINES)
