"""`walflow wal` beside a daemon: an event that the peer never takes is found by the daemon's own lines, and skipped;
and what was exported from one directory is delivered from another."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.wal_tools import run
from tests.system.daemon import ROOT, Daemon, running


class Peer:
    """Echoes lines, and hangs up on one with poison in it. `got`: what it echoed."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.got: list[bytes] = []
        self.arrived = threading.Condition()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    if b"poison" in line:
                        break
                    connection.sendall(line)
                    with self.arrived:
                        self.got.append(line)
                        self.arrived.notify_all()

    def wait_for(self, count: int) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(set(self.got)) >= count, 30), self.got

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


@contextmanager
def peer() -> Iterator[Peer]:
    one = Peer()
    try:
        yield one
    finally:
        one.close()


def flow(directory: Path, url: str) -> Path:
    text = (ROOT / "flows" / "echo" / "client.troy").read_text()
    file = directory / "client.troy"
    file.write_text(text.replace('url = "127.0.0.1:65535"', f'url = "{url}"'))
    return file


def poisoned(daemon: Daemon) -> int:
    """Position of the event that fails alone, as the daemon says it."""
    while True:
        line = daemon.wait_for("redelivery")
        if line["events"] == 1 and int(str(line["attempts"])) > 1:
            return int(str(line["position"]))


def test_a_poison_event_is_found_and_skipped(tmp_path: Path) -> None:
    lines = [b'{"n":%d}\n' % number for number in range(4)]
    (tmp_path / "client_in.json").write_bytes(b"".join([*lines[:2], b'{"poison":1}\n', *lines[2:]]))
    log = tmp_path / "client_state"
    with peer() as one:
        file = flow(tmp_path, one.url)
        with running(file, tmp_path) as daemon:
            position = poisoned(daemon)
            assert run("skip", log, str(position)).exit_code == 75
            shown = run("dump", log, "--from", str(position), "--to", str(position))
            assert shown.output.endswith(' {"poison":1}\n')
            assert daemon.terminate() == 0
        (tmp_path / "client_in.json").write_bytes(b"")  # which would be read again
        assert "poison" in run("skip", log, str(position), "--dry-run").output
        assert run("skip", log, str(position)).exit_code == 0
        with running(file, tmp_path) as daemon:
            one.wait_for(4)
            assert daemon.terminate() == 0
        assert set(one.got) == set(lines)
    known = json.loads(run("stats", log, "--json").output)
    assert (known["backlog_events"], known["low"]) == (0, 5)
    assert known["quarantine"][0]["report"]["reason"] == "skipped by the operator"


def test_what_is_imported_is_delivered(tmp_path: Path) -> None:
    lines = [b'{"n":%d}\n' % number for number in range(50)]
    (tmp_path / "client_in.json").write_bytes(b"".join(lines))
    with running(flow(tmp_path, "127.0.0.1:1"), tmp_path) as daemon:
        daemon.wait_for("log open")
        while json.loads(run("stats", tmp_path / "client_state", "--json").output)["durable"] < 50:
            pass
        live = run("export", tmp_path / "client_state")
        assert live.exit_code == 0
        assert daemon.terminate() == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lines").write_bytes(live.stdout_bytes)
    assert run("import", elsewhere / "client_state", elsewhere / "lines").exit_code == 0
    (elsewhere / "client_in.json").write_bytes(b"")
    with peer() as one, running(flow(elsewhere, one.url), elsewhere) as daemon:
        one.wait_for(50)
        assert daemon.terminate() == 0
    assert one.got == lines
