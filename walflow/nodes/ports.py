"""The ports of connectors and pipelines, which can be watched while the flow runs.

Without a watcher, `accept` of a port is that of the node behind it: the port is not called. With watchers, a block
costs one call for each of them. A watcher only looks: it never has the receipt, and it cannot refuse.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from walflow.event import Block, Node
from walflow.nodes.passed import Passed
from walflow.plan import NodeId

LAST_REJECTIONS: Final = 20


class PortName(NamedTuple):
    node: NodeId
    port: str

    def __str__(self) -> str:
        """As it is typed: FLOW/NODE/PORT."""
        return f"{self.node.flow}/{self.node.name}/{self.port}"


class PortWatcher(Protocol):
    """It must be quick and must not raise. It must not keep the block, because the block has the receipt."""

    def see(self, port: PortName, block: Block) -> None: ...


class Accept(Protocol):
    def __call__(self, block: Block) -> None: ...


class WatchedPort:
    """Events leave a node, or come to a node, by this port. `to` is None for an err port that is not linked."""

    __slots__ = ("_to", "accept", "name", "watchers")

    def __init__(self, name: PortName, to: Node | None) -> None:
        self.name = name
        self.watchers: tuple[PortWatcher, ...] = ()
        self._to = to
        self.accept: Accept = self.show if to is None else to.accept

    def __repr__(self) -> str:
        return f"<WatchedPort {self.name}, {len(self.watchers)} watchers>"

    def wire(self) -> None:
        """Must be called after a change of the watchers of this port, or of a port behind it."""
        if self._to is not None:
            self.accept = self._accept_watched if self.watchers else self._to.accept

    def show(self, block: Block) -> None:
        for watcher in self.watchers:
            watcher.see(self.name, block)

    def _accept_watched(self, block: Block) -> None:
        self.show(block)
        assert self._to is not None
        self._to.accept(block)


class LanePort(WatchedPort):
    """One of the ports of a name, of which each lane has one.
    Its watchers see an event once, as the first lane sends it."""

    __slots__ = ("_passed",)

    def __init__(self, name: PortName, to: Node, passed: Passed) -> None:
        super().__init__(name, to)
        self._passed = passed

    def show(self, block: Block) -> None:
        if self._passed.first(block):
            super().show(block)


class Rejection(NamedTuple):
    """The first event of a block that was rejected for a reason, and how many were for the same.
    `at`: the place in a flow file that failed.
    `ingest_ns`: when the event came in."""

    node: str
    reason: str
    at: str | None
    events: int
    position: int | None
    ingest_ns: int


class WatchedPorts:
    """All ports of a daemon, in the order in which they were made: a port comes after the ports behind it.
    `rejections`: the last ones."""

    def __init__(self) -> None:
        self._ports: dict[PortName, WatchedPort] = {}
        self._copies: list[WatchedPort] = []
        self.rejections: deque[Rejection] = deque(maxlen=LAST_REJECTIONS)

    @property
    def names(self) -> Sequence[PortName]:
        return sorted({port.name for port in self._all()}, key=str)

    def add(self, name: PortName, to: Node | None) -> WatchedPort:
        """The port of this name. `to` counts only the first time."""
        if name not in self._ports:
            self._ports[name] = WatchedPort(name, to)
        return self._ports[name]

    def copy(self, name: PortName, to: Node, passed: Passed) -> WatchedPort:
        """One more port of this name, for a lane. A port that is not a copy never leads to one. `passed`: what all
        lanes have shown."""
        self._copies.append(LanePort(name, to, passed))
        return self._copies[-1]

    def get(self, name: PortName) -> WatchedPort | None:
        return self._ports.get(name)

    def within(self, place: str) -> list[PortName]:
        """The ports of a flow, of a node (FLOW/NODE) or one port (FLOW/NODE/PORT)."""
        return [name for name in self.names if str(name) == place or str(name).startswith(f"{place}/")]

    def watch(self, watcher: PortWatcher, names: Iterable[PortName]) -> None:
        wanted = set(names)
        for port in self._all():
            if port.name in wanted:
                port.watchers += (watcher,)
        self._wire()

    def unwatch(self, watcher: PortWatcher) -> None:
        for port in self._all():
            port.watchers = tuple(one for one in port.watchers if one is not watcher)
        self._wire()

    def _wire(self) -> None:
        for port in self._all():
            port.wire()

    def _all(self) -> list[WatchedPort]:
        return [*self._ports.values(), *self._copies]


class PortCounts:
    """Counts the events that pass each port."""

    def __init__(self) -> None:
        self._events: dict[PortName, int] = {}

    def see(self, port: PortName, block: Block) -> None:
        self._events[port] = self._events.get(port, 0) + block.frames.count

    @property
    def events(self) -> Mapping[PortName, int]:
        return self._events
