"""The page at the admin address, and the document that it asks for every second."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

import msgspec
from aiohttp import web

from walflow.admin.document import Status
from walflow.admin.guard import Guard
from walflow.admin.observed import Observed
from walflow.admin.rates import Rates
from walflow.admin.taps import Taps
from walflow.admin.view import status
from walflow.plan import Assembly, NodeId
from walflow.plan.layout import places
from walflow.runtime.daemon import Daemon

TYPES: Final = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
SAFE: Final = {
    # nothing from elsewhere, nothing in line, in no frame of another site
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


class NodePlace(msgspec.Struct):
    flow: str
    name: str
    kind: str
    column: int
    row: int


class LinkRate(msgspec.Struct):
    """Events per second. `source` and `target` are the numbers of nodes."""

    source: int
    target: int
    port: str
    rate: float | None


class RejectionShown(msgspec.Struct):
    """`reason` is empty if the daemon shows no events, because it may quote one."""

    node: str
    reason: str
    at: str | None
    events: int
    position: int | None
    received_ms: int


class Watch(msgspec.Struct):
    """`may_change`: this client may pause and resume. `tap`: it may see events."""

    status: Status
    nodes: list[NodePlace]
    links: list[LinkRate]
    rejections: list[RejectionShown]
    backlogs: dict[str, list[tuple[float, float]]]
    may_change: bool
    tap: bool


class LivePage:
    def __init__(self, daemon: Daemon, rates: Rates, observed: Observed, taps: Taps, guard: Guard) -> None:
        self._daemon = daemon
        self._rates = rates
        self._observed = observed
        self._taps = taps
        self._guard = guard
        self._nodes = placed(daemon.assembly)
        self._texts = {name: files("walflow.admin").joinpath("page", name).read_bytes() for name in TYPES}

    async def file(self, request: web.Request) -> web.Response:
        """Needs no token: the files hold nothing of the flow, and the page asks for the token."""
        name = request.path.strip("/") or "page.html"
        return web.Response(body=self._texts[name], content_type=TYPES[name], charset="utf-8", headers=SAFE)

    async def watch(self, request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(self._watch()), content_type="application/json")

    def _watch(self) -> Watch:
        numbers = {node: number for number, node in enumerate(self._nodes)}
        rates = {(port.node, port.port): rate for port, rate in self._observed.rates().items()}
        backlogs: dict[str, list[tuple[float, float]]] = {}
        for at, events in self._observed.backlogs:
            for log, count in events.items():
                backlogs.setdefault(log, []).append((at, count))
        return Watch(
            status=status(self._daemon, self._rates),
            nodes=list(self._nodes.values()),
            links=[
                LinkRate(
                    numbers[link.source],
                    numbers[link.target],
                    link.source_port,
                    rates.get((link.source, link.source_port), 0.0) if rates else None,
                )
                for link in self._daemon.assembly.links
            ],
            rejections=[
                RejectionShown(
                    one.node,
                    one.reason if self._taps.allowed else "",
                    one.at,
                    one.events,
                    one.position,
                    one.ingest_ns // 1_000_000,
                )
                for one in reversed(self._daemon.nodes.ports.rejections)
            ],
            backlogs=backlogs,
            may_change=self._guard.has_token,
            tap=self._taps.allowed,
        )


def placed(assembly: Assembly) -> Mapping[NodeId, NodePlace]:
    """Each flow below the one before, with its nodes in columns as `walflow graph` draws them."""
    found: dict[NodeId, NodePlace] = {}
    nodes = [plan.id for plan in assembly.connectors] + [plan.id for plan in assembly.pipelines]
    below = 0
    for flow in dict.fromkeys(node.flow for node in nodes):
        own = [node for node in nodes if node.flow == flow]
        links = [(link.source, link.target) for link in assembly.links if link.source.flow == flow]
        at = places(own, links)
        for node in own:
            found[node] = NodePlace(flow, node.name, node.kind, at[node].column, below + at[node].row)
        below += 1 + max(place.row for place in at.values())
    return found
