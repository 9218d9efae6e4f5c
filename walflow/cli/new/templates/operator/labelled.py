"""A label for each event, in its metadata."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from walflow import Block, Families, Family, Node, Operator, OperatorContext


class Labelled(Operator):
    """Writes `label` into the metadata of each event, as `$label`."""

    example: ClassVar[str] = """\
define operator labelled from labelled with label = "web" end;
create operator labelled;
select event from in into labelled;
select {"event": event, "label": $label} from labelled into out;
"""
    families: ClassVar[Families] = {"labelled_events_total": Family("counter", "Events that got a label.")}
    whole: ClassVar[bool] = True  # it takes no event out of a block, so a log behind it knows the positions

    label: str = Field(min_length=1, description="The label.")

    def node(self, place: OperatorContext) -> Node:
        return Labels(self, place)


class Labels:
    """One of them in a running pipeline. A block's outcome comes back by its receipt,
    which goes on with its events."""

    def __init__(self, config: Labelled, place: OperatorContext) -> None:
        self._label = config.label
        self._to = place.exits["out"].to
        self._events = place.counter("labelled_events_total")

    def accept(self, block: Block) -> None:
        """It must not block or raise. What cannot go on leaves by `place.err`."""
        count = block.frames.count
        came: list[Mapping[str, object]] = [*block.event_metas] if block.event_metas else [{}] * count
        metas = [{**block.meta, **meta, "label": self._label} for meta in came]
        self._events.value += count
        self._to.accept(block.picked(range(count), block.frames, block.codec, block.receipt, metas))
