"""A chain in, a log between, another chain out, and kills: nothing is lost, and what comes is as it was."""

import base64
import gzip
import json
import socket
import struct
import threading
from pathlib import Path

import pytest

from tests.flows.builder import LOG, flow_of
from tests.system.daemon import Daemon, running

FLOW = flow_of(
    "server -> log -> out",
    "log -> server",
    server="""tcp_server with
      codec = "json",
      preprocessors = ["length-prefixed", "decompress"],
      postprocessors = [{"name": "compress", "config": {"algorithm": "gzip"}}, "length-prefixed"],
      config = {"url": "127.0.0.1:0"}
    end""",
    log=LOG,
    out='file with codec = "json", postprocessors = ["base64", "separate"], config = {"path": "out.b64", "mode": "append"} end',
)

KILLS = 3
ENOUGH = 300  # echoes until the daemon is killed
SENT = 3000  # by then, or as far as it got


def frame(number: int) -> bytes:
    """Every third is JSON over two lines, so that blocks of both kinds are in the log."""
    text = b'{"id":%d,"text":"caf\xc3\xa9"%s}' % (number, b"\n" if number % 3 == 0 else b"")
    packed = gzip.compress(text, 1)
    return struct.pack(">Q", len(packed)) + packed


class Client:
    """Sends on; what was echoed was in the log."""

    def __init__(self, port: int, first: int) -> None:
        self.next = first
        self.echoed: list[int] = []
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=100)
        self._sender = threading.Thread(target=self._send)
        self._sender.start()

    def _send(self) -> None:
        try:
            for _ in range(SENT // 10):
                self._socket.sendall(b"".join(frame(self.next + number) for number in range(10)))
                self.next += 10
        except OSError:
            pass

    def read(self, count: int) -> None:
        """As many echoes, or all that come."""
        with self._socket.makefile("rb") as stream:
            try:
                while len(self.echoed) < count and len(head := stream.read(8)) == 8:
                    packed = stream.read(struct.unpack(">Q", head)[0])
                    self.echoed.append(json.loads(gzip.decompress(packed))["id"])
            except (OSError, EOFError):
                pass

    def end(self) -> None:
        self._socket.close()
        self._sender.join()


def killed_under_load(daemon: Daemon, first: int) -> Client:
    client = Client(daemon.port(), first)
    client.read(ENOUGH)
    daemon.kill()
    client.end()
    return client


@pytest.mark.nightly
def test_kills_lose_nothing_on_the_way_through_two_chains(tmp_path: Path) -> None:
    flow = tmp_path / "flow.troy"
    flow.write_text(FLOW)
    echoed: set[int] = set()
    first = 0
    for _ in range(KILLS):
        with running(flow, tmp_path) as daemon:
            client = killed_under_load(daemon, first)
        assert len(client.echoed) == ENOUGH
        echoed.update(client.echoed)
        first = client.next + 10  # what was being sent when it died may have arrived
    with running(flow, tmp_path) as daemon:
        daemon.port()
        daemon.drained()
    lines = (tmp_path / "out.b64").read_bytes().split(b"\n")
    assert lines.pop() == b""
    written = [json.loads(base64.b64decode(line, validate=True)) for line in lines]
    assert all(event["text"] == "caf\xe9" for event in written)
    ids = [event["id"] for event in written]
    assert echoed <= set(ids)
    assert len(ids) == len(set(ids))
    assert ids == sorted(ids)
    assert any(number % 3 == 0 for number in ids)


def test_damage_is_said_and_only_what_cannot_be_read_hangs_up(tmp_path: Path) -> None:
    flow = tmp_path / "flow.troy"
    flow.write_text(FLOW)
    with running(flow, tmp_path) as daemon:
        with socket.create_connection(("127.0.0.1", daemon.port()), timeout=100) as peer:
            peer.sendall(struct.pack(">Q", 4) + b"\x1f\x8b\0\0" + frame(1))
            with peer.makefile("rb") as stream:
                packed = stream.read(struct.unpack(">Q", stream.read(8))[0])
                assert json.loads(gzip.decompress(packed))["id"] == 1
                assert "not gzip" in str(daemon.wait_for("rejected")["reason"])
                peer.sendall(struct.pack(">Q", 1 << 63) + b"x" * 1000)
                assert stream.read() == b""
        assert "9223372036854775808 bytes exceeds max_event_bytes" in str(daemon.wait_for("rejected")["reason"])
        assert daemon.terminate() == 0
