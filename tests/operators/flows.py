"""Whole flows around one pipeline, built as the daemon builds them and driven without a loop."""

from collections.abc import Sequence

from connectors.memory import Memory
from tests.flows.builder import NULL, TICKS, flow_of, pipeline
from tests.lang.world import REGISTRY, assembled
from tests.nodes.world import World
from walflow import Block
from walflow.contract import Connector
from walflow.errors import WalflowError
from walflow.nodes.build import Nodes, build
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.source import RunOutlet

KNOWN: dict[str, type[Connector]] = {**REGISTRY, "memory": Memory}
LOST = WalflowError("gone")


def around(body: str, outputs: Sequence[str]) -> str:
    """A flow of one pipeline `p`, and a connector `to_NAME` for each of its outputs."""
    p = pipeline(f"into {', '.join(outputs)} pipeline {body}")
    ways = ("ticks -> p", *(f"p/{name} -> to_{name}" for name in outputs))
    return flow_of(*ways, ticks=TICKS, p=p, **{f"to_{name}": NULL for name in outputs})


class Sink:
    """What came, until the test says what becomes of it."""

    def __init__(self, nodes: ConnectorNodes, world: World) -> None:
        self.node = nodes.sink
        self.waiting: list[Block] = []
        self.got: list[object] = []
        self._world = world
        self._nodes = nodes

    def start(self) -> None:
        assert self.node.linked
        self.node.begin(self._world.context(self._nodes.name))
        self.node.serve(self._take)

    def _take(self, block: Block) -> None:
        self.waiting.append(block)
        self.got += block.values

    def ack(self) -> None:
        while self.waiting:
            self.node.ack(self.waiting.pop(0))

    def fail(self, done: int = 0) -> None:
        waiting, self.waiting = self.waiting, []
        for block in waiting:
            self.node.fail(block, LOST, done)


class Running:
    """`sinks` have the names of the pipeline's outputs, in their order."""

    def __init__(self, body: str, outputs: Sequence[str] = ("out",), *, started: bool = True) -> None:
        self.world = World()
        text = around(body, outputs)
        self.nodes: Nodes = build(assembled(text, registry=KNOWN), self.world.metrics)
        by_name = {nodes.plan.id.name: nodes for nodes in self.nodes.connectors}
        for operator in self.nodes.operators:
            operator.node.begin(self.world.scheduler)
        self.source = by_name["ticks"].source
        self.outlet: RunOutlet = self.source.begin(self.world.context("main::ticks"))
        self.sinks = [Sink(by_name[f"to_{name}"], self.world) for name in outputs]
        self._stream = self.outlet.stream({})
        if started:
            for sink in self.sinks:
                sink.start()

    def give(self, *values: object) -> None:
        """One block."""
        self._stream.emit(values)

    @property
    def got(self) -> list[list[object]]:
        return [sink.got for sink in self.sinks]

    def end(self) -> None:
        """As the daemon ends: the runs, what waits for another run, the operators."""
        for sink in self.sinks:
            sink.node.end("stopped")
        for sink in self.sinks:
            sink.fail()
        for nodes in self.nodes.connectors:
            nodes.sink.abandon()
        for operator in self.nodes.operators:
            operator.node.end()
