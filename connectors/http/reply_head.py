"""What the metadata of an event says of an answer: of which request it is, its status and its headers."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeGuard, cast

from connectors.http.request import HEAD_BYTES

HOP_BY_HOP: Final = ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
OURS: Final = {*HOP_BY_HOP, "content-length", "content-encoding", "date", "server"}
TOKEN: Final = "!#$%&'*+-.^_`|~"  # of a header's name, beside letters and digits (RFC 9110)


class BadReply(Exception):
    """An event that is no answer. The text says why."""


class ReplyHead(NamedTuple):
    """`headers`: whole lines. `content_type`: "" where the event names none."""

    status: int = 200
    headers: str = ""
    content_type: str = ""


def request_of(meta: Mapping[str, object]) -> int:
    """The number of its request. -1: none is named."""
    number = _record(meta.get("http_server")).get("request_id")
    return number if type(number) is int else -1


def head_of(meta: Mapping[str, object]) -> ReplyHead:
    """Of `$http_server.response`, or of `$response`. Raises BadReply."""
    said = _record(meta.get("http_server")).get("response", meta.get("response"))
    if said is None:
        return ReplyHead()
    if not _is_record(said):
        raise BadReply("$response is no record")
    status = said.get("status", 200)
    if type(status) is not int or not 200 <= status <= 599:
        raise BadReply("$response.status is no integer from 200 to 599")
    headers = said.get("headers", {})
    if not _is_record(headers):
        raise BadReply("$response.headers is no record")
    lines, content_type = "", ""
    for name, value in _single(headers):
        if name.lower() == "content-type":
            content_type = content_type or value
        elif name.lower() not in OURS:
            lines += f"{name}: {value}\r\n"
    if len(lines) + len(content_type) > HEAD_BYTES:
        raise BadReply(f"$response.headers has more than {HEAD_BYTES} bytes")
    return ReplyHead(status, lines, content_type)


def _single(headers: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each name with each of its values. A line end in a value would begin another header, or another answer. Raises
    BadReply."""
    for name, said in headers.items():
        if not name or not all(c.isascii() and (c.isalnum() or c in TOKEN) for c in name):
            raise BadReply(f"{name[:50]!r} is no name of a header")
        for value in cast(list[object], said) if isinstance(said, list) else [said]:
            if not isinstance(value, str) or not value.isascii() or not value.isprintable():
                raise BadReply(f"the header {name[:50]} holds what no header can hold")
            yield name, value


def _record(value: object) -> Mapping[str, object]:
    return value if _is_record(value) else {}


def _is_record(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)
