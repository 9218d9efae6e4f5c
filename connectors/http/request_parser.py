"""Bytes of one client into its requests. httptools (llhttp) reads HTTP; the limits are ours."""

from collections import deque
from collections.abc import Callable
from typing import Final

import httptools

from connectors.http.refusal import HttpRefusal
from connectors.http.request import HEAD_BYTES, HttpRequest

HEAD_END: Final = b"\r\n\r\n"
SLICE: Final = 4096  # bytes read ahead of what is answered: as many requests as fit in there


class RequestParser:
    """`queue`: the requests whose heads have come, the first one first; its user takes them out. `begun` is called
    with each of them."""

    __slots__ = ("_at", "_begun", "_data", "_llhttp", "_long", "_reading", "_resumed", "_unended", "queue")

    def __init__(self, begun: Callable[[HttpRequest], None]) -> None:
        self.queue: deque[HttpRequest] = deque()
        self._begun = begun
        self._llhttp: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._reading: HttpRequest | None = None  # its end has not come
        self._resumed: HttpRequest | None = None  # its head has been read by another parser
        self._unended = 0  # bytes of a head whose end has not come
        self._long = False  # the body of the last request was longer than SLICE
        self._data = b""  # what is not parsed begins at `_at`
        self._at = 0

    def __repr__(self) -> str:
        return f"<RequestParser {len(self.queue)} requests, {len(self._data) - self._at} bytes not parsed>"

    @property
    def waiting(self) -> bool:
        """There are bytes to be parsed."""
        return self._at < len(self._data)

    @property
    def between(self) -> bool:
        """All that was parsed are complete requests."""
        return self._reading is None and self._llhttp is not None

    def unparsed(self) -> bytes:
        return self._data[self._at :]

    def put(self, data: bytes) -> None:
        self._data = self._data[self._at :] + data if self.waiting else data
        self._at = 0

    def stop(self) -> None:
        """What follows is no request of ours."""
        self._llhttp = None
        self._data = b""
        self._at = 0

    def go(self) -> None:
        """Parses what is left of the first body, and a little more."""
        if self._llhttp is None:
            return
        size = self._next_size(len(self._data) - self._at)
        part = self._data if size == len(self._data) else memoryview(self._data)[self._at : self._at + size]
        self._at += size
        if self._at == len(self._data):
            self._data = b""
            self._at = 0
        try:
            self._feed(part)
        except httptools.HttpParserCallbackError as error:
            self.stop()
            raise error.__context__ or error from None
        except httptools.HttpParserError as error:
            self._refuse(HttpRefusal(400, f"this is no HTTP request: {error}", closes=True))
        else:
            self._look_at_what_is_read(size)

    def _next_size(self, left: int) -> int:
        if self._reading is not None:
            return min(max(SLICE, self._reading.awaited), left)
        if left > SLICE and self._long:  # so is this one, most likely: its body comes in one piece then
            end = self._data.find(HEAD_END, self._at, self._at + SLICE)
            if end >= 0:
                return end + len(HEAD_END) - self._at
        return min(SLICE, left)

    def _feed(self, data: bytes | memoryview) -> None:
        while self._llhttp is not None:
            try:
                self._llhttp.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = memoryview(data)[upgrade.args[0] :]
                self._stay()
            else:
                return

    def _stay(self) -> None:
        """The client would like another protocol: Java's sends this with each first request. We stay with this one,
        which is allowed. llhttp takes what follows for the other protocol, so a new one is told what it is."""
        request = self._reading
        assert request is not None
        if request.refusal is not None:  # the method CONNECT, for instance
            self.stop()
            return
        chunked = "transfer-encoding" in request.headers
        framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {request.length}"
        self._resumed = request
        self._llhttp = httptools.HttpRequestParser(self)
        self._llhttp.feed_data(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode())

    def _look_at_what_is_read(self, size: int) -> None:
        request = self._reading
        if request is None:
            return
        if request.headed:
            request.fed += size
            request.look_at_framing()
        else:
            self._unended += size
            if self._unended > HEAD_BYTES + SLICE:
                request.refuse(HttpRefusal(431, f"the head has more than {HEAD_BYTES} bytes", closes=True))
        if request.refusal is not None:
            self._refuse(request.refusal)

    def _refuse(self, refusal: HttpRefusal) -> None:
        """The request that is being read, or what is none."""
        request = self._reading or HttpRequest()
        request.refuse(refusal)
        if not request.headed:
            self.queue.append(request)
        self.stop()

    # called by httptools

    def on_message_begin(self) -> None:
        self._reading = self._resumed or HttpRequest()
        self._unended = 0

    def on_url(self, url: bytes) -> None:
        assert self._reading is not None
        if self._resumed is None:
            self._reading.add_target(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self._reading is not None
        self._reading.add_header(name, value)

    def on_headers_complete(self) -> None:
        request, llhttp = self._reading, self._llhttp
        assert request is not None
        assert llhttp is not None
        if self._resumed is not None:
            self._resumed = None
            return
        request.end_head(llhttp.get_method().decode("latin-1"), llhttp.get_http_version(), llhttp.should_keep_alive())
        self._long = request.length > SLICE
        self.queue.append(request)
        if request.refusal is None:
            self._begun(request)

    def on_body(self, body: bytes) -> None:
        assert self._reading is not None
        self._reading.add(body)

    def on_message_complete(self) -> None:
        assert self._reading is not None
        assert self._llhttp is not None
        if not self._llhttp.should_upgrade():
            self._reading.end_body()
            self._reading = None
