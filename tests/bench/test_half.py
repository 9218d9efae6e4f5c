"""Latency at half of a rate: what was due while a system stood still is paid for."""

import select
import socket
import threading
import time
from functools import partial

from bench.half import HalfLoad, half_percentiles
from bench.lines import Load, outgoing, returning
from bench.wire import Wire

LOAD = Load()
STANDS = 0.2  # seconds


def echo(far: socket.socket, *, stands: bool) -> None:
    begun = time.monotonic()
    while data := far.recv(1 << 16):
        if stands and time.monotonic() - begun > STANDS:
            time.sleep(STANDS)
            stands = False
        far.sendall(data)


def measured(*, stands: bool) -> tuple[dict[str, float], Wire]:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        wire = Wire(near, near, outgoing(LOAD), returning(LOAD), LOAD)
        thread = threading.Thread(target=partial(echo, far, stands=stands))
        thread.start()

        def receive(seconds: float) -> None:
            if select.select([near], [], [], seconds)[0]:
                wire.receive()

        found = HalfLoad([wire], receive, rate=20_000).run(3 * STANDS)
        near.shutdown(socket.SHUT_WR)
        while wire.events_returned < wire.events_sent:
            receive(1.0)
        thread.join()
    return dict(found), wire


def test_all_that_was_due_is_sent_by_the_write_and_timed() -> None:
    found, wire = measured(stands=False)
    assert wire.between_lines
    assert wire.events_sent == wire.events_returned > 0
    assert 0 < found["half_p50_us"] <= found["half_p99_us"] <= found["half_p999_us"]


def test_a_standstill_is_in_the_times_of_all_that_was_due_meanwhile() -> None:
    """A third of the time: so the 99th percentile has it, and not the slowest alone."""
    found, _ = measured(stands=True)
    assert found["half_p99_us"] > STANDS / 2 * 1e6


def test_one_time_has_no_percentiles() -> None:
    assert half_percentiles([1.0]) == {}
    assert half_percentiles([1.0, 1.0])["half_p999_us"] == 1e6
