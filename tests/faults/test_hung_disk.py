"""A call of the system that hangs, as one to a dying disk or to a server of files does. It holds up nothing but its
own log, and it is named: which connector, which call, which file, since when."""

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest

from tests.faults.strace import Tracer, injections, needs_strace, options
from tests.flows.builder import TCP, flow_of, plain
from tests.system.admin import LOOPBACK, Admin, Connection
from tests.system.daemon import Client, Daemon, running

pytestmark = [needs_strace, pytest.mark.alone, pytest.mark.nightly]

HANGS = 20.0  # seconds
SOON = 1.0  # seconds: much less than that, and far more than an echo takes on a busy machine


class Two:
    """A daemon with two flows that have nothing in common."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.admin = Admin(daemon)
        ports: dict[str, int] = {}
        while len(ports) < 2:
            said = daemon.wait_for("listening")
            ports[str(said["flow"])] = int(str(said["address"]).rpartition(":")[2])
        daemon.wait_for("ready")
        self.hung, self.other = Client(ports["hung"]), Client(ports["other"])
        self.longest = 0.0  # seconds that an echo of `other`, or an answer of the admin address, took
        self._connection = Connection(self.admin.address)

    def echo(self, client: Client, number: int) -> float:
        began = time.monotonic()
        client.send(b'"%d"\n' % number)
        assert client.lines(1) == [b'"%d"' % number]
        return time.monotonic() - began

    def works(self, seconds: float) -> None:
        """That the other flow and the admin address do, for so long."""
        end = time.monotonic() + seconds
        number = 0
        while time.monotonic() < end:
            number += 1
            self.longest = max(self.longest, self.echo(self.other, number), self._answers())
            time.sleep(0.01)

    def _answers(self) -> float:
        began = time.monotonic()
        self._connection.request("GET", "/livez")
        self._connection.getresponse().read()
        return time.monotonic() - began

    def close(self) -> None:
        self._connection.close()
        self.hung.close()
        self.other.close()


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory on a disk where a sync takes no time: there the loop waits for small commits."""
    place = Path("/dev/shm")
    with TemporaryDirectory(dir=place if place.is_dir() else None) as made:
        yield Path(made)


@contextmanager
def two(directory: Path) -> Generator[Two]:
    flow = directory / "two.troy"
    flow.write_text(
        "".join(
            flow_of("tcp -> log -> tcp", name=name, tcp=TCP, log=plain("wal", path=name))
            for name in ("hung", "other")
        )
    )
    with running(flow, directory, admin=LOOPBACK) as daemon:
        made = Two(daemon)
        try:
            yield made
        finally:
            made.close()


def test_a_sync_that_hangs_holds_up_its_own_log_alone_and_is_named(memory: Path, tmp_path: Path) -> None:
    with two(memory) as flows:
        for number in range(50):
            flows.echo(flows.hung, number)  # small commits on a fast disk, for which the loop waits
            flows.echo(flows.other, number)
        (chunk,) = (memory / "hung").glob("*.wal")
        given = options(f"fdatasync:delay_enter={round(HANGS * 1e6)}:when=1", path=[chunk], calls=["fdatasync"])
        with Tracer(flows.daemon.pid, tmp_path / "trace", given):
            late: list[float] = []
            waiting = Thread(target=lambda: late.append(flows.echo(flows.hung, 50)))
            waiting.start()
            flows.works(7.5)
            said = flows.daemon.wait_for("waits long")
            assert (said["flow"], said["component"], said["level"]) == ("hung", "log", "warning")
            assert (said["of"], said["call"]) == ("hung::log", f"fdatasync of {chunk}")
            code, body = flows.admin.get("/readyz")
            assert code == 200
            assert "note: hung::log has waited " in body
            assert f" s for fdatasync of {chunk}" in body
            (shown,) = flows.admin.status()["waits"]
            assert (shown["who"], shown["call"]) == ("hung::log", f"fdatasync of {chunk}")
            assert shown["seconds"] >= 5
            flows.works(5.0)
            stands = flows.daemon.wait_for("standing still")
            assert (stands["flow"], stands["component"]) == ("hung", "tcp")
            assert "no outcome from hung::log for 10 s; hung::log has waited " in str(stands["reason"])
            assert f"fdatasync of {chunk}" in str(stands["reason"])
            assert not late
            waiting.join()
        assert injections(tmp_path / "trace") == 1
        over = flows.daemon.wait_for("waits no longer")
        assert over["call"] == said["call"]
        assert float(str(over["seconds"])) >= HANGS
        flows.daemon.wait_for("moving again")
        assert late[0] >= HANGS - SOON
        assert flows.longest < SOON
        flows.echo(flows.hung, 51)
        assert flows.admin.get("/readyz") == (200, "ok\n")
        assert flows.daemon.terminate() == 0
