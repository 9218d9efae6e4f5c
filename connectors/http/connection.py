"""One client: its requests are answered in their order, and it has so much time for each step."""

import asyncio
from enum import Enum
from typing import Final, Protocol, cast

from connectors.http.refusal import HttpRefusal, HttpReply
from connectors.http.request import HttpRequest
from connectors.http.request_parser import RequestParser
from walflow import Stream, Timer
from walflow.net import LATE, TlsProtocol

TURN: Final = 64  # requests of one client, before others have their turn
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientWait(Enum):
    """What a connection waits for."""

    HEAD = "the head of its next request"
    BODY = "the rest of a body"
    OUTCOME = "the outcome of its events"
    END = "its end: a body is read and dropped, so that the client reads why"


class RequestTaker(Protocol):
    """Decides what a request means. Its functions may raise HttpRefusal where they say so."""

    def begin(self, request: HttpRequest) -> None:
        """Its head has come. Raises HttpRefusal."""
        ...

    def take(self, request: HttpRequest) -> None:
        """All of it has come. It is answered by `reply` of its connection, possibly within this call.
        Raises HttpRefusal."""
        ...

    def refused(self, refusal: HttpRefusal) -> HttpReply: ...

    def late(self) -> HttpRefusal:
        """There is no outcome within the time."""
        ...

    def failed(self, error: Exception) -> HttpRefusal:
        """A bug of ours."""
        ...

    def idle(self, connection: "HttpConnection", *, idle: bool) -> None:
        """It has no request, from now on; or it has one again."""
        ...

    def left(self, connection: "HttpConnection") -> None: ...

    @property
    def leaving(self) -> bool:
        """No request is taken any more: they go to the next process."""
        ...

    def seconds(self, wait: ClientWait) -> float:
        """Seconds that the wait may take."""
        ...


class HttpConnection(asyncio.Protocol):
    __slots__ = (
        "_advancing",
        "_answered",
        "_busy",
        "_deadline",
        "_ending",
        "_full",
        "_last",
        "_loop",
        "_once",
        "_parser",
        "_paused",
        "_taker",
        "_timer",
        "_timer_at",
        "_wait",
        "_wait_of",
        "came",
        "host",
        "port",
        "relayed",
        "secure",
        "stream",
        "transport",
        "unread",
        "unread_since",
    )

    def __init__(
        self, taker: RequestTaker, host: str, port: int, came: bytes = b"", *, relayed: bool = False
    ) -> None:
        """`came`: the process before had read it. `relayed`: by the process before, which ends soon."""
        self.host = host
        self.port = port
        self.came = came
        self.relayed = relayed
        self.transport: asyncio.Transport | None = None
        self.secure: TlsProtocol | None = None
        self.stream: Stream | None = None  # of its events, from the first one on
        self.unread = 0  # bytes of answers at the last look, and since when
        self.unread_since = 0.0
        self._taker = taker
        self._loop = asyncio.get_running_loop()
        self._parser = RequestParser(self._begun)
        self._busy = False  # the first request has been taken, and is not answered
        self._last = False  # what is being answered is the last
        self._once = relayed
        self._ending = False  # nothing more is answered
        self._advancing = False
        self._paused = False  # nothing is read
        self._full = False  # the client does not read its answers
        self._answered = 0
        self._wait = ClientWait.END
        self._wait_of = 0  # how many requests were answered when it began
        self._deadline = 0.0
        self._timer: Timer | None = None  # fires before the deadline, or at it
        self._timer_at = 0.0

    def __repr__(self) -> str:
        return f"<HttpConnection {self.host}:{self.port}, waits for {self._wait.value}>"

    # the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._look_at_wait()
        if self.came:
            came, self.came = self.came, b""
            self.data_received(came)

    def data_received(self, data: bytes) -> None:
        if not self._ending:
            self._parser.put(data)
            self.advance()

    def eof_received(self) -> bool:
        """The client sends no more. Its requests that are complete are answered."""
        queue = self._parser.queue
        self._last = True
        if self._ending or not queue or not queue[0].complete:
            self._end(complete=True)
        return not self._ending

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._ending = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for number, request in enumerate(self._parser.queue):
            request.over = True
            if number or not self._busy:  # its events are in the flow, or will be
                request.release()
        self._taker.left(self)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self.advance()

    def abort(self) -> None:
        self._ending = True
        if self.secure is not None:
            self.secure.transport.abort()
        elif self.transport is not None:
            self.transport.abort()

    def finish(self) -> None:
        """Closes it, once what has been taken is answered."""
        self._last = True
        if not self._busy:
            self._end(complete=True)

    @property
    def waits_for_outcome(self) -> bool:
        return self._busy

    def rest(self) -> bytes | None:
        """What came and is not answered, if another process could go on with that alone: it is between two requests,
        or has complete ones. None: it could not, now or ever. Call it once, unless it says None."""
        transport, queue = self.transport, self._parser.queue
        if transport is None or transport.is_closing() or transport.get_write_buffer_size():
            return None
        if self._busy or self._ending or self._last or not self._parser.between:
            return None
        if any(not request.complete or request.refusal is not None or request.without_text for request in queue):
            return None
        return b"".join([request.written_anew() or b"" for request in queue]) + self._parser.unparsed()

    # requests

    def advance(self) -> None:
        """Goes on, as far as it goes without waiting."""
        if self._advancing:
            return
        self._advancing = True
        queue = self._parser.queue
        turns = TURN
        try:
            while not (self._busy or self._full or self._ending):
                if queue and self._taker.leaving and queue[0].refusal is None:
                    if not self._parser.waiting or self._parser.between:
                        break
                    self._parser.go()
                elif queue and (queue[0].complete or queue[0].refusal is not None):
                    if not turns:
                        self._loop.call_soon(self.advance)
                        break
                    turns -= 1
                    self._serve(queue[0])
                elif self._parser.waiting:
                    self._parser.go()
                else:
                    break
        except Exception as error:  # noqa: BLE001  # any bug: the other requests go on
            self._taker.failed(error)
            self.abort()
        finally:
            self._advancing = False
        self._read_on(wanted=not self._parser.waiting)
        self._look_at_wait()

    def _begun(self, request: HttpRequest) -> None:
        request.connection = self
        try:
            self._taker.begin(request)
        except HttpRefusal as refusal:
            request.refuse(refusal)
            return
        if request.header("expect").lower() == "100-continue" and self._parser.queue[0] is request:
            self._write(CONTINUE)

    def _serve(self, request: HttpRequest) -> None:
        if request.refusal is not None:
            self.reply(request, self._taker.refused(request.refusal))
            return
        self._busy = True
        try:
            self._taker.take(request)
        except HttpRefusal as refusal:
            request.refuse(refusal)
            self.reply(request, self._taker.refused(refusal))
        except Exception as error:  # noqa: BLE001  # any bug: only this request fails
            request.release()
            self.reply(request, self._taker.refused(self._taker.failed(error)))

    def reply(self, request: HttpRequest, reply: HttpReply) -> None:
        """To the first request that is not answered."""
        if request.over:
            return
        request.over = True
        self._parser.queue.popleft()
        self._busy = False
        self._answered += 1
        closes = reply.closes or self._last or self._once or not request.keep
        kept = "keep-alive" if request.version == "1.0" else ""
        self._write(reply.head("close" if closes else kept) + (b"" if request.method == "HEAD" else reply.content))
        if closes:
            self._end(complete=request.complete)
        self.advance()

    def _write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def _end(self, *, complete: bool) -> None:
        """`complete`: nothing more comes that would keep the client from reading its answer."""
        self._ending = True
        self._parser.stop()
        if complete and self.transport is not None:
            self.transport.close()  # once what was written is gone

    def _read_on(self, *, wanted: bool) -> None:
        if self.transport is None or self.transport.is_closing() or wanted is not self._paused:
            return
        self._paused = not wanted
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    # time

    def _look_at_wait(self) -> None:
        """One timer, which is seldom set: it looks at the deadline when it fires."""
        queue = self._parser.queue
        if self._ending:
            wait = ClientWait.END
        elif not queue:
            wait = ClientWait.HEAD
        else:
            wait = ClientWait.OUTCOME if self._busy else ClientWait.BODY
        if wait is self._wait and self._wait_of == self._answered:
            return
        if wait is ClientWait.HEAD or self._wait is ClientWait.HEAD:
            self._taker.idle(self, idle=wait is ClientWait.HEAD)
        self._wait = wait
        self._wait_of = self._answered
        self._begin_wait()

    def _begin_wait(self) -> None:
        self._deadline = self._loop.time() + self._taker.seconds(self._wait)
        if self._timer is None or self._timer_at > self._deadline:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.transport is not None and self._deadline != float("inf"):
            self._timer_at = self._deadline
            self._timer = self._loop.call_at(self._deadline, self._look_at_time)

    def _look_at_time(self) -> None:
        self._timer = None
        now = self._loop.time()
        if now < self._deadline:
            self._set_timer()
        elif now - self._timer_at > LATE:  # the process was stopped: what the client sent meanwhile is not read yet
            self._begin_wait()
        else:
            self._time_out()

    def _time_out(self) -> None:
        queue = self._parser.queue
        if self._wait is ClientWait.BODY and queue:
            seconds = self._taker.seconds(ClientWait.BODY)
            queue[0].refuse(HttpRefusal(408, f"the body has not come within {seconds:g} s", closes=True))
            self.advance()
        elif self._wait is ClientWait.OUTCOME and queue:
            self.reply(queue[0], self._taker.refused(self._taker.late()))
        elif self.transport is not None:
            self._ending = True
            self.transport.close()
