"""A script that counts, in a daemon: its sink dies and comes back, a branch beside it fails, the daemon is killed."""

import json
import socket
import threading
from contextlib import suppress
from pathlib import Path

from tests.flows.builder import AT_ONCE, LOG, TCP, flow_of, json_only, lines, pipeline
from tests.system.daemon import Client, free_port, running
from tests.waiting import PATIENCE, wait_until

EVENTS = 600
COUNT = """
    define script n
    state 0
    script
      let state = state + 1;
      {"event": event, "count": state}
    end;
    create script n;
    select event from in into n;
    select event from n into out;
"""


def flow_for(port: int) -> str:
    return flow_of(
        "clients -> log -> count -> counts",
        "log -> flaky",
        count=pipeline(COUNT),
        clients=TCP,
        log=LOG,
        counts=lines("tcp_client", url=f"127.0.0.1:{port}", ack="echo", reconnect=AT_ONCE),
        flaky=json_only("tests.system.flaky:Flaky", failures=6),
    )


class Counts:
    """The peer: keeps what comes and sends it back. It hangs up after 100 events, three times."""

    def __init__(self, port: int) -> None:
        self.got: list[tuple[int, int]] = []
        self.lives = 0
        self._listening = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listening.accept()
                self.lives += 1
                with peer, suppress(OSError):
                    self._serve(peer)

    def _serve(self, peer: socket.socket) -> None:
        for came, line in enumerate(peer.makefile("rb")):
            if came == 100 and self.lives <= 3:
                return
            if line.endswith(b"\n"):
                event = json.loads(line)
                self.got.append((event["event"], event["count"]))
                peer.sendall(line)


def test_each_result_comes_and_each_event_counts_once_until_a_kill(tmp_path: Path) -> None:
    port = free_port()
    counts = Counts(port)
    flow = tmp_path / "main.troy"
    flow.write_text(flow_for(port))
    try:
        with running(flow, tmp_path) as daemon:
            client = Client(daemon.port())
            client.send(b"".join(b"%d\n" % number for number in range(EVENTS)))
            wait_until(lambda: len(set(counts.got)) == EVENTS)
            # the n-th event is counted as the n-th, though its peer has died, and the log has sent it again for the
            # branch beside
            assert sorted(set(counts.got)) == [(number, number + 1) for number in range(EVENTS)]
            assert counts.lives > 3
            assert daemon.last("redelivery")["cause"]
            client.close()
            daemon.kill()
        before = len(counts.got)
        with running(flow, tmp_path) as daemon:
            client = Client(daemon.port())
            client.send(b"7777\n")
            wait_until(lambda: counts.got[-1][0] == 7777)
            # the state is lost with the process; what the log had not heard of as acked is counted anew
            again = counts.got[before:]
            assert [count for _, count in again] == list(range(1, len(again) + 1))
            client.close()
            assert daemon.terminate() == 0
    finally:
        counts.end()
