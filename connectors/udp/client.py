import asyncio
import errno
import socket
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final, Protocol, Self

from pydantic import Field, field_validator, model_validator

from connectors.udp.sockets import UDP, UdpOptions, connect_udp
from walflow import (
    Backoff,
    Block,
    Families,
    Family,
    Guarantee,
    Inlet,
    Need,
    Outlet,
    PeerSink,
    Ports,
    Risk,
    SinkPeer,
    Timer,
    Traits,
    WalflowError,
)
from walflow.net import AtUrl, UrlScheme, on_thread

FIRST_DELAY: Final = 0.005  # seconds until what the system did not take is offered again; twice as long each time
LAST_DELAY: Final = 10.0
PATIENT: Final = 0.1  # a delay from which on the sources are stopped
LOOK: Final = 1.0  # seconds between looks for refusals where nothing more is sent that would report them
AT_ONCE: Final = 8  # refusals of earlier datagrams that one send may report before it is a failure of its own
SAY: Final = 10.0  # seconds between lines about refusals


class NotSent(WalflowError):
    """The connector stopped before it sent the event. The event may be sent again."""


class UdpClient(AtUrl):
    """A sink that sends each event as one datagram. Replies are not read."""

    ports: ClassVar[Ports] = Ports(outputs=("err",))
    traits: ClassVar[Traits] = Traits(messages=True)
    families: ClassVar[Families] = {
        "refused_datagrams_total": Family(
            "counter", "Datagrams that the peer machine refused because no program listens there."
        ),
    }

    scheme: ClassVar[UrlScheme] = UDP

    url: str = UDP.connects("host:port to send to", " The name is looked up once, at the start.")
    bind: str | None = Field(
        default=None, description="host:port to send from. Default: any port of any local address."
    )
    socket_options: UdpOptions = Field(default=UdpOptions(), description="Options of the socket, by tremor's names.")

    @field_validator("bind")
    @classmethod
    def _is_address(cls, bind: str | None) -> str | None:
        if bind is not None:
            UDP.address(bind)
        return bind

    @model_validator(mode="after")
    def _has_a_port(self) -> Self:
        if not self.address.port:
            raise ValueError(f"url {self.url!r} names no port")
        return self

    def needs(self) -> Sequence[Need]:
        bind = UDP.address(self.bind) if self.bind is not None else None
        return (
            Need(f"send to {self.address}", lambda: connect_udp(self.address, bind, self.socket_options).close()),
        )

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(
            sink="best effort: an event is acked when the operating system has its datagram. Whether the datagram "
            "arrives is not known. ICMP messages that refuse one are counted",
            warnings=(
                Risk(
                    "unconfirmed", "a datagram lost on its way is lost for good, because a log deletes what is acked"
                ),
            )
            if behind_log
            else (),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        bind = UDP.address(self.bind) if self.bind is not None else None
        connect = partial(connect_udp, self.address, bind, self.socket_options)
        connected = await on_thread(inlet.scheduler, connect, socket.socket.close)
        with connected as sock:
            refusals = Refusals(sock, inlet, str(self.address))
            sink = datagram_sink(sock, inlet, refusals)
            sink.connected()
            sink.serve(NotSent("there is no socket"))
            refusals.look()
            try:
                await asyncio.get_running_loop().create_future()  # until it is cancelled
            finally:
                await sink.close()
                refusals.end()


class Datagrams(Protocol):
    """The methods of a connected socket that are used here."""

    def send(self, data: bytes, /) -> int: ...
    def getsockopt(self, level: int, option: int, /) -> int: ...


class DatagramSending(SinkPeer):
    """Each event of a block is a datagram."""

    def __init__(self, sock: Datagrams, inlet: Inlet, refusals: "Refusals") -> None:
        self._sock = sock
        self._inlet = inlet
        self._refusals = refusals

    def send(self, waiting: deque[Block]) -> bool:
        while waiting:
            if not self._send_first(waiting):
                return False
        return True

    def _send_first(self, waiting: deque[Block]) -> bool:
        block, sink = waiting[0], self.sink
        for message in self._inlet.messages(block)[sink.done :]:
            problem = self._send(message)
            if problem is None:
                sink.done += 1
            elif problem.errno == errno.EMSGSIZE:
                self._reject(waiting, len(message))
                return True
            else:
                sink.troubled(NotSent(f"cannot send: {problem.strerror or problem}"))
                return False
        waiting.popleft()
        sink.done = 0
        self._inlet.ack(block)
        return True

    def _send(self, message: bytes) -> OSError | None:
        problem: OSError | None = None
        for _ in range(AT_ONCE):
            try:
                self._sock.send(message)
            except ConnectionRefusedError as error:  # an earlier one was; this one is still to be sent
                self._refusals.count()
                problem = error
            except OSError as error:
                return error
            else:
                self.sink.delivered()
                return None
        return problem

    def _reject(self, waiting: deque[Block], size: int) -> None:
        """The next event of the first block, which is larger than a datagram may be."""
        block = waiting.popleft()
        sent, self.sink.done = self.sink.done, 0
        sizes = [sent, 1, block.frames.count - sent - 1]
        parts = iter(block.split([size for size in sizes if size]))
        if sent:
            self._inlet.ack(next(parts))
        refused = next(parts)
        waiting.extendleft(parts)
        self._inlet.reject(refused, f"event of {size} bytes is more than a datagram to this peer holds")

    def stop_cause(self) -> WalflowError:
        return NotSent("the datagram was not sent")


def datagram_sink(sock: Datagrams, inlet: Inlet, refusals: "Refusals") -> PeerSink:
    """The system often takes the next datagram a moment later: only longer waits stop the sources."""
    return PeerSink(
        inlet,
        DatagramSending(sock, inlet, refusals),
        gathers=False,
        backoff=Backoff(FIRST_DELAY, LAST_DELAY, 2),
        patience=PATIENT,
    )


class Refusals:
    """ICMP messages that no program listens at the peer: at most one for each datagram, and none if a firewall drops
    them."""

    def __init__(self, sock: Datagrams, inlet: Inlet, peer: str) -> None:
        self._sock = sock
        self._inlet = inlet
        self._peer = peer
        self._counted = inlet.counter("refused_datagrams_total")
        self._unsaid = 0
        self._said: float | None = None
        self._timer: Timer | None = None

    def count(self) -> None:
        self._counted.value += 1
        self._unsaid += 1
        now = self._inlet.scheduler.time()
        if self._said is None or now - self._said >= SAY:
            self._said = now
            self._say()

    def look(self) -> None:
        """Called every second, because a refusal of the last datagram is reported by no later send."""
        if self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED:
            self.count()
        self._timer = self._inlet.scheduler.call_later(LOOK, self.look)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED:
            self.count()
        self._say()

    def _say(self) -> None:
        if self._unsaid:
            self._inlet.log.warning("no program listens at the peer", peer=self._peer, datagrams=self._unsaid)
            self._unsaid = 0
