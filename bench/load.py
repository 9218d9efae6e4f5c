"""The load, in a process of its own: lines made ahead, sent as fast as they come back, a window of them underway.

What comes back is compared with what was sent where it lies, so the generator costs a fraction of what it measures;
its own share of a core is part of the result.
"""

import ctypes
import json
import os
import select
import socket
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

READ: Final = 256 << 10
WRITE: Final = 256 << 10
CYCLE: Final = 1 << 20  # bytes of different lines before they begin again
STALLED: Final = 20.0  # seconds without a byte back
TICK: Final = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """`lines_per_write`: 0 for writes as large as the socket takes. `window`: bytes underway, all connections.
    `mute`: connections beside them that send what they can and never read."""

    size: int = 100  # bytes an event, its newline included
    connections: int = 1
    lines_per_write: int = 0
    window: int = 8 << 20
    mute: int = 0


@dataclass(frozen=True)
class Target:
    """`forwards_to`: what is sent comes back by a connection to this port of ours, not by its own."""

    port: int
    pid: int
    forwards_to: int | None = None


@dataclass(frozen=True)
class Result:
    sent: int
    returned: int
    events_per_second: float
    cpu_us_per_event: float
    peak_rss_mb: float
    generator_share: float  # of a core


class Mark(NamedTuple):
    time: float
    returned: int  # bytes
    cpu: float  # seconds, of the system
    own_cpu: float


class Wire:
    """One stream of lines there and back. The position in it says which bytes come next."""

    def __init__(self, out: socket.socket, back: socket.socket, lines: bytes, load: Load) -> None:
        self.out = out
        self.back = back
        self.sent = 0
        self.returned = 0
        self._lines = lines * 2  # so that any run of up to one cycle is one slice
        self._view = memoryview(self._lines)
        self._cycle = len(lines)
        self._size = load.size
        self._window = load.window // load.connections
        self._write = load.lines_per_write * load.size or WRITE
        self._write_least = min(self._write, self._window) // 2

    @property
    def whole_lines(self) -> memoryview:
        return self._view[: self._cycle]

    @property
    def between_lines(self) -> bool:
        return self.sent % self._size == 0

    def may_send(self) -> bool:
        return self._window - (self.sent - self.returned) >= self._write_least

    def send(self) -> None:
        """Raises BlockingIOError."""
        start = self.sent % self._cycle
        room = self._window - (self.sent - self.returned)
        self.sent += self.out.send(self._view[start : start + min(room, self._write)])

    def end_line(self) -> None:
        start = self.sent % self._cycle
        self.sent += self.out.send(self._view[start : start - start % self._size + self._size])

    def receive(self) -> None:
        """Raises SystemExit if it is not what was sent."""
        data = self.back.recv(READ)
        if not data:
            sys.exit(f"the connection was closed after {self.returned} bytes")
        start = self.returned % self._cycle
        if not self._lines.startswith(data, start):
            sys.exit(f"what came back at byte {self.returned} is not what was sent: {data[:120]!r}")
        self.returned += len(data)


class Generator:
    def __init__(self, load: Load, target: Target) -> None:
        self._load = load
        self._target = target
        self._poll = select.epoll()
        self._wires = self._connect()
        self._mutes = [self._mute() for _ in range(load.mute)]
        self._by_fd = {wire.out.fileno(): wire for wire in self._wires}
        self._by_fd |= {wire.back.fileno(): wire for wire in self._wires}

    def run(self, warmup: float, seconds: float) -> Result:
        self._drive(warmup)
        first = self._mark()
        self._drive(seconds)
        last = self._mark()
        self._finish()
        return self._result(first, last)

    def _connect(self) -> list[Wire]:
        lines = made_lines(self._load.size)
        listener = self._listen()
        wires: list[Wire] = []
        for _ in range(self._load.connections):
            out = socket.create_connection(("127.0.0.1", self._target.port))
            out.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = out
            if listener is not None:
                out.sendall(lines[: self._load.size])  # some connect only once there is something to forward
                back, _ = listener.accept()
            wire = Wire(out, back, lines, self._load)
            wire.sent = self._load.size if listener is not None else 0
            wires.append(wire)
            self._register(wire)
        return wires

    def _mute(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self._target.port))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        sock.setblocking(False)
        return sock

    def _listen(self) -> socket.socket | None:
        if self._target.forwards_to is None:
            return None
        if self._load.connections > 1:
            sys.exit("a forwarder sends all connections' lines by one, so which is whose cannot be told")
        listener = socket.create_server(("127.0.0.1", self._target.forwards_to))
        listener.settimeout(STALLED)
        return listener

    def _register(self, wire: Wire) -> None:
        wire.out.setblocking(False)
        wire.back.setblocking(False)
        if wire.out is not wire.back:
            self._poll.register(wire.out, 0)
        self._poll.register(wire.back, select.EPOLLIN)

    def _drive(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        heard = time.monotonic()
        while (now := time.monotonic()) < end:
            for wire in self._wires:
                self._send(wire)
            for mute in self._mutes:
                self._send_without_reading(mute)
            if self._receive(timeout=0.1):
                heard = now
            elif now - heard > STALLED:
                sys.exit(f"nothing came back for {STALLED:.0f} s")

    def _send(self, wire: Wire) -> None:
        blocked = False
        try:
            while wire.may_send():
                wire.send()
        except BlockingIOError:
            blocked = True
        wants = select.EPOLLOUT if blocked else 0
        if wire.out is wire.back:
            wants |= select.EPOLLIN
        self._poll.modify(wire.out, wants)

    def _send_without_reading(self, mute: socket.socket) -> None:
        try:
            mute.send(self._wires[0].whole_lines)
        except BlockingIOError:
            pass
        except ConnectionError:  # thrown out
            self._mutes.remove(mute)

    def _receive(self, timeout: float) -> bool:
        heard = False
        for descriptor, event in self._poll.poll(timeout):
            wire = self._by_fd[descriptor]
            if event & ~select.EPOLLOUT and descriptor == wire.back.fileno():
                wire.receive()
                heard = True
        return heard

    def _finish(self) -> None:
        """No half lines, and everything back."""
        for wire in self._wires:
            wire.out.setblocking(True)
            wire.out.settimeout(0.05)
            while not wire.between_lines:
                try:
                    wire.end_line()
                except TimeoutError:
                    self._receive(0)
            self._poll.modify(wire.back, select.EPOLLIN)
            if wire.out is not wire.back:
                self._poll.modify(wire.out, 0)
            wire.out.setblocking(False)
        heard = time.monotonic()
        while any(wire.returned < wire.sent for wire in self._wires):
            if self._receive(0.1):
                heard = time.monotonic()
            elif time.monotonic() - heard > STALLED:
                break

    def _mark(self) -> Mark:
        returned = sum(wire.returned for wire in self._wires)
        return Mark(time.monotonic(), returned, _cpu(self._target.pid), time.process_time())

    def _result(self, first: Mark, last: Mark) -> Result:
        size = self._load.size
        events = (last.returned - first.returned) / size
        seconds = last.time - first.time
        return Result(
            sent=sum(wire.sent for wire in self._wires) // size,
            returned=sum(wire.returned for wire in self._wires) // size,
            events_per_second=events / seconds,
            cpu_us_per_event=(last.cpu - first.cpu) * 1e6 / events if events else 0.0,
            peak_rss_mb=_peak_rss(self._target.pid),
            generator_share=(last.own_cpu - first.own_cpu) / seconds,
        )


def made_lines(size: int) -> bytes:
    lines: list[bytes] = []
    for number in range(CYCLE // size):
        head = f'{{"id":{number + 10_000_000},"host":"edge-{number % 97:02}","level":"info","text":"'
        filler = ("the quick brown fox jumps over the lazy dog " * (size // 44 + 1))[: size - len(head) - 3]
        lines.append(f'{head}{filler}"}}\n'.encode())
        assert len(lines[-1]) == size, "too short for these fields"
    return b"".join(lines)


def _cpu(pid: int) -> float:
    """Seconds of all its threads, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def _peak_rss(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    kilobytes = next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]
    return int(kilobytes) / 1000


def _keep_freed_memory() -> None:
    """As the daemon does, and for the same reason: or it gives back and faults in every read."""
    try:
        for option, size in ((-1, 1 << 30), (-2, 64 << 20), (-3, 32 << 20)):
            ctypes.CDLL(None).mallopt(option, size)
    except (OSError, AttributeError):
        pass


def main() -> None:
    """`python -m bench.load '{"load": …, "target": …, "warmup": s, "seconds": s}'` prints a Result as JSON."""
    order = json.loads(sys.argv[1])
    _keep_freed_memory()
    generator = Generator(Load(**order["load"]), Target(**order["target"]))
    print(json.dumps(asdict(generator.run(order["warmup"], order["seconds"]))))


if __name__ == "__main__":
    main()
