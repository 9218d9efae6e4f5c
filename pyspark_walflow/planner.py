"""The driver's conversation with the daemon: a connection that is made again, and how long that is tried."""

import os
import secrets
import socket
import ssl
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, NamedTuple

from pyspark_walflow.client import ANSWER_SECONDS, CONNECT_SECONDS, Client, Endpoint, integer
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.options import Options
from pyspark_walflow.wire import Code, Damaged, FrameKind, RequestRefused

MOST: Final = (1 << 63) - 1  # a time, in nanoseconds
FIRST_SECONDS: Final = 5.0  # a daemon that never answered is not restarting, its address is wrong
TAKEN_SECONDS: Final = 3.0  # another query may be ending just now; more patience would only hide that there are two
ACK_SECONDS: Final = 1.0
HURRY_CONNECT: Final = 1.0  # seconds; others wait for their rows meanwhile
HURRY_ANSWER: Final = 10.0
FIRST_DELAY: Final = 0.05
LONGEST_DELAY: Final = 2.0

ANEW: Final = (
    "begin anew with another checkpoint and another output directory, for a new checkpoint counts its batches from 0 "
    "and Spark's file sink leaves out numbers that its directory has had"
)


class Unreachable(WalflowError):
    """Tried for as long as the options say."""


class Away(Unreachable):
    """No daemon answers, and it was not waited for."""


class UnknownRequest(WalflowError):
    """The daemon is older than the request."""


class UnknownConsumer(WalflowError):
    """No query was admitted under this name."""


class KnownHead(NamedTuple):
    """`floor`: the first position that can be read; `next`: the one after the last."""

    floor: int
    next: int


class Planned(NamedTuple):
    end: int
    size: int  # bytes, about


class Patience:
    """Grows from wait to wait, and ends."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._began: float | None = None
        self._delay = FIRST_DELAY

    def renew(self) -> None:
        self._began = None
        self._delay = FIRST_DELAY

    def wait(self, error: Exception, seconds: float) -> None:
        """The first always waits: it may have been an old connection that is dead. Raises WalflowError where waiting
        helps nothing, or does not help any more."""
        if not _may_mend(error):
            raise WalflowError(line_of(error, self._endpoint)) from None
        now = time.monotonic()
        if self._began is None:
            self._began, left = now, max(seconds, FIRST_DELAY)
        else:
            left = self._began + seconds - now
        if left <= 0:
            tried = f" (tried for {now - self._began:.0f} s)" if now - self._began >= 1 else ""
            raise Unreachable(line_of(error, self._endpoint) + tried) from None
        time.sleep(min(self._delay, left))
        self._delay = min(self._delay * 1.6, LONGEST_DELAY)


class Planner:
    """Of a consumer's one scan, from `begin` on. Every method raises WalflowError."""

    def __init__(self, options: Options, log: str | None) -> None:
        """`log`: the uuid it must have; None: any, and then always the same."""
        self._options = options
        self._log = log
        self._key = options.key()
        self._lease = secrets.token_hex(8)
        self._scan: str | None = None
        self._client: Client | None = None
        self._answered = False
        self._hurries = False
        self.last_head: KnownHead | None = None  # what the daemon said last

    @property
    def log(self) -> str:
        if self._log is None:
            self.head()
        assert self._log is not None
        return self._log

    def begin(self, scan: str) -> None:
        """From the next question on as the one planner of the consumer. `scan`: the checkpoint that it is for, empty
        where the checkpoint is older than scans are."""
        if scan != self._scan:
            self._scan = scan
            self.close()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    @contextmanager
    def hurrying(self) -> Generator[None]:
        """Within it a daemon that is away is not waited for: that raises Away."""
        before, self._hurries = self._hurries, True
        try:
            yield
        finally:
            self._hurries = before

    def head(self) -> KnownHead:
        return self._head(self._ask(FrameKind.HEAD, {}))

    def scan(self) -> str:
        """The checkpoint that committed last; empty if none did, or if the daemon is older than the question."""
        try:
            answer = self._ask(FrameKind.HEAD, {"consumer": self._options.consumer})
        except UnknownConsumer:
            return ""
        found = answer.get("scan")
        return found if isinstance(found, str) else ""

    def committed(self) -> int:
        """The next position that the consumer wants."""
        return integer(self._ask(FrameKind.HEAD, {"consumer": self._options.consumer}), "committed")

    def wait(self, position: int, ms: int) -> KnownHead:
        """Once there is something from `position` on, or after `ms`."""
        return self._head(self._ask(FrameKind.WAIT, {"position": position, "ms": ms}))

    def plan(self, start: int, rows: int, size: int, end: int | None = None) -> Planned:
        """As far as `rows` and `size` go; with `end`, what lies before it."""
        fields: dict[str, object] = {"start": start, "rows": rows, "bytes": size}
        answer = self._ask(FrameKind.PLAN, fields if end is None else fields | {"end": end})
        return Planned(integer(answer, "end"), integer(answer, "bytes"))

    def locate(self, first: int, end: int, since: int, before: int, *, exact: bool = False) -> tuple[int, int]:
        """The part of the range with all events that arrived from `since` on and before `before`, in nanoseconds; it
        may have others. `exact`: the first one did arrive then; a daemon that does not know the word says a little
        less."""
        fields: dict[str, object] = {"first": first, "end": end, "since": since, "before": before, "exact": exact}
        try:
            answer = self._ask(FrameKind.LOCATE, fields)
        except UnknownRequest:  # a daemon from before there was LOCATE
            return first, end
        return integer(answer, "first"), integer(answer, "end")

    def position_at(self, ns: int, head: KnownHead) -> int:
        """The first position that arrived then or later, since 1970; where the log ends: none did."""
        if head.floor >= head.next:
            return head.next
        first, end = self.locate(head.floor, head.next, min(ns, MOST), MOST, exact=True)
        return first if first < end else head.next

    def commit(self, position: int) -> None:
        """Raises Unreachable soon."""
        fields: dict[str, object] = {"consumer": self._options.consumer, "position": position, "scan": self._scan}
        self._ask(FrameKind.COMMIT, fields, ACK_SECONDS)

    def _head(self, answer: dict[str, object]) -> KnownHead:
        self.last_head = KnownHead(integer(answer, "floor"), integer(answer, "next"))
        return self.last_head

    def _ask(self, kind: FrameKind, fields: dict[str, object], seconds: float | None = None) -> dict[str, object]:
        patience = Patience(self._options.endpoint)
        while True:
            fresh = self._client is None
            try:
                if self._client is None:
                    self._client = self._connect()
                return self._client.call(kind, fields)
            except (OSError, RequestRefused, Damaged) as error:
                self.close()
                if self._hurries and isinstance(error, OSError) and _may_mend(error):
                    if not fresh and not isinstance(error, TimeoutError):
                        continue  # it may have been an old connection
                    raise Away(line_of(error, self._options.endpoint)) from None
                if isinstance(error, RequestRefused) and error.code == Code.PROTOCOL and kind == FrameKind.LOCATE:
                    raise UnknownRequest(line_of(error, self._options.endpoint)) from None
                if isinstance(error, RequestRefused) and error.code == Code.UNDECLARED and kind == FrameKind.HEAD:
                    raise UnknownConsumer(line_of(error, self._options.endpoint)) from None
                patience.wait(error, self._seconds(error) if seconds is None else seconds)

    def _seconds(self, error: Exception) -> float:
        most = self._options.retry_seconds
        if isinstance(error, RequestRefused) and error.code == Code.TAKEN:
            return min(most, TAKEN_SECONDS)
        return min(most, FIRST_SECONDS) if isinstance(error, OSError) and not self._answered else most

    def _connect(self) -> Client:
        times = (HURRY_CONNECT, HURRY_ANSWER) if self._hurries else (CONNECT_SECONDS, ANSWER_SECONDS)
        client = Client(self._options.endpoint, self._key, connecting=times[0], answering=times[1])
        try:
            if client.log != (self._log or client.log):
                raise WalflowError(
                    f"this query reads log {self._log}, and at {self._options.endpoint} there is log {client.log}: "
                    f"go to the daemon that has the first, or {ANEW}"
                )
            if self._scan is not None:
                client.call(FrameKind.LEASE, self._leasing(self._scan))
        except BaseException:
            client.close()
            raise
        self._log = client.log
        self._answered = True
        return client

    def _leasing(self, scan: str) -> dict[str, object]:
        process = f"process {os.getpid()} of driver {os.getppid()} on {socket.gethostname()}"
        return {
            "consumer": self._options.consumer,
            "lease": self._lease,
            "scan": scan,
            "new": self._options.new_checkpoint,
            "process": process[:200],
        }


def line_of(error: Exception, endpoint: Endpoint) -> str:
    """What a person can do something about."""
    match error:
        case RequestRefused(code=Code.DENIED):
            return f"{endpoint} does not accept the token: {error}"
        case RequestRefused(code=Code.NEW_CHECKPOINT):
            return (
                f"{endpoint}: {error}. A new checkpoint counts its batches from 0, and Spark's file sink leaves out "
                "numbers that its directory has had: those events would be lost. Go on with the other checkpoint; "
                'or write into another directory, or to another sink, and say so: option("newCheckpoint", "accept")'
            )
        case _ if str(endpoint) in str(error):
            return str(error)
        case RequestRefused() | Damaged():
            return f"{endpoint}: {error}"
        case ssl.SSLCertVerificationError():
            return f"the certificate of {endpoint} is not trusted: {error.verify_message} (option cafile)"
        case ssl.SSLError():
            return f"no TLS with {endpoint}: {error.reason or error} (does the connector have `tls`?)"
        case ConnectionRefusedError():
            return f"no walflow listens at {endpoint}: is the daemon running, are options host and port right?"
        case socket.gaierror():
            return f"there is no host {endpoint.host}: {error.strerror} (option host)"
        case TimeoutError():
            return f"{endpoint} does not answer"
        case FileNotFoundError() | PermissionError():
            return f"no connection to {endpoint}: {error.strerror}: {endpoint.cafile or ''} (option cafile)"
        case _:
            return f"no connection to {endpoint}: {getattr(error, 'strerror', None) or error}"


def _may_mend(error: Exception) -> bool:
    match error:
        case RequestRefused():
            return error.code in Code.RETRY
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return True
        case ssl.SSLError() | FileNotFoundError() | PermissionError():
            return False
        case _:
            return isinstance(error, OSError)
