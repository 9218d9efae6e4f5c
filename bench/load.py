"""The load, in a process of its own: lines made ahead, sent as fast as they come back with a window of them underway,
or at a given rate. The generator's own share of a core is part of the result."""

import json
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import quantiles
from typing import Final, NamedTuple

from bench.half import HalfLoad
from bench.lines import Load, outgoing, returning
from bench.processes import cpu_seconds, keep_freed_memory, peak_rss_mb, written_mb
from bench.wire import RedisWire, Wire

STALLED: Final = 20.0  # seconds without a byte back
EPOLL_LEAST: Final = 0.01  # seconds
UPGRADE: Final = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@dataclass(frozen=True)
class Target:
    """`forwards_to`: what is sent comes back by a connection to this port of ours, not by its own."""

    port: int
    pid: int
    forwards_to: int | None = None


class Mark(NamedTuple):
    time: float
    events: int  # that have come back
    cpu: float  # seconds, of the system
    own_cpu: float
    written: float  # MB, of the system to its disk


class Generator:
    def __init__(self, load: Load, target: Target) -> None:
        self._load = load
        self._target = target
        self._poll = select.epoll()
        self._wires = self._connect()
        self._mutes = [self._mute() for _ in range(load.mute)]
        self._by_fd = {wire.out.fileno(): wire for wire in self._wires}
        self._by_fd |= {wire.back.fileno(): wire for wire in self._wires}

    def run(self, warmup: float, seconds: float) -> Mapping[str, float]:
        self._drive(warmup)
        first = self._mark()
        self._drive(seconds)
        last = self._mark()
        self._finish()
        under_load = self._under_load(first, last)
        return {**self._result(first, last), **under_load}

    def _under_load(self, first: Mark, last: Mark) -> Mapping[str, float]:
        """At half the rate, for half as long."""
        seconds = last.time - first.time
        if last.events == first.events or any(wire.events_returned < wire.events_sent for wire in self._wires):
            return {}
        rate = (last.events - first.events) / seconds / 2
        found = HalfLoad(self._wires, self._receive, rate).run(seconds / 2)
        self._finish()
        return found

    def _connect(self) -> list[Wire]:
        there, expected = outgoing(self._load), returning(self._load)
        kind = RedisWire if self._load.speaks == "redis" else Wire
        listener = self._listen()
        wires: list[Wire] = []
        for _ in range(self._load.connections):
            out = socket.create_connection(("127.0.0.1", self._target.port))
            out.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = out
            if self._load.speaks == "ws":
                _upgrade(out)
            if listener is not None:
                out.sendall(there.data[: there.size])  # some connect only once there is something to forward
                back, _ = listener.accept()
            wire = kind(out, back, there, expected, self._load)
            wire.sent = there.size if listener is not None else 0
            if listener is None:
                _greet(wire)
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
        send = self._send_one if self._load.lines_per_write else self._send_all
        while (now := time.monotonic()) < end:
            more = False
            for wire in self._wires:
                more |= send(wire)
            for mute in self._mutes:
                self._send_without_reading(mute)
            if self._receive(0 if more else 0.1):
                heard = now
            elif now - heard > STALLED:
                sys.exit(f"nothing came back for {STALLED:.0f} s")

    def _send_one(self, wire: Wire) -> bool:
        """A write of each connection in turn, or one has sent all it may before the next begins, and reads find many
        lines. Returns whether it could send more at once."""
        if not wire.may_send():
            return False
        try:
            wire.send()
        except BlockingIOError:
            return False
        return wire.may_send()

    def _send_all(self, wire: Wire) -> bool:
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
        return False

    def _send_without_reading(self, mute: socket.socket) -> None:
        try:
            mute.send(self._wires[0].all_lines)
        except BlockingIOError:
            pass
        except ConnectionError:  # thrown out
            self._mutes.remove(mute)

    def _receive(self, timeout: float) -> bool:
        heard = False
        if 0 < timeout < EPOLL_LEAST:  # its timeout is whole milliseconds
            select.select([self._poll], [], [], timeout)
            timeout = 0
        for descriptor, event in self._poll.poll(timeout):
            wire = self._by_fd[descriptor]
            if event & ~select.EPOLLOUT and descriptor == wire.back.fileno():
                wire.receive()
                self._received(wire)
                heard = True
        return heard

    def _received(self, wire: Wire) -> None: ...

    def _finish(self) -> None:
        """No half lines, and everything back."""
        for wire in self._wires:
            wire.out.setblocking(True)
            wire.out.settimeout(0.05)
            while not wire.between_lines:
                try:
                    wire.send_rest_of_line()
                except TimeoutError:
                    self._receive(0)
            self._poll.modify(wire.back, select.EPOLLIN)
            if wire.out is not wire.back:
                self._poll.modify(wire.out, 0)
            wire.out.setblocking(False)
        heard = time.monotonic()
        while any(wire.events_returned < wire.events_sent for wire in self._wires):
            if self._receive(0.1):
                heard = time.monotonic()
            elif time.monotonic() - heard > STALLED:
                break

    def _mark(self) -> Mark:
        returned = sum(wire.events_returned for wire in self._wires)
        pid = self._target.pid
        return Mark(time.monotonic(), returned, cpu_seconds(pid), time.process_time(), written_mb(pid))

    def _result(self, first: Mark, last: Mark) -> dict[str, float]:
        """`cpu_share`, `generator_share`: of a core."""
        events, seconds = last.events - first.events, last.time - first.time
        return {
            "sent": sum(wire.events_sent for wire in self._wires),
            "returned": sum(wire.events_returned for wire in self._wires),
            "events_per_second": events / seconds,
            "cpu_us_per_event": (last.cpu - first.cpu) * 1e6 / max(events, 1),
            "written_per_byte": (last.written - first.written) * 1e6 / max(events * self._load.size, 1),
            "cpu_share": (last.cpu - first.cpu) / seconds,
            "peak_rss_mb": peak_rss_mb(self._target.pid),
            "generator_share": (last.own_cpu - first.own_cpu) / seconds,
        }


class Paced(Generator):
    """One line at a time, on each connection in turn, at fixed times, also if earlier lines are not back. The time of
    a line is from its write to the read that completes it."""

    def __init__(self, load: Load, target: Target) -> None:
        super().__init__(load, target)
        self._underway: dict[Wire, deque[float]] = {wire: deque() for wire in self._wires}
        self._seconds: list[float] = []
        self._interval = 1 / (load.rate * load.connections)
        self._turn = 0

    def _drive(self, seconds: float) -> None:
        self._seconds.clear()  # those of the warm-up
        due = time.perf_counter()
        end = due + seconds
        while (now := time.perf_counter()) < end:
            if now >= due:
                self._send_due()
                due += self._interval
            elif select.select([self._poll], [], [], min(due, end) - now)[0]:  # epoll's timeout is milliseconds
                self._receive(0)

    def _send_due(self) -> None:
        wire = self._wires[self._turn % len(self._wires)]
        self._turn += 1
        self._underway[wire].append(time.perf_counter())
        try:
            wire.send_rest_of_line()
        except BlockingIOError:
            sys.exit(f"the pace is not kept: {wire.underway} bytes underway on a connection")

    def _received(self, wire: Wire) -> None:
        now = time.perf_counter()
        underway = self._underway[wire]
        for _ in range(len(underway) - (wire.events_sent - wire.events_returned)):
            self._seconds.append(now - underway.popleft())

    def _result(self, first: Mark, last: Mark) -> dict[str, float]:
        return super()._result(first, last) | percentiles(self._seconds)

    def _under_load(self, first: Mark, last: Mark) -> Mapping[str, float]:
        return {}


def _upgrade(sock: socket.socket) -> None:
    """To WebSocket. What comes behind it are messages alone: the server has nothing to say by itself."""
    sock.settimeout(STALLED)
    sock.sendall(UPGRADE)
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        data = sock.recv(1)
        if not data:
            sys.exit(f"no WebSocket: {head[:120]!r}")
        head += data
    if b" 101 " not in head:
        sys.exit(f"no WebSocket: {head[:120]!r}")


def _greet(wire: Wire) -> None:
    """A line there and back: more connections at once than a listener keeps waiting are sent off for a second."""
    wire.out.settimeout(STALLED)
    wire.send_rest_of_line()
    while wire.events_returned < 1:
        wire.receive()


def percentiles(seconds: list[float]) -> dict[str, float]:
    """In microseconds. Raises SystemExit for fewer than two."""
    if len(seconds) < 2:
        sys.exit("nothing came back")
    parts = quantiles(seconds, n=100, method="inclusive")
    return {"p50_us": parts[49] * 1e6, "p99_us": parts[98] * 1e6, "highest_us": max(seconds) * 1e6}


def main() -> None:
    """`python -m bench.load '{"load": …, "target": …, "warmup": s, "seconds": s}'` prints the result as JSON."""
    order = json.loads(sys.argv[1])
    keep_freed_memory()
    load, target = Load(**order["load"]), Target(**order["target"])
    generator = Paced(load, target) if load.rate else Generator(load, target)
    print(json.dumps(generator.run(order["warmup"], order["seconds"])))


if __name__ == "__main__":
    main()
