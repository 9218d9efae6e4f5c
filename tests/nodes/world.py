"""Nodes without a loop: a virtual scheduler, and counters to look at."""

import asyncio
from typing import NoReturn

import structlog

from walflow import Block, Codec, Framing
from walflow.codecs import JSON
from walflow.errors import WalflowError
from walflow.event import Cutting, Node
from walflow.framing import LINES, Incoming, Outgoing
from walflow.metrics import CountedValue, Metrics
from walflow.nodes.fanout import DeadEnd
from walflow.nodes.rejects import ErrPort
from walflow.nodes.run_context import RunContext
from walflow.nodes.sink import SinkNode
from walflow.nodes.source import RunOutlet, SourceNode
from walflow.testing import Fatal, VirtualScheduler


class World:
    def __init__(self) -> None:
        self.scheduler = VirtualScheduler()
        self.metrics = Metrics()

    def context(self, component: str) -> RunContext:
        def counter(name: str, **labels: str) -> CountedValue:
            return self.metrics.counter(name, component=component, **labels)

        return RunContext(
            self.scheduler, structlog.get_logger(), counter, fatal, asyncio.Event, gauge=self.metrics.gauge
        )

    def err(self, name: str, target: Node | None = None) -> ErrPort:
        return ErrPort(
            name, target, self.metrics.counter("rejected_events_total", component=name), structlog.get_logger()
        )

    def source(
        self, out: Node, err: Node | None = None, *, codec: Codec = JSON, framing: Cutting | Incoming = LINES
    ) -> RunOutlet:
        return SourceNode("f::source", out, self.err("f::source", err), codec, framing).begin(
            self.context("f::source")
        )

    def sink(
        self,
        codec: Codec | None = JSON,
        framing: Framing | Outgoing | None = LINES,
        *,
        name: str = "f::sink",
        err: Node | None = None,
    ) -> SinkNode:
        sink = SinkNode(name, self.err(name, err), codec, framing)
        sink.begin(self.context(name))
        return sink

    def dead_end(self) -> DeadEnd:
        return DeadEnd(self.metrics.counter("dropped_events_total"))

    def count(self, name: str) -> int:
        return sum(sample.value for sample in self.metrics if sample.name == name)


class Taker:
    """Takes blocks and keeps them, or acks them at once."""

    def __init__(self, name: str = "f::taker", *, ack: bool = False) -> None:
        self.name = name
        self.blocks: list[Block] = []
        self._ack = ack

    @property
    def data(self) -> list[bytes]:
        return [block.frames.data for block in self.blocks]

    def accept(self, block: Block) -> None:
        self.blocks.append(block)
        if self._ack:
            block.receipt.ack(self.name)

    def ack_all(self) -> None:
        for block in self.blocks:
            block.receipt.ack(self.name)


def fatal(error: WalflowError) -> NoReturn:
    raise Fatal(str(error))
