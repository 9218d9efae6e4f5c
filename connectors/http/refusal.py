"""Why a request is not answered with 200."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

LISTED: Final = 100  # refused events in one answer


class RefusedEvent(NamedTuple):
    """`number`: of the line or the event in its request, from 1. It says which in the answer: see `unit`."""

    number: int
    unit: str
    reason: str


class HttpRefusal(Exception):
    """`later`: the client may send the same request again, and is told after how many seconds. `closes`: what follows on
    this connection is not read."""

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

    def response(self, retry_after: int) -> web.Response:
        response = json_response(self.status, answer({"error": self.reason}, self.events))
        if self.later:
            response.headers["Retry-After"] = str(retry_after)
        if self.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        if self.closes:
            response.force_close()
        return response


def answer(said: dict[str, object], refused: Sequence[RefusedEvent] = ()) -> bytes:
    if refused:
        listed = [{event.unit: event.number, "reason": event.reason} for event in refused[:LISTED]]
        said = {**said, "refused": listed, "refused_events": len(refused)}
    return msgspec.json.encode(said) + b"\n"


def json_response(status: int, body: bytes) -> web.Response:
    response = web.Response(body=body, status=status, content_type="application/json")
    response.headers["Server"] = "walflow"  # not which libraries, and of which version
    return response
