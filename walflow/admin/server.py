"""The HTTP server beside the flows, on the daemon's own loop: an answer proves that the loop runs."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property, partial
from typing import Annotated, Final

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from walflow.admin.body import TooLong, body_of
from walflow.admin.collector import registry
from walflow.admin.endpoint import Endpoint, UnixPath
from walflow.admin.guard import Guard
from walflow.admin.letters import Letters
from walflow.admin.nodes import NodeStatus, nodes_of, running
from walflow.admin.observed import Observed
from walflow.admin.pages import LivePage
from walflow.admin.rates import Rates
from walflow.admin.tap import TapRules
from walflow.admin.taps import Taps
from walflow.admin.text import printable
from walflow.admin.token import TokenFile
from walflow.admin.v1 import ROUTES, Api
from walflow.admin.view import status
from walflow.errors import Unavailable
from walflow.net import CannotListen, SocketOptions
from walflow.net.sockets import UnixListener, listen_tcp
from walflow.runtime.daemon import Daemon
from walflow.runtime.handover.messages import Description
from walflow.runtime.handover.reload import WATCH_SECONDS, Reload

BACKLOG: Final = 16
CLOSING: Final = 0.5  # seconds that an answer under way gets when the daemon has ended
LOOK: Final = 1.0  # seconds between looks at the socket file
IDLE: Final = 15.0  # seconds that a connection is kept for the next question
NO_TAPS: Final = TapRules()
LONGEST: Final = 64 << 10  # bytes of a request

log = structlog.get_logger(component="admin")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve(
    daemon: Daemon,
    endpoint: Endpoint,
    token: TokenFile | None,
    lines_dropped: Callable[[], int],
    rules: TapRules = NO_TAPS,
) -> AsyncGenerator[None]:
    """Listens as long as the block lasts. Raises Unavailable if the address cannot be used."""
    rates = Rates(daemon.metrics)
    guard = Guard(endpoint, token.current if token is not None else None)
    if token is not None:
        token.warn()
        daemon.on_reopen.append(partial(_renew, guard, token))
    taps = Taps(daemon.nodes.ports, rules)
    observed = Observed(daemon)
    pages = LivePage(daemon, rates, observed, taps, guard)
    answers = Answers(daemon, rates, registry(daemon, rates, lines_dropped, taps.open), guard, taps, pages)
    with _listening(endpoint) as (sockets, file):
        tasks = [asyncio.create_task(rates.run(), name="admin rates")]
        tasks.append(asyncio.create_task(observed.run(), name="admin page"))
        runner = await answers.runner()
        try:
            sites = [web.SockSite(runner, sock, backlog=BACKLOG) for sock in sockets]
            for site in sites:
                await site.start()
            _tell(endpoint, sockets[0])
            if file is not None:
                tasks.append(asyncio.create_task(_keep(file, runner, sites[0]), name="admin socket"))
            yield
        finally:
            taps.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await runner.cleanup()


def _renew(guard: Guard, token: TokenFile) -> None:
    token.renew()
    guard.renew(token.current)


@contextmanager
def _listening(endpoint: Endpoint) -> Generator[tuple[list[socket.socket], UnixListener | None]]:
    file = None
    try:
        if isinstance(endpoint, UnixPath):
            file = UnixListener(endpoint.path, 0o600, BACKLOG)
            sockets = [file.socket]
        else:
            sockets = listen_tcp(endpoint, BACKLOG, SocketOptions())
    except CannotListen as error:
        raise Unavailable(f"admin: {error}; --admin names another address, or off") from error
    try:
        yield sockets, file
    finally:
        for sock in sockets:
            sock.close()
        if file is not None:
            file.remove()


async def _keep(file: UnixListener, runner: web.AppRunner, site: web.SockSite) -> None:
    """Looks once a second whether the socket file is there, and makes it again."""
    told = ""
    while True:
        await asyncio.sleep(LOOK)
        if file.is_there():
            continue
        try:
            file.renew()
        except CannotListen as error:
            if told != str(error):
                log.error("admin socket file is gone", reason=str(error))
                told = str(error)
            continue
        told = ""
        log.warning(
            "admin socket file is gone", path=file.path, advice="clients could not find it; walflow has made it again"
        )
        await site.stop()
        site = web.SockSite(runner, file.socket, backlog=BACKLOG)
        await site.start()


def _tell(endpoint: Endpoint, sock: socket.socket) -> None:
    if isinstance(endpoint, UnixPath):
        log.info("admin listening", address=str(endpoint))
        return
    bound = endpoint._replace(port=sock.getsockname()[1])
    log.info("admin listening", address=str(bound))
    if not endpoint.loopback:
        log.warning(
            "insecure", reason=f"admin on {bound} is open to the network without TLS, and its token crosses it"
        )


class ReloadRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What a POST to /reload says. `by`: who asks, for the log. The others: as of `Reload`."""

    by: str = ""
    dry: bool = False
    lose: list[str] = []
    begin: dict[str, Annotated[int, msgspec.Meta(ge=1)] | None] = {}
    watch: Annotated[float, msgspec.Meta(ge=0, le=3600)] = WATCH_SECONDS
    errors: Annotated[int, msgspec.Meta(ge=0)] | None = None


class Answers:
    def __init__(
        self, daemon: Daemon, rates: Rates, metrics: CollectorRegistry, guard: Guard, taps: Taps, pages: LivePage
    ) -> None:
        self._daemon = daemon
        self._rates = rates
        self._metrics = metrics
        self._guard = guard
        self._taps = taps
        self._pages = pages
        daemon.describe = self.describe

    async def runner(self) -> web.AppRunner:
        application = web.Application()
        application.router.add_get("/livez", self.livez)
        application.router.add_get("/readyz", self.readyz)
        application.router.add_get("/metrics", self._guarded(self.metrics))
        application.router.add_get("/status", self._guarded(self.status))
        application.router.add_get("/tap", self._guarded(self._taps.answer))
        application.router.add_get("/nodes", self._guarded(self.nodes))
        application.router.add_get("/reload", self._guarded(self.reload))
        application.router.add_post("/reload", self._guarded(self.begin_reload))
        letters = Letters(self._daemon, self._guard)
        application.router.add_get("/letters", self._guarded(letters.show))
        application.router.add_post("/letters", self._guarded(letters.change))
        self._add_api(application.router)
        for path in ("/", "/page.css", "/page.js"):
            application.router.add_get(path, self._pages.file)
        application.router.add_get("/watch", self._guarded(self._pages.watch))
        application.on_response_prepare.append(_plain_headers)
        runner = web.AppRunner(
            application, handle_signals=False, access_log=None, shutdown_timeout=CLOSING, keepalive_timeout=IDLE
        )
        await runner.setup()
        return runner

    def _add_api(self, router: web.UrlDispatcher) -> None:
        api = Api(self._daemon, self._guard)
        router.add_get("/v1/openapi.json", self._guarded(api.openapi))
        for route in ROUTES:
            router.add_get(route.pattern, self._guarded(partial(route.handler, api)))
            if route.patch is not None:
                router.add_patch(route.pattern, self._guarded(partial(route.patch.handler, api)))

    async def livez(self, request: web.Request) -> web.Response:
        """Answers without a token: a probe has none, and the answer contains nothing secret."""
        return web.Response(text="ok\n")

    async def readyz(self, request: web.Request) -> web.Response:
        lacking = self._daemon.readiness.lacking()
        known = self._guard.refusal(request.headers) is None
        found = [*self._daemon.jobs.now(), *self._daemon.standstills.now()] if known else []
        notes = [f"note: {printable(str(one))}" for one in found]
        if not lacking:
            return web.Response(text="\n".join(["ok", *notes, ""]))
        named = [printable(line) for line in lacking] if known else []
        return web.Response(text="\n".join(["not ready", *named, *notes, ""]), status=503)

    async def metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._metrics), headers={"Content-Type": content_type})

    async def status(self, request: web.Request) -> web.Response:
        body = msgspec.json.encode(status(self._daemon, self._rates))
        return web.Response(body=body, content_type="application/json")

    @cached_property
    def _nodes(self) -> Sequence[NodeStatus]:
        return nodes_of(self._daemon.assembly)

    async def nodes(self, request: web.Request) -> web.Response:
        body = msgspec.json.encode(running(self._daemon.assembly, self._nodes))
        return web.Response(body=body, content_type="application/json")

    async def reload(self, request: web.Request) -> web.Response:
        """The last one, also one of the process before."""
        found = self._daemon.reload
        if found is None:
            return web.Response(text="no reload was asked for\n", status=404)
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    async def begin_reload(self, request: web.Request) -> web.Response:
        if not self._guard.may_change:
            line = "a reload needs an --admin-token-file, or an --admin that is unix:/path; or SIGUSR2"
            return web.Response(text=f"{line}\n", status=403)
        try:
            wanted = msgspec.json.decode(await body_of(request, LONGEST) or b"{}", type=ReloadRequest)
        except TooLong as error:
            return web.Response(text=f"{error}\n", status=413)
        except (msgspec.MsgspecError, RecursionError) as error:
            return web.Response(text=f"{error}\n", status=400)
        reload = Reload.new(printable(wanted.by) or "the admin interface")
        reload.dry, reload.lose, reload.begin = wanted.dry, wanted.lose, dict(wanted.begin)
        reload.watch, reload.errors = wanted.watch, wanted.errors
        refusal = self._daemon.begin_reload(reload)
        if refusal:
            return web.Response(text=f"{refusal}\n", status=409)
        return web.Response(body=msgspec.json.encode(reload), status=202, content_type="application/json")

    def describe(self) -> Description:
        return Description(
            running(self._daemon.assembly, self._nodes),
            status(self._daemon, self._rates),
            [nodes.name for nodes in self._daemon.nodes.connectors if not nodes.health.ready],
        )

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            refusal = self._guard.refusal(request.headers)
            if refusal is None:
                return await handler(request)
            code, line = refusal
            return web.Response(text=f"{line}\n", status=code, headers={"WWW-Authenticate": "Bearer"})

        return guarded


async def _plain_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "walflow"  # not which libraries, and of which version
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
