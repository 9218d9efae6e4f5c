"""Requests of one run: what may come in, how its events reach the flow, and what the client is told."""

import asyncio
import hashlib
import itertools
import socket
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from connectors.http.body import Judged, Kind, judge, judged_at_once, kind_of
from connectors.http.clients import HttpClients
from connectors.http.connection import ClientWait, HttpConnection
from connectors.http.delivery import Departures, NotTaken, RequestOutcome
from connectors.http.flow_replies import NO_ANSWER, AwaitedReply, FlowReplies
from connectors.http.keys import LOGGED, KeyWindow, KnownRequest, logged
from connectors.http.media_types import MediaTypes
from connectors.http.memory import RequestMemory
from connectors.http.refusal import HttpRefusal, HttpReply, answer
from connectors.http.request import HttpRequest
from connectors.http.server import HttpServerKeys
from walflow import CannotEncode, Codec, Inlet, Outlet, Receipt
from walflow.net import Listener, NoSecret, same_token
from walflow.world import dice, handover

OPENING: Final = 5.0  # seconds that clients of the process before wait for the log of this one
LINGER: Final = 2.0  # seconds in which a refused body is read and dropped, so that the client reads the answer
REQUEST_BYTES: Final = 512  # what a request takes beside its head and its events
LONGEST_KEY: Final = 255
METHODS: Final = ("POST", "PUT", "PATCH")
BODILESS: Final = ("GET", "DELETE")  # taken where the flow answers: without a body, the event is `null`
SECRET_HEADERS: Final = ("authorization", "proxy-authorization", "cookie")  # no part of the metadata
REPLAYED: Final = "Idempotency-Replayed: true\r\n"

Judging = Generator[None, None, Judged]


class _Whole(NamedTuple):
    """A request that has come whole, while its events are judged."""

    request: HttpRequest
    key: str | None
    body: bytes
    kind: Kind
    codec: Codec
    judging: Judging


class HttpServerRun:
    """Takes requests: see `connectors.http.connection.RequestTaker`."""

    def __init__(self, config: HttpServerKeys, inlet: Inlet, out: Outlet) -> None:
        self._config = config
        self._inlet = inlet
        self._out = out
        self._loop = asyncio.get_running_loop()
        self._limits = config.limits
        self._clients = HttpClients(config, out, self)
        self._handover = handover()
        self._types = MediaTypes(config.mime_mapping, out.codec) if config.mime_mapping is not None else None
        self._replies = FlowReplies(config, inlet, out, self._types, self.refused) if inlet.linked else None
        self._methods = (*METHODS, *BODILESS) if self._replies is not None else METHODS
        self._at_once = config.answer == "taken" and self._replies is None
        self._seconds = {
            ClientWait.HEAD: config.idle_timeout / 1e9,
            ClientWait.BODY: config.body_timeout / 1e9,
            ClientWait.OUTCOME: float("inf") if self._at_once else config.ack_timeout / 1e9,
            ClientWait.END: LINGER,
        }
        self._memory = RequestMemory(out.window)
        self._keys = KeyWindow(config.idempotency_window / 1e9, config.idempotency_keys, out.scheduler.time)
        self._departures = Departures(out)
        self._shut = False
        self._opened = asyncio.Event()
        self._recalled = False
        self._keyed = itertools.count(
            dice().getrandbits(52)
        )  # numbers of requests with keys, others than those of other starts
        self._gate = out.stream({}, pause=lambda: self._set_shut(True), resume=lambda: self._set_shut(False))
        self._requests = out.counter("requests_total")
        self._refusals = out.counter("refused_requests_total")
        self._repeated = out.counter("repeated_requests_total")
        self._lost = out.counter("lost_events_total")
        out.gauge("request_bytes", lambda: self._memory.held)

    async def run(self, sockets: Sequence[socket.socket]) -> None:
        """Serves clients until it is cancelled."""
        self._clients.listener = listener = Listener(sockets, self._clients.arrived, self._out)
        self._inlet.on_reopen(self._clients.reload)
        if self._replies is not None:
            self._inlet.serve(self._replies.accept)
        if not self._shut:
            self._recall()
        if self._shut and self._handover.watched:  # the log is not open yet; clients wait, and get no 503
            with suppress(TimeoutError):
                await asyncio.wait_for(self._opened.wait(), OPENING)
        listener.start()
        self._handover.takes(self._clients.place, self._clients.take_over)
        self._clients.sweep()
        try:
            await self._loop.create_future()
        finally:
            self._handover.takes_no_more(self._clients.place)
            await listener.close()
            await self._clients.close()
            self._departures.close()
            self._gate.close()
            if self._replies is not None:
                self._replies.close()

    def _set_shut(self, shut: bool) -> None:
        self._shut = shut
        if not shut:
            self._opened.set()
            self._recall()

    def _recall(self) -> None:
        """Once, before the first request is taken: the log is open now."""
        if self._recalled:
            return
        self._recalled = True
        reply = None
        if self._replies is not None:
            reply = HttpRefusal(500, NO_ANSWER).reply(self._config.retry_after)
        keys = self._keys.recall(self._out.recalled(), reply)
        if keys:
            self._out.log.info("keys recalled from the log", keys=keys)

    # what a connection asks

    def seconds(self, wait: ClientWait) -> float:
        return self._seconds[wait]

    @property
    def leaving(self) -> bool:
        return self._handover.leaving

    def idle(self, connection: HttpConnection, *, idle: bool) -> None:
        self._clients.idle(connection, idle=idle)

    def left(self, connection: HttpConnection) -> None:
        self._clients.left(connection)

    def refused(self, refusal: HttpRefusal) -> HttpReply:
        self._refusals.value += 1
        return refusal.reply(self._config.retry_after)

    def failed(self, error: Exception) -> HttpRefusal:
        self._out.log.error("internal error", error=repr(error))
        self._out.log.debug("internal error", exc_info=error)
        return HttpRefusal(500, "internal error", later=True, closes=True)

    def late(self) -> HttpRefusal:
        seconds = self._config.ack_timeout / 1e9
        if self._replies is not None:
            return HttpRefusal(504, f"{NO_ANSWER} within {seconds:g} s")
        return HttpRefusal(
            504, f"not acked within {seconds:g} s; the events are in the flow, and may still be delivered", later=True
        )

    def begin(self, request: HttpRequest) -> None:
        self._requests.value += 1
        if request.method not in self._methods:
            raise HttpRefusal(405, f"the method is one of {', '.join(self._methods)}", closes=True)
        if "origin" in request.headers:
            raise HttpRefusal(403, "requests of web pages are not taken", closes=True)
        if self._config.token is not None:
            self._check_token(request)
        if self._shut and not self.leaving:
            raise HttpRefusal(503, "the flow takes no events now", later=True, closes=True)
        reading = self._memory.begin(REQUEST_BYTES + request.head, partial(_give_up, request))
        request.expect_body(reading, self._config.max_body_bytes)

    def _check_token(self, request: HttpRequest) -> None:
        assert self._config.token is not None
        try:
            wanted = self._config.token.read().get_secret_value()
        except NoSecret as error:
            self._out.log.error("no client is let in", reason=str(error))
            raise HttpRefusal(503, "the server cannot read its token", later=True, closes=True) from None
        given = request.headers.get("authorization", ())
        if len(given) != 1 or "authorization" in request.without_text or not same_token(given[0], wanted):
            raise HttpRefusal(401, "a token is wanted", closes=True)

    # a request that has come whole

    def take(self, request: HttpRequest) -> None:
        body = request.take_body()
        key = _key(request)
        codec = self._out.codec if self._types is None else self._types.codec_of(request.content_type)
        kind = kind_of(request.content_type, body, self._out, codec, split_arrays=self._config.splits)
        if request.method in BODILESS and not body:
            codec = self._out.codec
            body, kind = self._nothing_said(codec), "one"
        judged = judged_at_once(body, kind, codec, self._limits)
        if judged is not None:
            self._judged(request, key, body, kind, codec, judged)
            return
        all_or_none = self._config.refuse == "request"
        judging = judge(body, kind, self._out, codec, self._limits, all_or_none=all_or_none)
        self._judge(_Whole(request, key, body, kind, codec, judging))

    def _nothing_said(self, codec: Codec) -> bytes:
        """Raises HttpRefusal."""
        try:
            return codec.encode(None)
        except CannotEncode as error:
            raise HttpRefusal(
                400, f"a request without a body is the event null, and there is none: {error}"
            ) from None

    def _judge(self, whole: _Whole) -> None:
        """A part of it, and then the rest, when others have had their turn."""
        try:
            next(whole.judging)
        except StopIteration as judged:
            self._judged(whole.request, whole.key, whole.body, whole.kind, whole.codec, judged.value)
        else:
            self._loop.call_soon(self._judge_on, whole)

    def _judge_on(self, whole: _Whole) -> None:
        request = whole.request
        if request.over:  # its client has left
            request.release()
            return
        try:
            self._judge(whole)
        except HttpRefusal as refusal:
            _refuse(request, self.refused(refusal))
        except Exception as error:  # noqa: BLE001  # any bug: only this request fails
            _refuse(request, self.refused(self.failed(error)))

    def _judged(
        self, request: HttpRequest, key: str | None, body: bytes, kind: Kind, codec: Codec, judged: Judged
    ) -> None:
        """Raises HttpRefusal."""
        said = answer({"events": sum([frames.count for frames in judged.frames])}, judged.refused)
        outcome = RequestOutcome()
        in_log = None
        if key is not None:
            digest = hashlib.blake2b(body, digest_size=16).digest()
            in_log = logged(key, digest, sum(frames.count for frames in judged.frames), next(self._keyed))
            known = self._keys.find(key, digest)
            if known is not None:
                request.release()
                self._repeat(request, known)
                return
            if judged.frames:
                self._keys.keep(key, digest, outcome, said)
        if judged.frames:
            self._deliver(request, kind, codec, judged, outcome, said, in_log)
        else:
            request.release()
            _reply(request, HttpReply(200, said))

    def _deliver(
        self,
        request: HttpRequest,
        kind: Kind,
        codec: Codec,
        judged: Judged,
        outcome: RequestOutcome,
        said: bytes,
        in_log: Mapping[str, object] | None,
    ) -> None:
        """Raises HttpRefusal."""
        connection = request.connection
        assert connection is not None
        if connection.stream is None:
            connection.stream = self._out.stream({})
        awaited = None
        if self._replies is not None:
            events = sum(frames.count for frames in judged.frames)
            awaited = self._replies.expect(request, kind, events, outcome, judged.refused)
        meta = _meta(request, connection, awaited, in_log)
        sent = partial(self._sent, request, outcome, said) if self._at_once else _nothing
        settled = partial(self._settled, request, outcome, awaited)
        try:
            self._departures.send(connection.stream.id, judged.frames, codec, meta, settled, sent)
        except NotTaken:
            raise HttpRefusal(503, "the flow takes no events now", later=True) from None
        if not self._at_once:
            outcome.then(partial(self._told, request, outcome, said))

    def _settled(
        self, request: HttpRequest, outcome: RequestOutcome, awaited: AwaitedReply | None, receipt: Receipt
    ) -> None:
        request.release()
        if receipt.cause is not None and request.over and self._config.answer == "taken":
            self._lost.value += receipt.count - receipt.done
            self._out.log.error("lost", events=receipt.count - receipt.done, cause=str(receipt.cause))
        if awaited is not None and self._replies is not None:
            self._replies.settled(awaited, receipt.cause)
        else:
            outcome.settle(receipt.cause)

    def _sent(self, request: HttpRequest, outcome: RequestOutcome, said: bytes) -> None:
        """All of it is in the flow, where the client waits for no more."""
        if outcome.cause is None:
            _reply(request, HttpReply(202, said))
        else:
            self._told(request, outcome, said)

    def _repeat(self, request: HttpRequest, known: KnownRequest) -> None:
        self._repeated.value += 1
        if self._at_once:
            _reply(request, HttpReply(202, known.answer, REPLAYED))
        else:
            known.outcome.then(partial(self._told, request, known.outcome, known.answer, REPLAYED))

    def _told(self, request: HttpRequest, outcome: RequestOutcome, said: bytes, headers: str = "") -> None:
        if outcome.reply is not None:
            _reply(request, outcome.reply._replace(headers=outcome.reply.headers + headers))
        elif outcome.cause is None:
            _reply(request, HttpReply(200, said, headers))
        elif not request.over:
            _reply(request, self.refused(HttpRefusal(503, f"not delivered: {outcome.cause}", later=True)))


def _nothing() -> None: ...


def _reply(request: HttpRequest, reply: HttpReply) -> None:
    assert request.connection is not None
    request.connection.reply(request, reply)


def _refuse(request: HttpRequest, reply: HttpReply) -> None:
    request.release()
    _reply(request, reply)


def _give_up(request: HttpRequest, refusal: HttpRefusal) -> None:
    """To make room for others."""
    request.refuse(refusal)
    if request.connection is not None:
        request.connection.advance()


def _key(request: HttpRequest) -> str | None:
    """What a repeated request is recognised by. Raises HttpRefusal."""
    given = request.headers.get("idempotency-key")
    if given is None:
        return None
    if len(given) > 1 or not 0 < len(given[0]) <= LONGEST_KEY:
        raise HttpRefusal(400, f"an Idempotency-Key has 1 to {LONGEST_KEY} characters, and there is one of them")
    if "idempotency-key" in request.without_text:
        raise HttpRefusal(400, "the Idempotency-Key is not UTF-8")
    return f"{request.method} {request.target} {given[0]}"


def _meta(
    request: HttpRequest,
    connection: HttpConnection,
    awaited: AwaitedReply | None,
    in_log: Mapping[str, object] | None,
) -> Mapping[str, object]:
    headers: Mapping[str, list[str]] = request.headers
    if not headers.keys().isdisjoint(SECRET_HEADERS):
        headers = {name: values for name, values in headers.items() if name not in SECRET_HEADERS}
    path, _, query = request.target.partition("?")
    secure = connection.secure is not None or connection.relayed
    url = {"scheme": "https" if secure else "http", "path": path, "query": query}
    peer = {"host": connection.host, "port": connection.port}
    ours: dict[str, object] = {"tls": secure, "peer": peer}
    if awaited is not None:
        ours["request_id"] = awaited.number
    if in_log is not None:
        ours[LOGGED[1]] = in_log
    return {"request": {"method": request.method, "url": url, "headers": headers}, "http_server": ours}
