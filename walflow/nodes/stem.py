"""The stem of a log, with nodes of its own for each lane: links and selects that lead to the lane's entries, and
nothing else.

The entries are the nodes that every source shares. What leads to other lanes only is left out, and what leaves a
select for another lane ends here: that lane gets it from its own stem. What is counted, logged or shown on the way is
so for the lane that comes first (walflow.nodes.passed), and it alone evaluates the selects (walflow.nodes.once).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from walflow.contract import Counter
from walflow.event import Block, Node
from walflow.metrics import CountedValue
from walflow.nodes.fanout import joined
from walflow.nodes.once import Evaluations, once
from walflow.nodes.passed import FirstTime, Passed
from walflow.nodes.ports import PortName, WatchedPorts
from walflow.nodes.rejects import ErrPort, UncountedErr
from walflow.operators.select import Select
from walflow.plan import NodeId, PipelinePlan
from walflow.plan.graph import Port
from walflow.plan.regions import is_plain


class _Elsewhere:
    """Behind it are other lanes only."""

    def accept(self, block: Block) -> None:
        block.receipt.ack()


ELSEWHERE: Final = _Elsewhere()


@dataclass(frozen=True)
class StemParts:
    """What all stems of a flow share. `entry`: the node of an entry. `err`: the err port of a pipeline that is not
    linked; `make_err`: one with this target. `watched`: whether a port can be named. `meet`: whether
    an event may come to one node by two of these ports."""

    links: Mapping[Port, Sequence[Port]]
    pipelines: Mapping[NodeId, PipelinePlan]
    ports: WatchedPorts
    entry: Callable[[Port], Node]
    dead_end: Callable[[Port], Node]
    err: Callable[[PipelinePlan, str], ErrPort]
    make_err: Callable[[PipelinePlan, Node], ErrPort]
    filtered: Callable[[PipelinePlan], Counter]
    watched: Callable[[Port], bool]
    meet: Callable[[Sequence[Port]], bool]
    passed: dict[Port, Passed] = field(default_factory=lambda: defaultdict(Passed))
    evaluations: dict[Port, Evaluations] = field(default_factory=dict[Port, Evaluations])


class LaneStem:
    """Of the lane with these entries. `others`: the entries of the other lanes."""

    def __init__(self, parts: StemParts, entries: frozenset[Port], others: frozenset[Port]) -> None:
        self._parts = parts
        self._entries = entries
        self._others = others
        self._made: dict[Port, Node | None] = {}

    def behind(self, port: Port) -> Node:
        """The node that takes the blocks that leave the log by its port."""
        return self._behind(port) or ELSEWHERE

    def _behind(self, port: Port) -> Node | None:
        targets = self._parts.links.get(port, ())
        if not targets:
            return FirstTime(self._parts.passed[port], self._parts.dead_end(port), ELSEWHERE)
        return self._shown(port, self._all(targets))

    def _all(self, targets: Sequence[Port]) -> Node | None:
        nodes = [node for node in map(self._at, targets) if node is not None]
        return joined(nodes, meet=self._parts.meet(targets)) if nodes else None

    def _at(self, port: Port) -> Node | None:
        """The node at an input or a place; None: only other lanes are behind it."""
        if port not in self._made:
            self._made[port] = self._make(port)
        return self._made[port]

    def _make(self, port: Port) -> Node | None:
        if port in self._entries:
            return self._parts.entry(port)
        if port in self._others:
            return None
        plan = self._parts.pipelines[port.node]
        if port.name not in plan.places:
            return self._behind(port)
        selects = plan.selects_from(port.name)
        if not selects:
            return FirstTime(self._parts.passed[port], self._parts.dead_end(port), ELSEWHERE)
        if is_plain(plan, selects):
            node = self._all([Port(plan.id, select.target) for select in selects])
        else:
            node = self._region(plan, port)
        return self._shown(port, node) if port.name in plan.inputs else node

    def _region(self, plan: PipelinePlan, entry: Port) -> Node | None:
        parts = self._parts
        compiled = plan.regions.compiled(entry.name)
        exits = {exit: self._at(Port(plan.id, exit)) for exit in compiled.exits}
        rejects = Port(plan.id, plan.err_port(entry.name))
        rejected = self._at(rejects) if parts.links.get(rejects) else None
        if rejected is None and all(node is None for node in exits.values()):
            return None
        err = (
            parts.make_err(plan, rejected or ELSEWHERE) if parts.links.get(rejects) else parts.err(plan, rejects.name)
        )
        nodes = {exit: node or ELSEWHERE for exit, node in exits.items()}
        first = Select(compiled, nodes, err, parts.filtered(plan))
        again = Select(compiled, nodes, UncountedErr(err), CountedValue())
        if entry not in parts.evaluations:
            parts.evaluations[entry] = Evaluations(draws=compiled.draws)
        return once(parts.passed[entry], parts.evaluations[entry], first, again)

    def _shown(self, port: Port, node: Node | None) -> Node | None:
        """It can be watched: each event once, as the first lane sends it."""
        parts = self._parts
        if node is None or not parts.watched(port):
            return node
        shown = parts.passed[Port(port.node, f"{port.name} shown")]
        return parts.ports.copy(PortName(*port), node, shown)
