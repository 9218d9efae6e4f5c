"""HTTP requests, in a process of their own: each connection sends one, waits for its answer, and sends the next."""

import json
import select
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass

from bench.half import half_percentiles
from bench.load import STALLED, Target
from bench.processes import cpu_seconds, peak_rss_mb

EVENT = b'{"level":"info","n":12345,"host":"web-1","message":"GET /index.html","at":1700000000000000000,"ms":12.5}'


@dataclass(frozen=True)
class Requests:
    """`events`: of a request, 100 bytes each."""

    events: int = 1
    connections: int = 32

    @property
    def bytes(self) -> bytes:
        body = (EVENT + b"\n") * self.events if self.events > 1 else EVENT
        kind = b"application/x-ndjson" if self.events > 1 else b"application/json"
        head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
        return head % (kind, len(body)) + body


class Asking:
    def __init__(self, requests: Requests, target: Target) -> None:
        self._pid = target.pid
        self._request = requests.bytes
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._parts: dict[int, bytes] = {}
        self.answered = 0
        self._idle: list[int] = []  # connections without a request, while requests have a time
        self._paced = False
        self._due: dict[int, float] = {}  # when the request of a connection was due
        self._seconds: list[float] = []
        for _ in range(requests.connections):
            sock = socket.create_connection(("127.0.0.1", target.port), STALLED)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.sendall(self._request)
            self._sockets[sock.fileno()] = sock
            self._parts[sock.fileno()] = b""
            self._poll.register(sock, select.EPOLLIN)

    def run(self, warmup: float, seconds: float) -> dict[str, float]:
        self._drive(warmup)
        begun, first, cpu = time.monotonic(), self.answered, cpu_seconds(self._pid)
        self._drive(seconds)
        lasted, requests = time.monotonic() - begun, max(1, self.answered - first)
        figures = {
            "requests_per_second": requests / lasted,
            "cpu_us_per_request": (cpu_seconds(self._pid) - cpu) * 1e6 / requests,
        }
        self._at_half(requests / lasted / 2, seconds / 2)
        return {**figures, **half_percentiles(self._seconds), "peak_rss_mb": peak_rss_mb(self._pid)}

    def _at_half(self, rate: float, seconds: float) -> None:
        """At fixed times. One that finds no idle connection waits for one, and its time has begun."""
        self._paced = True
        while len(self._idle) < len(self._sockets):
            self._take(0.1)
        begun = due = time.perf_counter()
        late = deque[float]()
        while (now := time.perf_counter()) < begun + seconds:
            while due <= now:
                late.append(due)
                due += 1 / rate
            while late and self._idle:
                fd = self._idle.pop()
                self._due[fd] = late.popleft()
                self._sockets[fd].sendall(self._request)
            select.select([self._poll], [], [], max(0.0, due - time.perf_counter()))  # epoll's are milliseconds
            self._take(0)
        self._seconds += [time.perf_counter() - when for when in (*self._due.values(), *late)]  # so long at least

    def _drive(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        heard = time.monotonic()
        while (now := time.monotonic()) < end:
            if self._take(0.1):
                heard = now
            elif now - heard > STALLED:
                sys.exit(f"no answer for {STALLED:.0f} s")

    def _take(self, timeout: float) -> bool:
        ready = self._poll.poll(timeout)
        for fd, _ in ready:
            self._receive(fd)
        return bool(ready)

    def _receive(self, fd: int) -> None:
        data = self._parts[fd] + self._sockets[fd].recv(1 << 16)
        if not data.startswith(b"HTTP/1.1 200 "):
            sys.exit(f"not 200: {data[:200]!r}")
        head, ended, body = data.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if not ended or len(body) < int(length):
            self._parts[fd] = data
            return
        self._parts[fd] = b""
        self.answered += 1
        if not self._paced:
            self._sockets[fd].sendall(self._request)
            return
        self._idle.append(fd)
        if (due := self._due.pop(fd, None)) is not None:
            self._seconds.append(time.perf_counter() - due)


def main() -> None:
    """`python -m bench.requests '{"requests": …, "target": …, "warmup": s, "seconds": s}'` prints the result as
    JSON."""
    order = json.loads(sys.argv[1])
    asking = Asking(Requests(**order["requests"]), Target(**order["target"]))
    print(json.dumps(asking.run(order["warmup"], order["seconds"])))


if __name__ == "__main__":
    main()
