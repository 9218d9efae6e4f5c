"""tremor's REST API: what runs, and pause and resume. See docs/reference/api.md."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec
from aiohttp import web

from walflow import __version__
from walflow.admin.body import TooLong, body_of
from walflow.admin.guard import Guard
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.measures import breaker
from walflow.nodes.pauses import is_paused, pause, resume
from walflow.runtime.daemon import Daemon

InstanceState = Literal["initializing", "running", "paused", "draining", "stopped"]
GOOD: Final = ("initializing", "running", "paused")
LONGEST: Final = 1024  # bytes of a request
STATES: Final[Mapping[str, InstanceState]] = {
    "starting": "initializing",
    "restarting": "initializing",
    "up": "running",
    "finished": "stopped",
    "stopped": "stopped",
}


class ApiVersion(msgspec.Struct):
    version: str
    debug: bool = False


class ApiStatus(msgspec.Struct):
    """`flows`: how many are in which state."""

    all_running: bool
    num_flows: int
    flows: dict[InstanceState, int]


class ApiPipelineEnd(msgspec.Struct):
    """A pipeline that is linked to a port, and the port of the pipeline."""

    alias: str
    port: str


class ApiConnector(msgspec.Struct):
    """`pipelines`: by the port of the connector."""

    alias: str
    status: InstanceState
    connectivity: Literal["connected", "disconnected"]
    pipelines: dict[str, list[ApiPipelineEnd]]


class ApiFlow(msgspec.Struct):
    """`connectors`: their names."""

    alias: str
    status: InstanceState
    connectors: list[str]


class ApiPatch(msgspec.Struct, forbid_unknown_fields=True):
    status: Literal["running", "paused"]


class ApiError(msgspec.Struct):
    code: int
    error: str


class _NotThere(Exception):
    """No flow or connector has this name."""


class Api:
    def __init__(self, daemon: Daemon, guard: Guard) -> None:
        self._daemon = daemon
        self._guard = guard

    async def version(self, request: web.Request) -> web.Response:
        return _json(ApiVersion(__version__))

    async def openapi(self, request: web.Request) -> web.Response:
        return web.Response(body=json.dumps(document()).encode(), content_type="application/json")

    async def status(self, request: web.Request) -> web.Response:
        states: Counter[InstanceState] = Counter(self._flow(name).status for name in self._names())
        whole = ApiStatus(set(states) <= {"running"}, sum(states.values()), dict(states))
        return _json(whole, 200 if set(states) <= set(GOOD) else 503)

    async def flows(self, request: web.Request) -> web.Response:
        return _json([self._flow(name) for name in self._names()])

    async def flow(self, request: web.Request) -> web.Response:
        try:
            return _json(self._flow(request.match_info["flow"]))
        except _NotThere as error:
            return _error(404, str(error))

    async def connectors(self, request: web.Request) -> web.Response:
        try:
            return _json([self._connector(one) for one in self._of(request.match_info["flow"])])
        except _NotThere as error:
            return _error(404, str(error))

    async def connector(self, request: web.Request) -> web.Response:
        try:
            return _json(self._connector(self._one(request)))
        except _NotThere as error:
            return _error(404, str(error))

    async def patch_flow(self, request: web.Request) -> web.Response:
        try:
            found = self._of(request.match_info["flow"])
            return await self._patch(request, found) or _json(self._flow(request.match_info["flow"]))
        except _NotThere as error:
            return _error(404, str(error))

    async def patch_connector(self, request: web.Request) -> web.Response:
        try:
            found = self._one(request)
            return await self._patch(request, [found]) or _json(self._connector(found))
        except _NotThere as error:
            return _error(404, str(error))

    async def _patch(self, request: web.Request, found: Sequence[ConnectorNodes]) -> web.Response | None:
        """The refusal; None: it is done."""
        if not self._guard.has_token:
            return _error(403, "pause and resume need a daemon that has an --admin-token-file")
        try:
            wanted = msgspec.json.decode(await body_of(request, LONGEST), type=ApiPatch).status
        except TooLong as error:
            return _error(413, str(error))
        except (msgspec.MsgspecError, RecursionError) as error:
            return _error(400, f'{error}; write {{"status": "paused"}} or {{"status": "running"}}')
        if self._daemon.stopping:
            return _error(400, "the daemon is stopping")
        for nodes in found:
            if is_paused(nodes) is not (wanted == "paused"):
                change = pause if wanted == "paused" else resume
                change(nodes)
                nodes.sink.log.warning("paused" if wanted == "paused" else "resumed", by="the admin interface")
        return None

    def _names(self) -> list[str]:
        return list(dict.fromkeys(nodes.plan.id.flow for nodes in self._daemon.nodes.connectors))

    def _of(self, flow: str) -> list[ConnectorNodes]:
        found = [nodes for nodes in self._daemon.nodes.connectors if nodes.plan.id.flow == flow]
        if not found:
            raise _NotThere(f"there is no flow {flow}; there is {', '.join(self._names()) or 'none'}")
        return found

    def _one(self, request: web.Request) -> ConnectorNodes:
        flow, name = request.match_info["flow"], request.match_info["connector"]
        known = {nodes.plan.id.name: nodes for nodes in self._of(flow)}
        if name not in known:
            raise _NotThere(f"flow {flow} has no connector {name}; it has {', '.join(known)}")
        return known[name]

    def _flow(self, name: str) -> ApiFlow:
        found = self._of(name)
        states = {self._state(nodes) for nodes in found}
        order: tuple[InstanceState, ...] = ("draining", "initializing", "running", "paused", "stopped")
        state: InstanceState = next(one for one in order if one in states)
        return ApiFlow(name, state, [nodes.plan.id.name for nodes in found])

    def _connector(self, nodes: ConnectorNodes) -> ApiConnector:
        away = nodes.health.state != "up" or breaker(nodes.sink, nodes.health) is not None
        pipelines: dict[str, list[ApiPipelineEnd]] = {}
        for port, end in self._ends(nodes):
            pipelines.setdefault(port, []).append(end)
        connectivity: Literal["connected", "disconnected"] = "disconnected" if away else "connected"
        return ApiConnector(nodes.plan.id.name, self._state(nodes), connectivity, pipelines)

    def _ends(self, nodes: ConnectorNodes) -> Iterator[tuple[str, ApiPipelineEnd]]:
        for link in self._daemon.assembly.links:
            if link.source == nodes.plan.id:
                yield link.source_port, ApiPipelineEnd(link.target.name, link.target_port)
            if link.target == nodes.plan.id:
                yield link.target_port, ApiPipelineEnd(link.source.name, link.source_port)

    def _state(self, nodes: ConnectorNodes) -> InstanceState:
        state = STATES[nodes.health.state]
        if state == "stopped":
            return state
        return "draining" if self._daemon.stopping else "paused" if is_paused(nodes) else state


ApiHandler = Callable[[Api, web.Request], Awaitable[web.Response]]


class Patched(NamedTuple):
    """What a PATCH changes, and who does it."""

    summary: str
    handler: ApiHandler


class Route(NamedTuple):
    path: str
    summary: str
    answer: object
    handler: ApiHandler
    patch: Patched | None = None

    @property
    def pattern(self) -> str:
        """The path for aiohttp. The name of a connector may have slashes."""
        return self.path.replace("{connector}", "{connector:.+}")


PATCHED_FLOW: Final = Patched("Pause or resume all connectors of a flow.", Api.patch_flow)
PATCHED_CONNECTOR: Final = Patched("Pause or resume a connector.", Api.patch_connector)
ROUTES: Final = (
    Route("/v1/version", "The version.", ApiVersion, Api.version),
    Route(
        "/v1/status", "How many flows are in which state. 503 if one is draining or stopped.", ApiStatus, Api.status
    ),
    Route("/v1/flows", "All flows.", list[ApiFlow], Api.flows),
    Route("/v1/flows/{flow}", "One flow.", ApiFlow, Api.flow, PATCHED_FLOW),
    Route("/v1/flows/{flow}/connectors", "The connectors of a flow.", list[ApiConnector], Api.connectors),
    Route(
        "/v1/flows/{flow}/connectors/{connector}", "One connector.", ApiConnector, Api.connector, PATCHED_CONNECTOR
    ),
)


def document() -> dict[str, object]:
    """The OpenAPI document."""
    answers = [route.answer for route in ROUTES]
    schemas, components = msgspec.json.schema_components(
        [*answers, ApiPatch, ApiError], ref_template="#/components/schemas/{name}"
    )
    *of_routes, of_patch, of_error = schemas
    paths: dict[str, object] = {}
    for route, schema in zip(ROUTES, of_routes, strict=True):
        names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
        operations: dict[str, object] = {"get": _operation(route.summary, schema, of_error, found=bool(names))}
        if route.patch is not None:
            changing = _operation(route.patch.summary, schema, of_error, found=True)
            changing["requestBody"] = {"required": True, "content": {"application/json": {"schema": of_patch}}}
            operations["patch"] = changing
        if names:
            operations["parameters"] = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
            ]
        paths[route.path] = operations
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "walflow",
            "version": "1",
            "description": "tremor's API. Pause and resume need a token.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _operation(summary: str, schema: object, error: object, *, found: bool) -> dict[str, object]:
    failed = {"content": {"application/json": {"schema": error}}}
    responses: dict[str, object] = {
        "200": {"description": "As asked.", "content": {"application/json": {"schema": schema}}}
    }
    if found:
        responses["404"] = {"description": "No flow or connector has this name.", **failed}
    return {"summary": summary, "responses": responses}


def _json(value: object, code: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=code, content_type="application/json")


def _error(code: int, text: str) -> web.Response:
    return _json(ApiError(code, text), code)
