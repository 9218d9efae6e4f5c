"""The session of one peer: proof of both sides, then one request at a time. docs/reference/spark-protocol.md
describes it."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, Protocol, TypeVar, cast

from connectors.spark.consumers import Consumers
from connectors.spark.durable_end import DurableEnd
from connectors.spark.serve.leases import Leases
from connectors.spark.serve.link import SparkLink, Stranger
from connectors.spark.serve.ranges import Data, LogRanges, RecordsPlace
from pyspark_walflow import wire
from pyspark_walflow.wire import Code, Damaged, FrameKind, RequestRefused, Right, WireKey
from walflow import Counter

LONGEST_WAIT: Final = 10.0  # seconds that WAIT keeps its peer at most
BUSY_SECONDS: Final = 5.0  # between two signs of life while a peer waits for its answer
NONCE: Final = re.compile(r"[0-9a-f]{16,64}")
LONGEST_NAME: Final = 200

Fields = Mapping[str, object]
Answer = TypeVar("Answer")

ALLOWED: Final[Mapping[FrameKind, frozenset[str]]] = {
    FrameKind.HEAD: frozenset((Right.FULL, Right.READ)),
    FrameKind.WAIT: frozenset((Right.FULL,)),
    FrameKind.PLAN: frozenset((Right.FULL, Right.READ)),
    FrameKind.LOCATE: frozenset((Right.FULL, Right.READ)),
    FrameKind.LEASE: frozenset((Right.FULL,)),
    FrameKind.READ: frozenset((Right.FULL, Right.READ)),
    FrameKind.COMMIT: frozenset((Right.FULL,)),
    FrameKind.STAGE: frozenset((Right.FULL, Right.STAGE)),
    FrameKind.PUBLISH: frozenset((Right.FULL,)),
    FrameKind.ABORT: frozenset((Right.FULL,)),
}


class SessionStaging(Protocol):
    """The interface for results of a query. Its methods raise Refused."""

    async def stage(self, name: str, lines: AsyncIterator[bytes]) -> tuple[int, int]: ...
    async def publish(self, query: str, batch: int, names: Sequence[str]) -> tuple[bool, int]: ...
    async def abort(self, names: Sequence[str]) -> None: ...


class Bridge(Protocol):
    """The interface of the connector for a session."""

    log_id: str
    token: str
    consumers: Consumers
    durable_end: DurableEnd
    ranges: LogRanges
    leases: Leases
    results: SessionStaging | None
    served_events: Counter
    served_bytes: Counter


class Session:
    """`peer`: its address, for people."""

    def __init__(self, bridge: Bridge, link: SparkLink, peer: str) -> None:
        self.peer = peer
        self.right = ""  # none before it was proved
        self._bridge = bridge
        self._link = link
        self._planned_for = ""  # the consumer of its lease
        self._answers: Mapping[FrameKind, Callable[[Fields], Awaitable[None]]] = {
            FrameKind.HEAD: self._head,
            FrameKind.WAIT: self._wait,
            FrameKind.PLAN: self._plan,
            FrameKind.LOCATE: self._locate,
            FrameKind.LEASE: self._lease,
            FrameKind.READ: self._read,
            FrameKind.COMMIT: self._commit,
            FrameKind.STAGE: self._stage,
            FrameKind.PUBLISH: self._publish,
            FrameKind.ABORT: self._abort,
        }

    def __repr__(self) -> str:
        return f"<Session of {self.peer}, {self.right or 'not proved'}>"

    async def greet(self) -> None:
        """Raises RequestRefused, Damaged and ConnectionResetError."""
        hello = await self._expect(FrameKind.HELLO)
        version = _integer(hello, "version")
        if version != wire.VERSION:
            raise RequestRefused(
                Code.VERSION,
                f"the client speaks version {version} of the protocol, this daemon {wire.VERSION}: "
                f"{'upgrade walflow' if version > wire.VERSION else 'upgrade pyspark_walflow'}",
            )
        right, theirs = _text(hello, "right"), _text(hello, "nonce")
        if right not in (Right.FULL, Right.READ, Right.STAGE):
            raise RequestRefused(Code.PROTOCOL, f"there is no right {right!r}")
        if NONCE.fullmatch(theirs) is None:
            raise RequestRefused(Code.PROTOCOL, "a nonce is 16 to 64 hexadecimal digits")
        ours = secrets.token_hex(16)
        await self._link.send(wire.control(FrameKind.CHALLENGE, {"nonce": ours}))
        proof = await self._expect(FrameKind.PROOF)
        key = self._key(right)
        if not wire.same(wire.prove(key, "client", theirs, ours), proof.get("proof")):
            raise RequestRefused(Code.DENIED, f"the {'token' if right == Right.FULL else 'ticket'} is not this log's")
        wanted = hello.get("log")
        if wanted is not None and wanted != self._bridge.log_id:
            raise RequestRefused(
                Code.WRONG_LOG,
                f"the log here is {self._bridge.log_id}, and {str(wanted)[:64]!r} was asked for: a checkpoint "
                "belongs to the log that it began with",
            )
        self.right = right
        self._link.frames.limit = wire.MAX_CONTROL
        proof_of_ours = wire.prove(key, "server", ours, theirs)
        await self._link.send(wire.control(FrameKind.WELCOME, {"log": self._bridge.log_id, "proof": proof_of_ours}))

    async def answer(self) -> None:
        """Answers the next request. Raises RequestRefused if the session continues, otherwise Damaged and
        ConnectionResetError."""
        kind, payload = await self._link.take()
        answer = self._answers.get(kind)
        if answer is None:
            raise Damaged(f"{kind.name} where a request should be")
        fields = wire.fields_of(payload)
        if self.right not in ALLOWED[kind]:
            if kind == FrameKind.STAGE:
                await self._drop_lines()
            raise RequestRefused(
                Code.DENIED, f"{kind.name} needs the token; this connection has the right {self.right!r}"
            )
        await answer(fields)

    async def refuse(self, error: RequestRefused) -> None:
        await self._link.send(wire.control(FrameKind.ERROR, {"code": error.code, "message": str(error)}))

    # requests

    async def _head(self, fields: Fields) -> None:
        await self._ok(self._heads(self._consumer_or_none(fields)))

    async def _wait(self, fields: Fields) -> None:
        consumer = self._consumer_or_none(fields)
        seconds = min(LONGEST_WAIT, _integer(fields, "ms") / 1000)
        await self._patiently(self._bridge.durable_end.wait(_integer(fields, "position"), seconds))
        await self._ok(self._heads(consumer))

    async def _plan(self, fields: Fields) -> None:
        if self._planned_for:
            self._bridge.consumers.used(self._planned_for)
        start = _integer(fields, "start")
        if fields.get("end") is not None:
            end = _integer(fields, "end")
            self._check(start, end)
            await self._ok({"end": end, "bytes": self._bridge.ranges.size(start, end)})
            return
        rows, size = max(1, _integer(fields, "rows")), max(1, _integer(fields, "bytes"))
        self._check(start, start)
        plan = await self._patiently(self._bridge.ranges.plan(start, rows, size))
        await self._ok({"end": plan.end, "bytes": plan.size})

    async def _locate(self, fields: Fields) -> None:
        first, end = _integer(fields, "first"), _integer(fields, "end")
        self._check(first, end)
        since, before = _time(fields, "since"), _time(fields, "before")
        first, end = await self._patiently(self._bridge.ranges.locate(first, end, since, before))
        if fields.get("exact") is True and first < end:
            first = await self._patiently(self._bridge.ranges.since(first, end, since))
        await self._ok({"first": first, "end": end})

    async def _lease(self, fields: Fields) -> None:
        bridge, consumer = self._bridge, _name(fields, "consumer")
        await self._patiently(bridge.consumers.admit(consumer))
        lease, scan, process = _name(fields, "lease"), _name_or_none(fields, "scan"), _name_or_none(fields, "process")
        who = f"{self.peer} ({process})" if process else self.peer
        bridge.leases.check(consumer, lease, scan, who)
        if fields.get("new") is not True:
            bridge.consumers.check_scan(consumer, scan)
        bridge.leases.take(consumer, lease, scan, who, self._link)
        bridge.consumers.came(consumer)
        self._planned_for = consumer
        await self._ok({"committed": bridge.consumers.committed(consumer)})

    async def _read(self, fields: Fields) -> None:
        first, end = _integer(fields, "first"), _integer(fields, "end")
        consumer = self._consumer_or_none(fields)
        self._check(first, end)
        places = self._bridge.ranges.places(first, end) if fields.get("files") is True else []
        if places:
            await self._send_places(first, end, places)
        else:
            await self._send_records(first, end, summed=fields.get("summed") is not False)
        if consumer is not None:
            self._bridge.consumers.used(consumer)
            self._bridge.consumers.served(consumer, end)
        await self._ok({})

    async def _send_places(self, first: int, end: int, places: Sequence[RecordsPlace]) -> None:
        for place in places:
            await self._link.send(wire.control(FrameKind.PLACE, place._asdict()))
        self._bridge.served_events.value += end - first
        self._bridge.served_bytes.value += self._bridge.ranges.size(first, end)

    async def _send_records(self, first: int, end: int, *, summed: bool) -> None:
        bridge = self._bridge
        async with aclosing(bridge.ranges.read(first, end, summed=summed)) as found:
            async for one in found:
                if isinstance(one, Data):
                    await self._link.send(one.head, one.records)
                    bridge.served_events.value += one.rows
                    bridge.served_bytes.value += len(one.records)
                else:
                    await self._link.send(wire.control(FrameKind.LOST, one._asdict()))

    async def _commit(self, fields: Fields) -> None:
        consumer = self._declared(_name(fields, "consumer"))
        position, scan = _integer(fields, "position"), _name_or_none(fields, "scan")
        if scan and scan != self._bridge.leases.scan_of(
            consumer
        ):  # a query that has ended, or one that was overtaken
            self._bridge.leases.check(consumer, "", scan, self.peer)
            self._bridge.consumers.check_scan(consumer, scan)
        committed = await self._patiently(self._bridge.consumers.commit(consumer, position, self.peer, scan))
        await self._ok({"committed": committed})

    async def _stage(self, fields: Fields) -> None:
        lines = _Lines(self._link)
        try:
            rows, size = await self._patiently(self._results().stage(_name(fields, "name"), lines.each()))
        except RequestRefused:
            await lines.drop()  # what follows is no request
            raise
        await self._ok({"rows": rows, "bytes": size})

    async def _publish(self, fields: Fields) -> None:
        names, batch = _names(fields), _integer(fields, "batch")
        fresh, rows = await self._patiently(self._results().publish(_name(fields, "query"), batch, names))
        await self._ok({"fresh": fresh, "rows": rows})

    async def _abort(self, fields: Fields) -> None:
        await self._patiently(self._results().abort(_names(fields)))
        await self._ok({})

    # what they share

    def _key(self, right: str) -> WireKey:
        full = WireKey.of_token(self._bridge.token)
        return full if right == Right.FULL else full.ticket(right, self._bridge.log_id)

    def _heads(self, consumer: str | None) -> dict[str, object]:
        bridge = self._bridge
        heads: dict[str, object] = {
            "log": bridge.log_id,
            "floor": bridge.consumers.oldest,
            "next": bridge.durable_end.next,
        }
        if consumer is not None:
            heads["committed"] = bridge.consumers.committed(consumer)
            heads["scan"] = bridge.consumers.scan(consumer)
        return heads

    def _check(self, first: int, end: int) -> None:
        if first < self._bridge.consumers.oldest:
            raise self._bridge.consumers.below_floor(first)
        if first > end:
            raise RequestRefused(Code.PROTOCOL, f"a range from {first} to {end} has its end before its beginning")
        after = self._bridge.durable_end.next
        if end > after:
            raise RequestRefused(
                Code.BEYOND_HEAD, f"position {end - 1} is not there yet: the log ends before {after}"
            )

    def _consumer_or_none(self, fields: Fields) -> str | None:
        if not fields.get("consumer"):
            return None
        return self._declared(_name(fields, "consumer"))

    def _declared(self, name: str) -> str:
        self._bridge.consumers.check_known(name)
        return name

    def _results(self) -> SessionStaging:
        if self._bridge.results is None:
            raise RequestRefused(
                Code.DENIED, "nothing is linked to this connector's `out`: results have nowhere to go"
            )
        return self._bridge.results

    async def _drop_lines(self) -> None:
        await _Lines(self._link).drop()

    async def _ok(self, fields: Fields) -> None:
        await self._link.send(wire.control(FrameKind.OK, fields))

    async def _expect(self, kind: FrameKind) -> dict[str, object]:
        got, payload = await self._link.take()
        if got != kind:
            raise Damaged(f"{got.name} where {kind.name} should be")
        return wire.fields_of(payload)

    async def _patiently(self, coming: Awaitable[Answer]) -> Answer:
        """Returns the result of long work, and meanwhile sends BUSY every few seconds."""
        task = asyncio.ensure_future(coming)
        try:
            while not (await asyncio.wait([task], timeout=BUSY_SECONDS))[0]:
                await self._link.send(wire.control(FrameKind.BUSY, {}))
        except BaseException:
            task.cancel()
            await asyncio.wait([task])
            raise
        return task.result()


class _Lines:
    """LINES up to STAGED."""

    def __init__(self, link: SparkLink) -> None:
        self._link = link
        self._ended = False

    async def each(self) -> AsyncIterator[bytes]:
        while not self._ended:
            kind, payload = await self._link.take()
            if kind == FrameKind.STAGED:
                self._ended = True
            elif kind == FrameKind.LINES:
                yield payload
            else:
                raise Damaged(f"{kind.name} among the LINES of a STAGE")

    async def drop(self) -> None:
        async for _ in self.each():
            pass


def refusal(error: Exception) -> RequestRefused:
    """The last message to the peer, with which the session ends."""
    if isinstance(error, RequestRefused):
        return error
    if isinstance(error, Stranger | Damaged):
        return RequestRefused(Code.PROTOCOL, str(error))
    if isinstance(error, RecursionError):
        return RequestRefused(Code.PROTOCOL, "a frame whose JSON is nested too deeply")
    if isinstance(error, TimeoutError):
        return RequestRefused(Code.PROTOCOL, "no proof of the token within handshake_timeout")
    return RequestRefused(Code.INTERNAL, f"{type(error).__name__}: {error}".splitlines()[0])


def _integer(fields: Fields, name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise RequestRefused(Code.PROTOCOL, f"`{name}` must be a whole number, and not below 0")
    return value


def _time(fields: Fields, name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 63:
        raise RequestRefused(Code.PROTOCOL, f"`{name}` must be a time: a whole number of nanoseconds since 1970")
    return value


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise RequestRefused(Code.PROTOCOL, f"`{name}` must be text")
    return value


def _name(fields: Fields, name: str) -> str:
    value = _text(fields, name)
    if not value or len(value) > LONGEST_NAME or not value.isprintable():
        raise RequestRefused(Code.PROTOCOL, f"`{name}` must be 1 to {LONGEST_NAME} printable characters")
    return value


def _name_or_none(fields: Fields, name: str) -> str:
    return _name(fields, name) if fields.get(name) else ""


def _names(fields: Fields) -> list[str]:
    value = fields.get("names")
    if not isinstance(value, list):
        raise RequestRefused(Code.PROTOCOL, "`names` must be a list")
    return [_name({"names": one}, "names") for one in cast(list[object], value)]
