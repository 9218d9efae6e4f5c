"""A registry by Confluent's protocol: `GET /schemas/ids/7` and `GET /subjects/NAME/versions/latest`. A schema of an
id never changes, so each is asked for once."""

import asyncio
import json
from collections.abc import Mapping
from typing import Final, NamedTuple, cast
from urllib.parse import quote

import aiohttp

from walflow import Codec, Counter, WalflowError
from walflow.codecs import make
from walflow.net import RequestSeconds, connect_problem
from walflow.world import monotonic

LARGEST: Final = 4 << 20  # bytes of an answer
KNOWN: Final = 1000  # schemas; a thousand in use at a time would be many


class RegistryAway(WalflowError):
    """The registry has not answered, or cannot now. The same question may have an answer later."""


class UnusableSchema(WalflowError):
    """The registry has no schema of this id, or one that cannot be used. It will be so later too."""


class NamedSchema(NamedTuple):
    number: int
    codec: Codec


class RegisteredSchemas:
    def __init__(self, session: aiohttp.ClientSession, url: str, asked: Counter, seconds: RequestSeconds) -> None:
        self._session = session
        self._url = url
        self._known: dict[int, Codec] = {}
        self._asked = asked
        self._seconds = seconds

    def __repr__(self) -> str:
        return f"<RegisteredSchemas of {self._url}, {len(self._known)} known>"

    def known(self, number: int) -> Codec | None:
        return self._known.get(number)

    async def find(self, number: int) -> Codec:
        """Raises RegistryAway and UnusableSchema."""
        found = self._known.get(number)
        if found is None:
            found = _codec(number, await self._get(f"/schemas/ids/{number}", f"schema {number}"))
            self._remember(number, found)
        return found

    async def newest(self, subject: str) -> NamedSchema:
        """Raises RegistryAway and UnusableSchema.
        A subject without a schema may get one, so that is RegistryAway too."""
        name = f"the subject {subject}"
        try:
            answer = await self._get(f"/subjects/{quote(subject, safe='')}/versions/latest", name)
        except UnusableSchema as error:
            raise RegistryAway(str(error)) from error
        number = answer.get("id")
        if type(number) is not int:
            raise RegistryAway(f"the registry names no id for {name}")
        return NamedSchema(number, _codec(number, answer))

    def _remember(self, number: int, codec: Codec) -> None:
        if len(self._known) >= KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[number] = codec

    async def _get(self, path: str, what: str) -> Mapping[str, object]:
        self._asked.value += 1
        began = monotonic()
        try:
            async with self._session.get(self._url + path, allow_redirects=False) as answer:
                body = await _body(answer.content)
                status = answer.status
        except (aiohttp.ClientError, OSError, TimeoutError, RegistryAway) as error:
            self._seconds.observe("failed", monotonic() - began)
            if isinstance(error, RegistryAway):
                raise
            why = _line(error)
            if isinstance(error, aiohttp.ClientConnectorError):
                why = connect_problem(error.host, error.port, error.os_error)
            raise RegistryAway(f"the registry does not answer: {why}") from error
        self._seconds.observe(
            "taken" if status == 200 else "refused" if status == 404 else "failed", monotonic() - began
        )
        if status == 404:
            raise UnusableSchema(f"the registry does not know {what}")
        if status != 200:
            raise RegistryAway(f"the registry answers {status} for {what}")
        try:
            told = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RegistryAway(f"the registry's answer for {what} is no JSON") from error
        if not isinstance(told, dict):
            raise RegistryAway(f"the registry's answer for {what} is no record")
        return cast(Mapping[str, object], told)


async def _body(content: aiohttp.StreamReader) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := await content.readany():
        size += len(part)
        if size > LARGEST:
            raise RegistryAway(f"the registry's answer has more than {LARGEST >> 20} MiB")
        parts.append(part)
        await asyncio.sleep(0)
    return b"".join(parts)


def _codec(number: int, answer: Mapping[str, object]) -> Codec:
    """Raises UnusableSchema. The codec has the schema whole, so a log can read its events without the registry."""
    kind, text = answer.get("schemaType", "AVRO"), answer.get("schema")
    if kind != "AVRO":
        raise UnusableSchema(f"schema {number} is {kind}, and not Avro")
    if answer.get("references"):
        raise UnusableSchema(f"schema {number} refers to others, which is not supported")
    if not isinstance(text, str):
        raise UnusableSchema(f"schema {number} is no text")
    try:
        return make("avro", {"schema": json.loads(text), "format": "datum"})
    except (WalflowError, ValueError, RecursionError) as error:
        raise UnusableSchema(f"schema {number}: {_line(error)}") from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
