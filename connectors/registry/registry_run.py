"""One run: a block after the other, in order.
What is made of a block has the codec of its schema, so a value is not written anew."""

import math
import struct
from base64 import b64encode
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple, TypeGuard

import aiohttp

from connectors.registry.keys import SchemaRegistryKeys
from connectors.registry.registry import NamedSchema, RegisteredSchemas, RegistryAway, UnusableSchema
from walflow import Block, CannotDecode, CannotEncode, Codec, Frames, Inlet, Outlet, Receipt, StreamId
from walflow.codecs import BINARY
from walflow.framing import frames_of
from walflow.net import Contexts, Failure, HeldPart, NotConfirmed, RequestSeconds, RetryQueue, RetrySink, socket_of

ATTEMPTS: Final = 3  # that count
PATIENT: Final = 4  # failures; then others are tried
HEAD: Final = struct.Struct(">bI")  # zero, and the schema's id


class TranslatedEvent(NamedTuple):
    """`refused`: why it is none."""

    payload: bytes = b""
    schema: int = 0
    codec: Codec = BINARY
    refused: str = ""


class SchemaRegistryRun:
    def __init__(self, config: SchemaRegistryKeys, inlet: Inlet, out: Outlet) -> None:
        self._config = config
        self._inlet = inlet
        self._out = out
        self._target: NamedSchema | None = None
        retry = config.reconnect.retry
        # one at a time, so that events stay in order
        self._queue = RetryQueue[Block](1, ATTEMPTS, retry.backoff(), most=retry.max_retries)
        self._sink = RetrySink(
            inlet, self._queue, retry.backoff(), add=self._add, fail=inlet.fail, blocks=_itself, halve=_halves
        )
        self._open: dict[Receipt, Block] = {}  # what is not settled, and what it was made of

    async def run(self) -> None:
        """Until it is cancelled. Raises NoSecret and BadCertificate."""
        config = self._config
        stream = self._out.stream({})
        headers: dict[str, str] = {}
        if config.username is not None and config.password is not None:
            login = f"{config.username}:{config.password.read().get_secret_value()}"
            headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        secured = Contexts(config.tls, self._inlet).current if config.secure else True
        try:
            async with aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=secured, socket_factory=socket_of),
                timeout=aiohttp.ClientTimeout(total=config.timeout / 1e9),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=headers,
                trust_env=False,
            ) as session:
                schemas = RegisteredSchemas(
                    session, config.url, self._inlet.counter("requests_total"), RequestSeconds(self._inlet)
                )
                await self._sink.run(partial(self._translate, schemas, stream.id))
        finally:
            stream.close()
            self._end(NotConfirmed("walflow has stopped"))

    def _add(self, blocks: Sequence[Block]) -> None:
        self._queue.add((block, block.frames.count) for block in blocks)

    async def _translate(self, schemas: RegisteredSchemas, stream: StreamId, held: HeldPart[Block]) -> None:
        try:
            events = await (self._decoded if self._config.mode == "decode" else self._encoded)(schemas, held.part)
        except RegistryAway as error:
            self._sink.failed(held, str(error), self._failure)
            return
        try:
            await self._send(held.part, events, stream)
        finally:
            self._sink.passed(held)

    @property
    def _failure(self) -> Failure:
        """One schema may be to blame, which others do not need; of the subject's, all events need the same."""
        return Failure(PATIENT, counts=True) if self._config.mode == "decode" else Failure(math.inf, counts=False)

    # an event, in its other form

    async def _decoded(self, schemas: RegisteredSchemas, block: Block) -> list[TranslatedEvent]:
        """Raises RegistryAway."""
        values = _values(block)
        numbers: set[int] = {HEAD.unpack_from(value)[1] for value in values if _has_head(value)}
        unusable: dict[int, str] = {}
        codecs: dict[int, Codec] = {}
        for number in sorted(numbers):
            try:
                codecs[number] = await schemas.find(number)
            except UnusableSchema as error:
                unusable[number] = str(error)
        return [_decoded_event(value, codecs, unusable) for value in values]

    async def _encoded(self, schemas: RegisteredSchemas, block: Block) -> list[TranslatedEvent]:
        """Raises RegistryAway."""
        if self._target is None:
            assert self._config.subject is not None
            self._target = await schemas.newest(self._config.subject)
        number, codec = self._target
        events: list[TranslatedEvent] = []
        for value in _values(block):
            if isinstance(value, CannotDecode):
                events.append(TranslatedEvent(refused=str(value)))
                continue
            try:
                events.append(TranslatedEvent(HEAD.pack(0, number) + codec.encode(value), number))
            except CannotEncode as error:
                events.append(TranslatedEvent(refused=str(error)))
        return events

    # and on

    async def _send(self, block: Block, events: Sequence[TranslatedEvent], stream: StreamId) -> None:
        runs = [list(run) for _, run in groupby(events, key=lambda event: (event.schema, event.refused))]
        parts = deque(zip(block.split([len(run) for run in runs]), runs, strict=True))
        try:
            while parts:
                part, run = parts[0]
                if run[0].refused:
                    self._inlet.reject(part, run[0].refused)
                elif not self._out.linked:
                    self._inlet.ack(part)
                else:
                    await self._send_part(part, run, stream)
                parts.popleft()
        finally:
            for part, _ in parts:
                self._inlet.fail(part, NotConfirmed("walflow has stopped"))

    async def _send_part(self, part: Block, run: Sequence[TranslatedEvent], stream: StreamId) -> None:
        while not self._out.send(made := self._made(part, run, stream)):
            self._forget(made.receipt)
            await self._out.ready()

    def _made(self, part: Block, run: Sequence[TranslatedEvent], stream: StreamId) -> Block:
        data, framing = frames_of([event.payload for event in run])
        receipt = Receipt(partial(self._settled, part), len(run))
        self._open[receipt] = part
        meta: Mapping[str, object] = {**part.meta, "schema_registry": {"id": run[0].schema}}
        return Block(
            stream,
            Frames(data, len(run), framing),
            run[0].codec,
            receipt,
            ingest_ns=part.ingest_ns,
            meta=meta,
            event_metas=part.event_metas,
        )

    def _settled(self, part: Block, receipt: Receipt) -> None:
        self._open.pop(receipt, None)
        if receipt.cause is None:
            self._inlet.ack(part)
        else:
            self._inlet.fail(part, receipt.cause, receipt.done)

    def _forget(self, receipt: Receipt) -> None:
        self._open.pop(receipt, None)
        receipt.withdraw()

    def _end(self, reason: BaseException) -> None:
        unsettled = [*self._open.values()]
        for receipt in list(self._open):
            self._forget(receipt)
        for block in unsettled:
            self._inlet.fail(block, reason)


def _halves(block: Block) -> list[tuple[Block, int]]:
    half = block.frames.count // 2
    return [(part, part.frames.count) for part in block.split([half, block.frames.count - half])]


def _values(block: Block) -> list[object]:
    """A CannotDecode where there is none: a number beyond what an event may have passes a source unread."""
    try:
        return block.values
    except CannotDecode:
        return [_value(block, payload) for payload in block.frames.payloads()]


def _value(block: Block, payload: bytes) -> object:
    try:
        return block.timed_codec.decode(payload)
    except CannotDecode as error:
        return error


def _has_head(value: object) -> TypeGuard[bytes]:
    return isinstance(value, bytes) and len(value) >= HEAD.size and value[0] == 0


def _decoded_event(value: object, codecs: Mapping[int, Codec], unusable: Mapping[int, str]) -> TranslatedEvent:
    if not isinstance(value, bytes):
        return TranslatedEvent(
            refused="not in the registry's wire format: the event is no binary, so use the codec binary"
        )
    if not _has_head(value):
        return TranslatedEvent(
            refused="not in the registry's wire format: it begins with a zero byte and 4 bytes of an id"
        )
    number = HEAD.unpack_from(value)[1]
    codec = codecs.get(number)
    if codec is None:
        return TranslatedEvent(refused=unusable[number])
    datum = value[HEAD.size :]
    try:
        codec.decode(datum)
    except CannotDecode as error:
        return TranslatedEvent(refused=f"schema {number}: {error}")
    return TranslatedEvent(datum, number, codec)


def _itself(block: Block) -> Sequence[Block]:
    return (block,)
