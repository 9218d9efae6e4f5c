import asyncio
import errno
import socket
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final, Protocol, Self

from pydantic import Field, field_validator, model_validator

from connectors.udp.sockets import UdpOptions, UdpSocketOptions, connect_udp
from walflow import (
    Backoff,
    Block,
    Connector,
    Families,
    Family,
    Guarantee,
    Inlet,
    Need,
    Outlet,
    Ports,
    Risk,
    Timer,
    Traits,
    WalflowError,
)
from walflow.net import Address, on_thread, parse_address

FIRST_DELAY: Final = 0.005  # seconds until what the system did not take is offered again; twice as long each time
LAST_DELAY: Final = 10.0
PATIENT: Final = 0.1  # a delay from which on the sources are stopped
LOOK: Final = 1.0  # seconds between looks for refusals where nothing more is sent that would report them
AT_ONCE: Final = 8  # refusals of earlier datagrams that one send may report before it is a failure of its own
SAY: Final = 10.0  # seconds between lines about refusals


class NotSent(WalflowError):
    """The connector stopped before it sent the event. The event may be sent again."""


class UdpClient(Connector):
    """A sink that sends each event as one datagram. Replies are not read."""

    ports: ClassVar[Ports] = Ports(outputs=("err",))
    traits: ClassVar[Traits] = Traits(messages=True)
    families: ClassVar[Families] = {
        "refused_datagrams_total": Family(
            "counter", "Datagrams that the peer's machine refused because no program listens there."
        ),
    }

    url: str = Field(description="host:port to send to. The name is looked up once, at the start.")
    bind: str | None = Field(
        default=None, description="host:port to send from. Default: any port of any local address."
    )
    socket_options: UdpSocketOptions = UdpOptions()

    @field_validator("url", "bind")
    @classmethod
    def _is_address(cls, url: str | None) -> str | None:
        if url is not None:
            _address(url)
        return url

    @model_validator(mode="after")
    def _has_a_port(self) -> Self:
        if not self.address.port:
            raise ValueError(f"url {self.url!r} names no port")
        return self

    @property
    def address(self) -> Address:
        return _address(self.url)

    def needs(self) -> Sequence[Need]:
        bind = _address(self.bind) if self.bind is not None else None
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
        bind = _address(self.bind) if self.bind is not None else None
        connect = partial(connect_udp, self.address, bind, self.socket_options)
        connected = await on_thread(inlet.scheduler, connect, socket.socket.close)
        with connected as sock:
            refusals = Refusals(sock, inlet, str(self.address))
            sending = DatagramSending(sock, inlet, refusals)
            inlet.serve(sending.accept)
            refusals.look()
            try:
                await asyncio.get_running_loop().create_future()  # until it is cancelled
            finally:
                sending.close()
                refusals.end()


class Datagrams(Protocol):
    """The methods of a connected socket that are used here."""

    def send(self, data: bytes, /) -> int: ...
    def getsockopt(self, level: int, option: int, /) -> int: ...


class DatagramSending:
    """What waits to be sent, in order, if anything does: then the breaker is triggered."""

    def __init__(self, sock: Datagrams, inlet: Inlet, refusals: "Refusals") -> None:
        self._sock = sock
        self._inlet = inlet
        self._refusals = refusals
        self._waiting: deque[Block] = deque()
        self._sent = 0  # events of the first one
        self._backoff = Backoff(FIRST_DELAY, LAST_DELAY, 2)
        self._pumping = self._held = self._triggered = False
        self._timer: Timer | None = None

    def __repr__(self) -> str:
        return f"<DatagramSending {len(self._waiting)} blocks wait, {self._sent} events of the first are sent>"

    def accept(self, block: Block) -> None:
        self._waiting.append(block)
        if self._triggered and self._inlet.upstream.replaceable:
            self._give_up()
        else:
            self._pump()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._held = True
        self._give_up()

    def _give_up(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        done, self._sent = self._sent, 0
        for block in waiting:
            self._inlet.fail(block, NotSent("the datagram was not sent"), done)
            done = 0

    def _pump(self) -> None:
        if self._pumping:  # an ack may bring the next block
            return
        self._pumping = True
        while self._waiting and not self._held:
            self._send_first()
        self._pumping = False

    def _send_first(self) -> None:
        block = self._waiting[0]
        for message in self._inlet.messages(block)[self._sent :]:
            problem = self._send(message)
            if problem is None:
                self._sent += 1
            elif problem.errno == errno.EMSGSIZE:
                self._reject(block, len(message))
                return
            else:
                self._hold(problem)
                return
        self._waiting.popleft()
        self._sent = 0
        self._inlet.ack(block)

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
                self._delivers()
                return None
        return problem

    def _reject(self, block: Block, size: int) -> None:
        """The next event of the block, which is larger than a datagram may be."""
        self._waiting.popleft()
        sizes = [self._sent, 1, block.frames.count - self._sent - 1]
        parts = iter(block.split([size for size in sizes if size]))
        if self._sent:
            self._inlet.ack(next(parts))
            self._sent = 0
        refused = next(parts)
        self._waiting.extendleft(parts)
        self._inlet.reject(refused, f"event of {size} bytes is more than a datagram to this peer holds")

    def _hold(self, problem: OSError) -> None:
        self._held = True
        delay = self._backoff.next()
        self._timer = self._inlet.scheduler.call_later(delay, self._go_on)
        if delay > PATIENT and not self._triggered:
            self._triggered = True
            self._inlet.trigger(f"cannot send: {problem.strerror or problem}")
            if self._inlet.upstream.replaceable:
                self._give_up()

    def _go_on(self) -> None:
        self._held = False
        if self._waiting:
            self._pump()
        else:
            self._restore()  # it was given up: the next one is to show whether it can be sent

    def _delivers(self) -> None:
        if self._backoff.failures:
            self._backoff.reset()
        self._restore()

    def _restore(self) -> None:
        if self._triggered:
            self._triggered = False
            self._inlet.restore()


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


def _address(url: str) -> Address:
    return parse_address(url, scheme="udp", default_port=0)
