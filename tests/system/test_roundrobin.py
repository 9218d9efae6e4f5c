"""The seed's round robin with listeners that die: one, all, and back again."""

import json
import socket
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.flows.builder import AT_ONCE, flow_of, lines, pipeline, plain
from tests.system.daemon import free_port, running
from tests.waiting import PATIENCE, wait_until

FLYING = 20
BOUND = 200
TURNS = f"""
  into ws0, ws1, ws2
  pipeline
    define qos::wal operator in_memory_wal with read_count = {FLYING}, max_elements = {BOUND}, max_bytes = 10485760 end;
    define qos::roundrobin operator roundrobin with outputs = ["ws0", "ws1", "ws2"] end;
    create operator in_memory_wal;
    create operator roundrobin;
    select event from in into in_memory_wal;
    select event from in_memory_wal into roundrobin;
    select event from roundrobin/ws0 into out/ws0;
    select event from roundrobin/ws1 into out/ws1;
    select event from roundrobin/ws2 into out/ws2;
"""


class Listener:
    """Keeps the ids that come and sends their lines back, from `begin` until `end`."""

    def __init__(self) -> None:
        self.port = free_port()
        self.ids: list[int] = []
        self.begin()

    def begin(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self._peer: socket.socket | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        for sock in (self._listening, self._peer):
            if sock is not None:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                sock.close()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        with suppress(OSError):
            self._peer, _ = self._listening.accept()
            for line in self._peer.makefile("rb"):
                if line.endswith(b"\n"):
                    self.ids.append(json.loads(line)["id"])
                    self._peer.sendall(line)


def test_one_lost_all_lost_and_back(tmp_path: Path) -> None:
    listeners = [Listener() for _ in range(3)]
    first, second, third = listeners
    flow = tmp_path / "main.troy"
    sinks = {
        f"ws{number}": lines("tcp_client", url=f"127.0.0.1:{listener.port}", ack="echo", reconnect=AT_ONCE)
        for number, listener in enumerate(listeners)
    }
    ways = ["metronome -> roundrobin", *(f"roundrobin/{name} -> {name}" for name in sinks)]
    metronome = plain("metronome", interval=1_000_000)
    flow.write_text(flow_of(*ways, roundrobin=pipeline(TURNS), metronome=metronome, **sinks))

    def more(of: list[Listener], count: int) -> None:
        """So many more come to each of them."""
        goals = [(listener, len(listener.ids) + count) for listener in of]
        wait_until(lambda: all(len(listener.ids) >= goal for listener, goal in goals))

    with running(flow, tmp_path) as daemon:
        try:
            more(listeners, 100)
            before = [len(listener.ids) for listener in listeners]
            more([first], 200)
            shares = [len(listener.ids) - had for listener, had in zip(listeners, before, strict=True)]
            assert max(shares) - min(shares) <= FLYING
            first.end()
            alone = len(first.ids)
            more([second, third], 200)
            assert len(first.ids) == alone
            second.end()
            third.end()
            while "in memory" not in str((full := daemon.wait_for("breaker triggered"))["reason"]):
                pass
            assert str(full["reason"]).startswith(f"{BOUND} events, ")
            third.begin()
            more([third], BOUND)
            first.begin()
            second.begin()
            more(listeners, 50)
            daemon.drained()
        finally:
            for listener in listeners:
                listener.end()
    times = Counter(number for listener in listeners for number in listener.ids)
    assert sorted(times) == list(range(len(times)))
    assert times.total() - len(times) <= 3 * FLYING  # what was in flight at the three ends
