from collections.abc import Mapping
from typing import ClassVar, cast

from pydantic import Field

from walflow.event import Block, Node
from walflow.operators.operator import Operator, OperatorContext


class History(Operator):
    """Writes into the metadata of each event that it has passed here: `$NAME` is an array, and gets a string such as
    `evt: OP(main::requests:1:17)`. In the brackets are the connector that the event came from, the number of its
    stream, and its position, if it came from a log. For debugging: it costs time for each event."""

    example: ClassVar[str] = """\
define operator here from debug::history with op = "before", name = "way" end;
create operator here;
select event from in into here;
select {"event": event, "way": $way} from here into out;
"""

    whole: ClassVar[bool] = True

    op: str = Field(description="What the place is called.")
    name: str = Field(min_length=1, description="The field of the metadata. A value that is no array is replaced.")

    def node(self, place: OperatorContext) -> Node:
        return _History(self, place)


class _History:
    def __init__(self, config: History, place: OperatorContext) -> None:
        self._op = config.op
        self._name = config.name
        self._to = place.exits["out"].to

    def accept(self, block: Block) -> None:
        count = block.frames.count
        came = block.event_metas or [cast("Mapping[str, object]", {})] * count
        of = f"{block.stream.connector}:{block.stream.number}"
        positions = block.positions
        places = [of] * count if positions is None else [f"{of}:{position}" for position in positions]
        metas = [self._noted({**block.meta, **meta}, place) for meta, place in zip(came, places, strict=True)]
        self._to.accept(block.picked(range(count), block.frames, block.codec, block.receipt, metas))

    def _noted(self, meta: dict[str, object], place: str) -> dict[str, object]:
        before = meta.get(self._name)
        noted = cast("list[object]", before) if isinstance(before, list) else []
        meta[self._name] = [*noted, f"evt: {self._op}({place})"]
        return meta
