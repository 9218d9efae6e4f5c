"""What each release left behind: this version goes on from it,
and a version that does not know a format leaves it alone."""

import re
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.release.golden.make import EVENTS, FLOW, KEPT, lines, send, until_written
from tests.system.daemon import ROOT, running
from tests.waiting import PATIENCE, wait_until

GOLDEN = FLOW.parent
LEFT = sorted(f"{path.parent.name}/{path.name}" for path in GOLDEN.glob("*.*.*/*") if path.is_dir())


class Peer:
    """Takes what comes, and sends it back: for `away`, an ack."""

    def __init__(self, server: socket.socket) -> None:
        self.taken = b""
        self._server = server

    def run(self) -> None:
        with suppress(OSError):
            while True:
                with self._server.accept()[0] as client:
                    while data := client.recv(65536):
                        self.taken += data
                        client.sendall(data)

    def has(self, wanted: bytes) -> bool:
        return len(self.taken) >= len(wanted)


@contextmanager
def peer(path: Path) -> Iterator[Peer]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        one = Peer(server)
        thread = threading.Thread(target=one.run)
        thread.start()
        try:
            yield one
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)


@pytest.fixture
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("w")  # short: the path of a socket has 108 bytes


@pytest.mark.parametrize("left", LEFT)
def test_every_later_version_goes_on_from_it(left: str, workdir: Path) -> None:
    for name in KEPT:
        source = GOLDEN / left / name
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, workdir / name)
    with peer(workdir / "peer.sock") as away, running(FLOW, workdir) as daemon:
        send(daemon.port(), EVENTS + 1, EVENTS + 1)
        until_written(workdir, EVENTS + 1)
        wait_until(lambda: away.has(lines(1, EVENTS + 1)))
        assert daemon.terminate() == 0
    assert away.taken == lines(1, EVENTS + 1)
    written = (workdir / "out.log").read_bytes()
    assert set(written.splitlines()) == set(lines(1, EVENTS + 1).splitlines())
    # The sidecar knows its file by the inode, which a copy does not keep: what was not acked at the kill comes again.
    assert left.endswith("/killed") or written == lines(1, EVENTS + 1)


def test_there_is_one_of_each_release() -> None:
    released = re.findall(r"^## (\d+\.\d+\.\d+), ", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert {"0.1.0", *released} == {left.split("/")[0] for left in LEFT}
