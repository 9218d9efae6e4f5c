"""Requests, their answers, and what an answer means for the events."""

import email.utils
import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

import aiohttp

from connectors.http.batches import Parcel, body_of, halves, lanes, parcels, type_of, values_in
from connectors.http.client import HttpClientKeys, each_header
from connectors.http.response_events import ResponseEvents, meta_of
from walflow import Block, Inlet, Outlet, WalflowError
from walflow.net import (
    Contexts,
    Failure,
    HeldPart,
    NoSecret,
    NotConfirmed,
    RequestOutcome,
    RequestSeconds,
    RetryQueue,
    RetrySink,
    bearer,
    connect_problem,
    socket_of,
)
from walflow.world import monotonic, wall_ns

TOO_MUCH: Final = {400, 413, 422}  # perhaps for one event of a batch: the others are tried without it
WAIT: Final = {408, 425, 429, 503}  # the server asks for time, so no event is to blame
GATEWAY: Final = {502, 504}  # a server behind is away, or was ended by this request
AWAY: Final = {*WAIT, *GATEWAY}
PATIENT: Final = 12  # failures, about half a minute: a server that restarts gets the requests in order
LONGEST_WAIT: Final = 600.0  # seconds that Retry-After may ask for
READ: Final = 16 << 10  # bytes of an answer
SHOWN: Final = 200


class Response(NamedTuple):
    """The body of an answer. `problem`: why it cannot be an event."""

    body: bytes
    headers: Mapping[str, Sequence[str]]
    problem: str


class HttpAnswer(NamedTuple):
    """`status`: 0 where none came. `reason`: in words. `sent`: the server may have got the request."""

    status: int
    reason: str
    retry_after: float = 0.0
    response: Response | None = None  # where it is an event
    sent: bool = True

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300

    @property
    def refuses(self) -> bool:
        return 400 <= self.status < 500 and self.status not in AWAY

    @property
    def outcome(self) -> RequestOutcome:
        return "taken" if self.good else "refused" if self.refuses else "failed"

    @property
    def failure(self) -> Failure:
        """How an answer that neither acks nor rejects counts against the events."""
        wait = min(self.retry_after, LONGEST_WAIT)
        if not self.sent or 300 <= self.status < 400:
            return Failure(math.inf, counts=False, wait=wait)
        if self.status in WAIT:
            return Failure(PATIENT, counts=False, wait=wait)
        if self.status in GATEWAY or not self.status:
            return Failure(PATIENT, counts=True, wait=wait)
        return Failure(2, counts=True, wait=wait)


class HttpClientRun:
    """One run."""

    def __init__(self, config: HttpClientKeys, inlet: Inlet, out: Outlet) -> None:
        self._config = config
        self._inlet = inlet
        self._tls = config.client_tls
        self._contexts = Contexts(self._tls, inlet) if self._tls is not None else None
        self._types = config.types(out.codec)
        self._responses = ResponseEvents(out, self._types) if config.responses else None
        self._owed: dict[int, Parcel] = {}  # answered, and the events of the answer are not acked
        self._numbers = itertools.count()
        self._path = config.order_by.split(".") if config.order_by is not None else None
        self._most = 1 if config.batch == "event" else config.max_batch_events
        retry = config.reconnect.retry
        self._queue = RetryQueue[Parcel](
            config.concurrency,
            config.attempts,
            retry.backoff(),
            most=retry.max_retries,
            keys_of=lambda parcel: values_in(parcel, self._path or ()),
        )
        self._sink = RetrySink(
            inlet,
            self._queue,
            retry.backoff(),
            add=self._add,
            fail=self._fail,
            blocks=lambda parcel: parcel.blocks,
            halve=lambda parcel: _counted(halves(parcel)),
            step=4 * self._most,  # its last batch may be a small one
            peer=str(config.address),
        )
        self._requests = inlet.counter("requests_total")
        self._seconds = RequestSeconds(inlet)
        self._retries = inlet.counter("retried_requests_total")

    async def run(self) -> None:
        """Sends requests until it is cancelled."""
        if self._contexts is not None:
            self._inlet.on_reopen(self._contexts.renew)
        if self._config.token is not None:
            self._token()  # better now than at the first event
        connector = aiohttp.TCPConnector(limit=self._config.concurrency, socket_factory=socket_of)
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=self._config.timeout / 1e9),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        ) as session:
            try:
                await self._sink.run(partial(self._post, session))
            finally:
                self._stop()

    def _stop(self) -> None:
        if self._responses is not None:
            self._responses.close()
        owed, self._owed = self._owed, {}
        for parcel in owed.values():
            self._fail(parcel, NotConfirmed("the connector has stopped"))

    def _add(self, blocks: Sequence[Block]) -> None:
        """Blocks become requests."""
        config, most = self._config, self._most
        good: list[Block] = []
        for block in blocks:
            if not self._is_json(block) and config.batch != "event":
                self._inlet.reject(block, f'"batch": "{config.batch}" wants the codec json, and no postprocessors')
            elif not self._is_json(block) and self._path is not None:
                self._inlet.reject(block, "order_by wants the codec json, and no postprocessors")
            else:
                good.append(block)
        if self._path is None:
            self._queue.add(_counted(parcels(good, most, config.max_batch_bytes)))
        else:
            for number, lane in lanes(good, self._path, config.concurrency).items():
                self._queue.add(_counted(parcels(lane, most, config.max_batch_bytes)), number)

    def _is_json(self, block: Block) -> bool:
        return not self._inlet.encoded and block.codec.name == "json"

    async def _post(self, session: aiohttp.ClientSession, held: HeldPart[Parcel]) -> None:
        parcel = held.part
        self._retries.value += held.failures > 0
        body = body_of(parcel, self._config.batch, self._inlet)
        content_type = type_of(parcel, self._config.batch, self._inlet)
        if self._types is not None and not self._inlet.encoded:
            content_type = self._types.type_of(parcel.blocks[0].codec)
        began = monotonic()
        answer = await self._ask(session, body, content_type, parcel.key)
        self._seconds.observe(answer.outcome, monotonic() - began)
        if answer.good and answer.response is not None and self._responses is not None:
            await self._respond(self._responses, parcel, answer.status, answer.response)
            self._sink.passed(held)  # its events say what becomes of it
        elif answer.good:
            self._sink.passed(held)
            self._ack(parcel)
        elif not answer.refuses:
            self._sink.failed(held, answer.reason, answer.failure)
        else:
            self._sink.passed(held)
            if answer.status in TOO_MUCH and held.events > 1:
                self._sink.divide(held)
            else:
                attempt = f" (attempt {held.failures + 1})" if held.failures else ""
                self._reject(parcel, answer.reason + attempt)

    async def _respond(self, events: ResponseEvents, parcel: Parcel, status: int, response: Response) -> None:
        number = next(self._numbers)

        def settled(cause: BaseException | None) -> None:
            owed = self._owed.pop(number, None)
            if owed is None:  # the run is over
                return
            if cause is None:
                self._ack(owed)
            else:
                self._fail(owed, NotConfirmed(f"the answer was not delivered: {cause}"))

        self._owed[number] = parcel
        try:
            content_type = next(iter(response.headers.get("content-type", ())), "")
            await events.send(
                response.body, content_type, meta_of(parcel, status, response.headers), response.problem, settled
            )
        except BaseException:
            self._owed.pop(number, None)  # the caller fails it
            raise

    def _ack(self, parcel: Parcel) -> None:
        for block in parcel.blocks:
            self._inlet.ack(block)

    def _fail(self, parcel: Parcel, cause: WalflowError) -> None:
        for block in parcel.blocks:
            self._inlet.fail(block, cause)

    def _reject(self, parcel: Parcel, reason: str) -> None:
        for block in parcel.blocks:
            self._inlet.reject(block, reason)

    async def _ask(self, session: aiohttp.ClientSession, body: bytes, content_type: str, key: str) -> HttpAnswer:
        self._requests.value += 1
        try:
            headers = [("Idempotency-Key", key), *each_header(self._config.headers), *self._token().items()]
            if not self._config.said_type:
                headers.append(("Content-Type", content_type))
            if self._responses is not None:
                headers = [(name, value) for name, value in headers if name.lower() != "accept-encoding"]
                headers.append(("Accept-Encoding", "identity"))
            async with session.request(
                self._config.method,
                self._config.url,
                data=body,
                headers=headers,
                allow_redirects=False,
                ssl=self._contexts.current if self._contexts is not None else True,
                server_hostname=self._tls.domain if self._tls is not None else None,
            ) as response:
                if self._responses is not None and 200 <= response.status < 300:
                    return await _read_whole(response, self._config.max_response_bytes)
                return await _read(response)
        except NoSecret as error:
            return HttpAnswer(0, str(error), sent=False)
        except aiohttp.ClientConnectorCertificateError as error:
            reason = connect_problem(error.host, error.port, error.certificate_error)
            return HttpAnswer(0, _line(reason), sent=False)
        except aiohttp.ClientConnectorError as error:
            return HttpAnswer(0, _line(connect_problem(error.host, error.port, error.os_error)), sent=False)
        except TimeoutError:
            return HttpAnswer(0, f"no answer within {self._config.timeout / 1e9:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return HttpAnswer(0, _line(str(error) or type(error).__name__))

    def _token(self) -> dict[str, str]:
        """Raises NoSecret."""
        if self._config.token is None:
            return {}
        token = self._config.token.read().get_secret_value()
        if not token.isascii() or not token.isprintable():
            raise NoSecret("the token holds what no header can hold")
        return {"Authorization": bearer(token)}


async def _read(response: aiohttp.ClientResponse) -> HttpAnswer:
    """Its status decides; a body that breaks off, or does not end, changes nothing."""
    data = b""
    with suppress(aiohttp.ClientError, OSError):  # a TimeoutError is an OSError
        while len(data) < READ and (more := await response.content.read(READ - len(data))):
            data += more
    if not response.content.at_eof():
        response.close()
    reason = f"{response.status} {_line(response.reason or '')}".strip()
    if 300 <= response.status < 400:
        reason += f": it redirects to {_line(response.headers.get('Location', 'nowhere'))}, put that into url"
    elif data.strip():
        reason += f": {_line(data.strip().splitlines()[0].decode(errors='replace'))}"
    return HttpAnswer(response.status, reason, _seconds(response.headers))


async def _read_whole(response: aiohttp.ClientResponse, most: int) -> HttpAnswer:
    """Raises ClientError and OSError for a body that breaks off: then the request is sent again."""
    data = bytearray()
    while len(data) <= most and (more := await response.content.read(READ)):
        data += more
    problem = ""
    if len(data) > most:
        problem = f"the answer has more than max_response_bytes, {most}"
        response.close()
    elif response.headers.get("Content-Encoding", "identity").lower() != "identity":
        problem = "the answer has a Content-Encoding, which was not asked for"
    headers: dict[str, list[str]] = {}
    for name, value in response.headers.items():
        if name.lower() != "set-cookie":  # metadata is written to the log
            headers.setdefault(name.lower(), []).append(value)
    return HttpAnswer(response.status, "", response=Response(bytes(data[:most]), headers, problem))


def _counted(parcels: Sequence[Parcel]) -> list[tuple[Parcel, int]]:
    return [(parcel, parcel.events) for parcel in parcels]


def _seconds(headers: Mapping[str, str]) -> float:
    """A number of them, or a date: by the server's clock, and so is `Date`. Ours may be another."""
    retry_after = headers.get("Retry-After", "")
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    with suppress(ValueError, TypeError, OverflowError):
        until = email.utils.parsedate_to_datetime(retry_after).timestamp()
        now = email.utils.parsedate_to_datetime(headers["Date"]).timestamp() if "Date" in headers else wall_ns() / 1e9
        return max(0.0, until - now)
    return 0.0


def _line(text: str) -> str:
    line = text.splitlines()[0] if text.splitlines() else ""
    return "".join(character if character.isprintable() else "?" for character in line)[:SHOWN]
