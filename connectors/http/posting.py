"""Requests, their answers, and what an answer means for the events."""

import asyncio
import email.utils
import itertools
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp

from connectors.http.batches import Parcel, body_of, halves, lanes, parcels, type_of
from connectors.http.responding import ResponseEvents, meta_of
from walflow import Block, Inlet, Outlet, WalflowError
from walflow.net import Contexts, NoSecret
from walflow.net.secrets import bearer

if TYPE_CHECKING:
    from connectors.http.client import HttpClient

AWAY: Final = {408, 425, 429, 502, 503, 504}  # it may be answered otherwise later: waited for without end
TOO_MUCH: Final = {400, 413, 422}  # perhaps for one event of a batch: the others are tried without it
LONGEST_WAIT: Final = 600.0  # seconds that Retry-After may ask for
READ: Final = 16 << 10  # bytes of an answer
SHOWN: Final = 200


class Response(NamedTuple):
    """The body of an answer. `problem`: why it cannot be an event."""

    body: bytes
    headers: Mapping[str, Sequence[str]]
    problem: str


class NotDelivered(WalflowError):
    """Says why."""


class HttpAnswer(NamedTuple):
    """`status`: 0 where none came. `reason`: in words."""

    status: int
    reason: str
    retry_after: float = 0.0
    response: Response | None = None  # where it is an event

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300

    @property
    def refuses(self) -> bool:
        return 400 <= self.status < 500 and self.status not in AWAY


class HttpPosting:
    """One run."""

    def __init__(self, config: "HttpClient", inlet: Inlet, out: Outlet) -> None:
        self._config = config
        self._inlet = inlet
        self._tls = config.client_tls
        self._contexts = Contexts(self._tls, inlet.log) if self._tls is not None else None
        self._responses = ResponseEvents(out) if config.responses else None
        self._owed: dict[int, Parcel] = {}  # answered, and the events of the answer are not acked
        self._numbers = itertools.count()
        self._triggered = False
        self._backoff = config.reconnect.retry.backoff()  # of a sink that others can stand in for
        self._rest = 0.0  # seconds for which they do
        self._requests = inlet.counter("requests_total")
        self._retries = inlet.counter("retried_requests_total")

    async def run(self) -> None:
        """Until it is cancelled."""
        if self._contexts is not None:
            self._inlet.on_reopen(self._contexts.renew)
        if self._config.token is not None:
            self._token()  # better now than at the first event
        connector = aiohttp.TCPConnector(limit=self._config.concurrency)
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=self._config.timeout / 1e9),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        ) as session:
            try:
                while True:
                    blocks = await self._inlet.take()
                    await self._post_all(session, blocks)
            finally:
                self._stop()

    def _stop(self) -> None:
        if self._responses is not None:
            self._responses.close()
        owed, self._owed = self._owed, {}
        for parcel in owed.values():
            self._fail(parcel, NotDelivered("the connector has stopped"))

    async def _post_all(self, session: aiohttp.ClientSession, blocks: Sequence[Block]) -> None:
        config = self._config
        most = 1 if config.batch == "event" else config.max_batch_events
        if config.order_by is None or not all(map(self._is_json, blocks)):
            waiting = parcels(blocks, most, config.max_batch_bytes)
            queues = [waiting] * min(config.concurrency, len(waiting))
        else:
            by_value = lanes(blocks, config.order_by.split("."), config.concurrency)
            queues = [parcels(lane, most, config.max_batch_bytes) for lane in by_value]
        for queue in {id(queue): queue for queue in queues}.values():
            queue.reverse()
        try:
            async with asyncio.TaskGroup() as group:
                for queue in queues:
                    group.create_task(self._post_some(session, queue))
        finally:
            for queue in queues:
                self._fail_all(queue, "the connector has stopped")

    def _is_json(self, block: Block) -> bool:
        return not self._inlet.encoded and block.codec.name == "json"

    async def _post_some(self, session: aiohttp.ClientSession, waiting: list[Parcel]) -> None:
        """The last of `waiting` first."""
        while waiting:
            parcel = waiting.pop()
            try:
                again = await self._post(session, parcel)
            except BaseException:
                self._fail(parcel, NotDelivered("the connector has stopped"))
                raise
            waiting += reversed(again)
            if self._rest:
                self._fail_all(waiting, "the sink before has failed")
                seconds, self._rest = self._rest, 0.0
                await asyncio.sleep(seconds)
                self._restore()

    async def _post(self, session: aiohttp.ClientSession, parcel: Parcel) -> Sequence[Parcel]:
        """Until it has an outcome; or, as it may be refused for one of its events, its halves."""
        if not self._is_json(parcel.blocks[0]):
            if self._config.batch != "event":
                self._reject(parcel, f'"batch": "{self._config.batch}" wants the codec json, and no postprocessors')
                return ()
            if self._config.order_by is not None:
                self._reject(parcel, "order_by wants the codec json, and no postprocessors")
                return ()
        answer = await self._until_answered(session, parcel, parcel.key or secrets.token_hex(16))
        if answer.status in TOO_MUCH and parcel.events > 1:
            return halves(parcel)
        if answer.good and answer.response is not None and self._responses is not None:
            await self._respond(self._responses, parcel, answer.status, answer.response)
        elif answer.good:
            self._ack(parcel)
        elif answer.refuses:
            self._reject(parcel, answer.reason)
        else:
            self._fail(parcel, NotDelivered(answer.reason))
        return ()

    async def _respond(self, events: ResponseEvents, parcel: Parcel, status: int, response: Response) -> None:
        number = next(self._numbers)

        def settled(cause: BaseException | None) -> None:
            owed = self._owed.pop(number, None)
            if owed is None:  # the run is over
                return
            if cause is None:
                self._ack(owed)
            else:
                self._fail(owed, NotDelivered(f"the answer was not delivered: {cause}"))

        self._owed[number] = parcel
        try:
            await events.send(response.body, meta_of(parcel, status, response.headers), response.problem, settled)
        except BaseException:
            self._owed.pop(number, None)  # the caller fails it
            raise

    def _ack(self, parcel: Parcel) -> None:
        for block in parcel.blocks:
            self._inlet.ack(block)

    def _fail_all(self, waiting: list[Parcel], why: str) -> None:
        while waiting:
            self._fail(waiting.pop(), NotDelivered(why))

    def _fail(self, parcel: Parcel, cause: NotDelivered) -> None:
        for block in parcel.blocks:
            self._inlet.fail(block, cause)

    def _reject(self, parcel: Parcel, reason: str) -> None:
        for block in parcel.blocks:
            self._inlet.reject(block, reason)

    async def _until_answered(self, session: aiohttp.ClientSession, parcel: Parcel, key: str) -> HttpAnswer:
        """The last answer: good, a refusal, or one of too many failures."""
        body = body_of(parcel, self._config.batch, self._inlet)
        content_type = type_of(parcel, self._config.batch, self._inlet)
        backoff = self._config.reconnect.retry.backoff()
        errors = 0
        while True:
            answer = await self._ask(session, body, content_type, key)
            if answer.good or answer.refuses:
                self._restore()
                self._backoff.reset()
                return answer
            errors += answer.status >= 500 and answer.status not in AWAY
            if self._inlet.replaceable:
                self._rest = max(self._backoff.next(), min(answer.retry_after, LONGEST_WAIT))
                self._trigger(answer.reason, self._rest)
                return answer
            wait = max(backoff.next(), min(answer.retry_after, LONGEST_WAIT))
            if errors >= self._config.attempts or backoff.gave_up:
                self._restore()  # a log waits before it sends them again, and lets others pass
                return answer
            self._retries.value += 1
            if backoff.failures > 1 or answer.retry_after:  # once: the server had just closed the connection, perhaps
                self._trigger(answer.reason, wait)
            await asyncio.sleep(wait)

    def _trigger(self, reason: str, seconds: float) -> None:
        if not self._triggered:
            self._inlet.log.warning(
                "cannot deliver", peer=str(self._config.address), reason=reason, retry_seconds=round(seconds, 2)
            )
        self._triggered = True
        self._inlet.trigger(reason)

    def _restore(self) -> None:
        if self._triggered:
            self._triggered = False
            self._inlet.restore()

    async def _ask(self, session: aiohttp.ClientSession, body: bytes, content_type: str, key: str) -> HttpAnswer:
        self._requests.value += 1
        try:
            headers = {"Content-Type": content_type, "Idempotency-Key": key, **self._config.headers, **self._token()}
            if self._responses is not None:
                headers["Accept-Encoding"] = "identity"
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
            return HttpAnswer(0, str(error))
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


def _seconds(headers: Mapping[str, str]) -> float:
    """A number of them, or a date: by the server's clock, and so is `Date`. Ours may be another."""
    retry_after = headers.get("Retry-After", "")
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    with suppress(ValueError, TypeError, OverflowError):
        until = email.utils.parsedate_to_datetime(retry_after).timestamp()
        now = email.utils.parsedate_to_datetime(headers["Date"]).timestamp() if "Date" in headers else time.time()
        return max(0.0, until - now)
    return 0.0


def _line(text: str) -> str:
    line = text.splitlines()[0] if text.splitlines() else ""
    return "".join(character if character.isprintable() else "?" for character in line)[:SHOWN]
