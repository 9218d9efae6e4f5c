"""In front of the log of a pipeline on Spark that has several inputs: to which of them each event comes."""

from typing import ClassVar

from walflow.event import Block, Node
from walflow.operators.operator import Operator, OperatorContext
from walflow_kernel.shipped import INPUT_META


class ToSpark(Operator):
    """It has no name in flow files: `walflow.plan.on_spark` puts one behind each input. The input's name goes through
    the log in the metadata; `pyspark_walflow.inputs` takes it out of there."""

    example: ClassVar[str] = ""
    whole: ClassVar[bool] = True

    input: str

    def node(self, place: OperatorContext) -> Node:
        return _Marked(place.exits["out"].to, self.input)


class _Marked:
    def __init__(self, to: Node, port: str) -> None:
        self._to = to
        self._port = port

    def accept(self, block: Block) -> None:
        marked = block.with_frames(block.frames, block.codec)
        marked.meta = {**block.meta, INPUT_META: self._port}
        self._to.accept(marked)
