"""What a request is answered with: the bytes, and why it is not 200."""

from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from walflow.world import wall_ns

LISTED: Final = 100  # refused events in one answer
BARE: Final = (204, 304)  # they have no body
PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


class RefusedEvent(NamedTuple):
    """`number`: of the line or the event in its request, from 1. It says which in the answer: see `unit`."""

    number: int
    unit: str
    reason: str


class HttpReply(NamedTuple):
    """`headers`: whole lines. `closes`: what follows on this connection is not read."""

    status: int
    body: bytes
    headers: str = ""
    closes: bool = False
    content_type: str = "application/json"

    @property
    def content(self) -> bytes:
        return b"" if self.status in BARE else self.body

    def head(self, connection: str = "") -> bytes:
        """`connection`: the header of that name."""
        body = (
            ""
            if self.status in BARE
            else f"Content-Type: {self.content_type}\r\nContent-Length: {len(self.body)}\r\n"
        )
        lines = (
            f"HTTP/1.1 {self.status} {PHRASES.get(self.status, '')}\r\nServer: walflow\r\nDate: {_date()}\r\n"
            f"{body}{self.headers}"
        )
        return (f"{lines}Connection: {connection}\r\n\r\n" if connection else f"{lines}\r\n").encode("latin-1")


class HttpRefusal(Exception):
    """`later`: the client may send the same request again, and is told after how many seconds. `closes`: what follows
    on this connection is not read."""

    def __init__(
        self,
        status: int,
        reason: str,
        events: Sequence[RefusedEvent] = (),
        *,
        later: bool = False,
        closes: bool = False,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.events = events
        self.later = later
        self.closes = closes

    def reply(self, retry_after: int) -> HttpReply:
        headers = f"Retry-After: {retry_after}\r\n" if self.later else ""
        if self.status == 401:
            headers += "WWW-Authenticate: Bearer\r\n"
        return HttpReply(self.status, answer({"error": self.reason}, self.events), headers, self.closes)


def too_large(limit: int) -> HttpRefusal:
    return HttpRefusal(413, f"the body has more than max_body_bytes, {limit}, inflated", closes=True)


def answer(said: dict[str, object], refused: Sequence[RefusedEvent] = ()) -> bytes:
    if refused:
        listed = [{event.unit: event.number, "reason": event.reason} for event in refused[:LISTED]]
        said = {**said, "refused": listed, "refused_events": len(refused)}
    return msgspec.json.encode(said) + b"\n"


class _Clock:
    """The header Date, made once a second."""

    second = 0
    text = ""


def _date() -> str:
    now = wall_ns() // 1_000_000_000
    if now != _Clock.second:
        _Clock.second, _Clock.text = now, formatdate(now, usegmt=True)
    return _Clock.text
