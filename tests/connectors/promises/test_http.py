"""What every sink owes, of `http_client`, with a server on a real socket.
In trouble it answers 503, or ends the connection."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from aiohttp import web

from connectors.http import HttpClient
from tests.connectors.test_http_client import Got, Peer
from walflow.testing import VirtualScheduler
from walflow.testing.sinks import NotOffered, RunsSink, SinkSubject, sink_promises

MOST = 64 << 10
REFUSED = b'"never"'


class Server(Peer):
    """Takes at most `MOST` bytes a request. `status`: what it answers to all, if it is no 0; < 0: it answers nothing.
    `left`: events that it takes until then."""

    status = 0
    left = 1_000_000

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        if self.hold is not None:
            await self.hold.wait()
        if not self.left:
            self.status = 503
        if self.status < 0:
            assert request.transport is not None
            request.transport.abort()
        if self.status:
            return web.Response(status=abs(self.status))
        if len(body) > MOST:
            return web.Response(status=413)
        if REFUSED in body.splitlines():
            return web.Response(status=400)
        self.left -= 1
        self.got.append(Got(body, dict(request.headers)))
        return web.Response()


class HttpSubject(SinkSubject):
    never = REFUSED
    too_large = b'"' + b"x" * MOST + b'"'
    config: Mapping[str, object] = {}

    def __init__(self) -> None:
        self.server = Server()
        self._stack = AsyncExitStack()
        self._port = 0

    async def open(self) -> RunsSink:
        self._port = await self._stack.enter_async_context(self.server.listening())
        return await self.again()

    async def again(self) -> RunsSink:
        return HttpClient.model_validate({"url": f"http://127.0.0.1:{self._port}/", **self.config})

    def got(self) -> Sequence[bytes]:
        return [event for got in self.server.got for event in got.body.splitlines()]

    def fail(self) -> None:
        self.server.status = 503

    def fail_otherwise(self) -> None:
        self.server.status = -500

    def fail_after(self, events: int) -> None:
        self.server.left = events

    def mend(self) -> None:
        self.server.status, self.server.left = 0, 1_000_000

    def hold(self, scheduler: VirtualScheduler) -> None:
        self.server.hold = asyncio.Event()

    def release(self, scheduler: VirtualScheduler) -> None:
        if self.server.hold is not None:
            self.server.hold.set()

    async def close(self) -> None:
        await self._stack.aclose()


class BatchSubject(HttpSubject):
    """Requests of many events, which the server refuses as a whole for one of them, or because there are too many."""

    config = {"batch": "lines"}  # noqa: RUF012  # it is read alone

    def fail_after(self, events: int) -> None:
        raise NotOffered("trouble within a request: it is taken whole or not at all")


STOP = {"a_stop_waits_for_what_is_under_way": "a request is cancelled, and its events fail"}
test_http = sink_promises(HttpSubject, without=STOP)
test_http_batches = sink_promises(BatchSubject, without=STOP)
