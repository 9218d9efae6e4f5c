"""The answer to /tap: lines of JSON until the client goes."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

import msgspec
from aiohttp import web

from walflow.admin.tap import NotAnExpression, OpenTap, TapRules, condition
from walflow.nodes.ports import PortName, WatchedPorts

MOST: Final = 4  # open at a time
FASTEST: Final = 10_000  # events a second
PATIENCE: Final = 10.0  # seconds in which a client must read what it was sent


class Taps:
    """A client that does not read gets less, and after PATIENCE its tap ends. The flow never waits for it."""

    def __init__(self, ports: WatchedPorts, rules: TapRules) -> None:
        self._ports = ports
        self._rules = rules
        self._running: set[asyncio.Task[None]] = set()
        self._begun = 0  # those too whose condition is still compiled
        self._closed = False

    @property
    def allowed(self) -> bool:
        return self._rules.allowed

    def open(self) -> int:
        """How many see what passes."""
        return len(self._running)

    def close(self) -> None:
        self._closed = True
        for task in self._running:
            task.cancel()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if not self._rules.allowed:
            return _refused(403, "this daemon shows no events; start it with `walflow run --tap` to allow it")
        try:
            wanted = msgspec.convert(dict(request.query), Asked, strict=False)
        except msgspec.ValidationError as error:
            return _refused(400, f"{error}")
        if wanted.raw and self._rules.redacted:
            return _refused(403, "--raw is not allowed: the daemon redacts events, and bytes cannot be redacted")
        names = self._ports.within(wanted.at)
        if not names:
            return _refused(404, *unknown(wanted.at, self._ports.names))
        if self._begun >= MOST or self._closed:
            return _refused(503, f"{MOST} taps are open already; the daemon allows no more at a time")
        self._begun += 1  # before anything is awaited, or more would pass meanwhile
        try:
            return await self._open(request, wanted, names)
        finally:
            self._begun -= 1

    async def _open(self, request: web.Request, wanted: "Asked", names: Sequence[PortName]) -> web.StreamResponse:
        try:
            # in a thread: reading the modules takes a while, and the flow goes on meanwhile
            where = await asyncio.to_thread(condition, wanted.where) if wanted.where else None
        except NotAnExpression as error:
            return _refused(400, str(error))
        if self._closed:
            return _refused(503, "the daemon ends")
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        # Before the answer begins: a client that has it may rely on the tap.
        with OpenTap(self._ports, names, self._rules, limit=wanted.limit, raw=wanted.raw, where=where) as tap:
            task = asyncio.create_task(self._send(request, tap, response, names), name="tap")
            self._running.add(task)
            try:
                await asyncio.wait([task])
            finally:
                task.cancel()
                self._running.discard(task)
        return response

    async def _send(
        self, request: web.Request, tap: OpenTap, response: web.StreamResponse, names: Sequence[PortName]
    ) -> None:
        try:
            await response.prepare(request)
            await response.write(msgspec.json.encode({"ports": list(map(str, names))}) + b"\n")
            async with aclosing(tap.lines()) as found:
                async for lines in found:
                    async with asyncio.timeout(PATIENCE):
                        await response.write(lines)
        except (ConnectionError, TimeoutError):
            return  # the client has gone, or does not read


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The query of /tap."""

    at: str = ""
    where: str = ""
    limit: int = 100
    raw: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.limit <= FASTEST:
            raise ValueError(f"limit: 0 to {FASTEST:,} events a second")


def unknown(place: str, names: Sequence[PortName]) -> list[str]:
    """What there is instead."""
    nodes: dict[str, list[str]] = {}
    for name in names:
        nodes.setdefault(f"{name.node.flow}/{name.node.name}", []).append(name.port)
    node, _, port = place.rpartition("/")
    if node in nodes:
        return [f"{node} has no port `{port}`; it has {', '.join(nodes[node])}"]
    head = f"there is no {place}; there is:" if place else "name a flow, a node or a port; there is:"
    return [head, *(f"  {one}  ({', '.join(ports)})" for one, ports in nodes.items())]


def _refused(code: int, *lines: str) -> web.Response:
    return web.Response(text="\n".join([*lines, ""]), status=code)
