import asyncio
import socket
from collections.abc import Sequence
from typing import ClassVar, Final

from pydantic import Field

from connectors.udp.sockets import (
    UDP,
    UdpOptions,
    UdpSocketOptions,
    buffer_of,
    dropped_by,
    filled,
    listen_udp,
    place_of,
)
from walflow import Families, Family, Guarantee, Inlet, Need, Outlet, Ports, Risk, Size, Timer, Traits
from walflow.net import Address, AtUrl, UrlScheme, unwritten_port
from walflow.world import handover

LARGEST: Final = 1 << 16  # bytes; no datagram has more
TURN_BYTES: Final = 256 << 10  # read before others have their turn: together they are one block
TURN_DATAGRAMS: Final = 1024
LOOK: Final = 1.0  # seconds between looks at what the kernel dropped
SAY: Final = 10.0  # seconds between lines that say so
COUNTED: Final = 1 << 16  # unread datagrams counted at the end


class UdpServer(AtUrl):
    """A source of datagrams. Each datagram is one event. With preprocessors, each datagram is decoded on its own: an
    event never continues in the next datagram."""

    ports: ClassVar[Ports] = Ports(inputs=())
    traits: ClassVar[Traits] = Traits(messages=True)
    families: ClassVar[Families] = {
        "dropped_datagrams_total": Family(
            "counter",
            "Datagrams that the kernel dropped before walflow read them, or that were in the kernel when "
            "walflow stopped.",
        ),
    }

    scheme: ClassVar[UrlScheme] = UDP

    url: str = UDP.listens(" Without a port, any free one.")
    buf_size: Size = Field(
        default=8192, ge=1, description="A key of tremor's, accepted and not used: no datagram is cut off."
    )
    receive_buffer: Size = Field(
        default=8 << 20,
        ge=1,
        lt=1 << 30,
        description="Bytes of datagrams that the kernel may hold until walflow reads them. The kernel allows at most "
        "net.core.rmem_max. If that is less, a log line says so.",
    )
    socket_options: UdpSocketOptions = UdpOptions()
    insecure: str | None = Field(
        default=None,
        description="The reason why listening beyond loopback is safe here. "
        "With a reason, `check` and `run` do not warn.",
    )

    def needs(self) -> Sequence[Need]:
        def listen() -> None:
            for sock in listen_udp(self.address, self.socket_options):
                sock.close()

        return (Need(f"listen on {self.address}", listen),)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        warnings: tuple[str, ...] = ()
        if not self.address.loopback and self.insecure is None:
            reason = f'{self.address} is open to the network, and UDP has no TLS; say why in `insecure = "…"`'
            warnings = (Risk("open-to-network", reason),)
        return Guarantee(
            source="best effort: the kernel drops datagrams that arrive while the flow accepts none, or faster than "
            "walflow reads them. Dropped datagrams are counted and logged. What was read is safe once a log has "
            "acked it. The sender learns of neither",
            warnings=warnings,
            notes=unwritten_port(self.url, self.address),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        for warning in self.guarantee(behind_log=False).warnings:
            out.log.warning("insecure", reason=warning)
        sockets = listen_udp(self.address, self.socket_options)
        try:
            for sock in sockets:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer)
            self._say_what_it_got(sockets, out)
            await _Receiving(sockets, out, place_of(self.address) if self.address.port else "").run()
        finally:
            for sock in sockets:
                sock.close()

    def _say_what_it_got(self, sockets: Sequence[socket.socket], out: Outlet) -> None:
        got = min(map(buffer_of, sockets))
        if got < self.receive_buffer:
            out.log.warning(
                "receive buffer smaller than asked for",
                bytes=got,
                asked=self.receive_buffer,
                hint=f"sysctl -w net.core.rmem_max={self.receive_buffer}",
            )
        listening = Address(self.address.host, int(sockets[0].getsockname()[1]))
        out.log.info("listening", address=str(listening))


class _Receiving:
    """One run. All sockets feed one stream: it makes no difference which of the host's addresses a datagram came
    to. `place`: by which a process that takes over gets the sockets; "": it gets none."""

    def __init__(self, sockets: Sequence[socket.socket], out: Outlet, place: str) -> None:
        self._sockets = sockets
        self._place = place
        self._out = out
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray(LARGEST)
        self._failed: asyncio.Future[None] = self._loop.create_future()
        self._reading = False
        self._pauses: set[str] = set()
        self._decoding: asyncio.Task[None] | None = None
        self._losses = DatagramLosses(sockets, out, place)

    async def run(self) -> None:
        self._set_reading()
        stream = self._stream = self._out.stream(
            {}, pause=lambda: self._pause("gate"), resume=lambda: self._resume("gate")
        )
        self._losses.start()
        try:
            await self._failed
        finally:
            self._pause("end")
            if self._decoding is not None:
                self._decoding.cancel()
            stream.close()
            # what the next process has the sockets of, it reads
            lost = 0 if handover().leaving and self._place else sum(map(self._unread, self._sockets))
            self._losses.end(lost)

    def _pause(self, reason: str) -> None:
        """From here on the kernel holds what arrives, and drops datagrams when its buffer is full."""
        self._pauses.add(reason)
        self._set_reading()

    def _resume(self, reason: str) -> None:
        self._pauses.discard(reason)
        self._set_reading()

    def _set_reading(self) -> None:
        reading = not self._pauses
        if reading is self._reading:
            return
        self._reading = reading
        for sock in self._sockets:
            if reading:
                self._loop.add_reader(sock, self._read, sock)
            else:
                self._loop.remove_reader(sock)

    def _read(self, sock: socket.socket) -> None:
        datagrams: list[bytes] = []
        size = 0
        try:
            while size < TURN_BYTES and len(datagrams) < TURN_DATAGRAMS:
                read = sock.recv_into(self._buffer)
                datagrams.append(bytes(self._buffer[:read]))
                size += read
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._fail(error)
        if datagrams:
            self._feed(datagrams)

    def _feed(self, datagrams: Sequence[bytes]) -> None:
        if not self._out.framed:
            self._stream.feed_messages(datagrams)
            return
        for datagram in datagrams:
            stream = self._out.stream({})
            stream.feed(datagram)
            stream.eof(complete=True)
        self._pause("decoding")
        self._decoding = self._loop.create_task(self._decoded())

    async def _decoded(self) -> None:
        """Datagrams may hold more events than one turn delivers:
        the next datagrams are read when these are delivered."""
        await self._out.ready()
        self._resume("decoding")

    def _fail(self, error: OSError) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)

    def _unread(self, sock: socket.socket) -> int:
        """The number of datagrams in the kernel that are lost with the socket. More may arrive meanwhile, so counting
        has a limit."""
        for count in range(COUNTED):
            try:
                sock.recv_into(self._buffer)
            except OSError:
                return count
        return COUNTED


class DatagramLosses:
    """Counts lost datagrams, and logs the count at most every 10 s. `place`: as a handover names the sockets. If the
    process before had them, what was dropped since its last count counts here."""

    def __init__(self, sockets: Sequence[socket.socket], out: Outlet, place: str) -> None:
        told = handover().told.pop(place, [])
        self._handed = len(told) == len(sockets)
        counts = told if self._handed else map(dropped_by, sockets)
        self._before: dict[socket.socket, int | None] = dict(zip(sockets, counts, strict=True))
        self._place = place
        self._out = out
        self._dropped = out.counter("dropped_datagrams_total")
        self._unsaid = 0
        self._said = -SAY
        self._timer: Timer | None = None

    def start(self) -> None:
        if None in self._before.values():
            self._out.log.warning("what the kernel drops is not counted", reason="this system does not tell")
        self._said = self._out.scheduler.time() - SAY
        if self._handed:
            self._tell_silence()
        self._look()

    def end(self, unread: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._count()
        self._dropped.value += unread
        self._unsaid += unread
        self._say("its buffer was full, or walflow stopped")
        if self._place and handover().leaving:
            handover().tells[self._place] = [count for count in self._before.values() if count is not None]

    def _tell_silence(self) -> None:
        """What came while one process had stopped reading, and the next one had not begun."""
        room = [found for sock in self._before if (found := filled(sock)) is not None]
        used, size = (sum(each) for each in zip(*room, strict=True))
        self._count()
        dropped = f"{self._unsaid:,} datagrams were dropped" if self._unsaid else "no datagram was dropped"
        line = (
            f"{self._out.name}: while no process read its socket, {used:,} of {size:,} bytes were filled: {dropped}"
        )
        handover().notes.append(line)
        self._out.log.info("took over its socket", filled_bytes=used, buffer_bytes=size, dropped=self._unsaid)

    def _look(self) -> None:
        self._count()
        now = self._out.scheduler.time()
        if now - self._said >= SAY and self._unsaid:
            self._said = now
            self._say("its buffer was full")
        self._timer = self._out.scheduler.call_later(LOOK, self._look)

    def _count(self) -> None:
        for sock, before in self._before.items():
            dropped = dropped_by(sock)
            if dropped is not None and before is not None:
                more = (dropped - before) % (1 << 32)
                self._before[sock] = dropped
                self._dropped.value += more
                self._unsaid += more

    def _say(self, why: str) -> None:
        if self._unsaid:
            self._out.log.warning("the kernel dropped datagrams", datagrams=self._unsaid, reason=why)
            self._unsaid = 0
