"""A disk that is full, or allows no more: the breaker triggers, nothing is acked that is not on disk, acks and deletions
go on; and once there is room again work resumes within 2 s, by itself, with nothing lost. Under load a round trip takes
longer, so the slowest one of the same run without a shortage is added to the 2 s."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.namespace import needs_namespace
from tests.faults.shortage import ENDED_BY_DELETION, KINDS, NoBytes, NoInodes, OverQuota, Shortage
from tests.faults.strace import needs_strace
from tests.flows.builder import ANY_PORT, OUT, flow_of, json_only, lines, pipeline, plain
from tests.system.admin import LOOPBACK, Admin, Connection, values
from tests.system.daemon import Client, Daemon, running
from tests.waiting import PATIENCE
from walflow.wal.format import SLOT, unpack_slot

RESUMES = 2.0  # seconds
LOG = "log"


GATE = "tests.system.stubborn:Unready"
LAGGING = "tests.faults.lagging_sink:Lagging"


class Size(NamedTuple):
    """`event`: bytes of a line, so that a file that is full is not worth keeping as a spare. `each`: 1 if every event
    has so many, 2 if every second one has."""

    chunk: int
    chunks: int
    disk: str
    event: int
    each: int = 1


SIZES = {
    "1 KiB": Size(1 << 10, 64, "size=400k", 9_000),
    "64 KiB": Size(64 << 10, 8, "size=1m", 12_000),
    "64 MiB": Size(64 << 20, 2, "size=150m", 12_000),
}


# Of files of 64 MiB the next one is wanted once this one is full, and its last event is not acked: else it goes when it
# is half full. More than a sixteenth of it is left then, so it is cut and not kept as a spare. Of such events, two do not
# fit the window, so every second one is small.
ROTATING = SIZES["64 MiB"]._replace(event=4_823_000, each=2)
ROOMY = SIZES["1 KiB"]._replace(chunks=256, disk="size=600k")  # some of its events fit the window


class Conversation:
    """One client that sends a line and waits for its echo."""

    def __init__(self, daemon: Daemon, event: int, each: int = 1) -> None:
        self.admin = Admin(daemon)
        self.client = Client(daemon.port())
        self._metrics = Connection(self.admin.address)
        self._metrics.connect()
        self._before = self.of_log("wal_durable_position")  # of earlier lives
        self.slowest = 0.0  # round trip, in seconds
        self.sent = self.echoed = 0
        self._pad = b"x" * event
        self._each = each

    def line(self, number: int) -> bytes:
        return b'{"n":%d,"pad":"%s"}' % (number, b"" if number % self._each else self._pad)

    def send(self) -> None:
        self.client.send(self.line(self.sent) + b"\n")
        self.sent += 1

    def hear(self) -> None:
        for line in self.client.lines(self.sent - self.echoed):
            assert line == self.line(self.echoed), "altered"
            self.echoed += 1

    def round_trip(self) -> float:
        started = time.monotonic()
        self.send()
        self.hear()
        return time.monotonic() - started

    def metrics(self) -> dict[tuple[str, str], float]:
        """Over one connection, for there may be no descriptor for another one."""
        self._metrics.request("GET", "/metrics")
        return values(self._metrics.getresponse().read().decode())

    def of_log(self, name: str) -> float:
        return self.metrics()[f"walflow_{name}", LOG]

    def close(self) -> None:
        self.client.close()
        self._metrics.close()

    def send_until_full(self, shortage: Shortage) -> None:
        """Until nothing comes back any more, for the disk is full."""
        deadline = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < deadline, "it is never full"
            if self.echoed == self.sent:
                self.send()
            shortage.tighten()  # what the log has deleted meanwhile is taken too
            found = self.metrics()
            durable = found["walflow_wal_durable_position", LOG] - self._before
            while durable > self.echoed:
                self.echoed += len(self.client.lines(1))
            if found["walflow_wal_disk_full", LOG] and self.echoed < self.sent:
                assert found["walflow_component_breaker_open", LOG] > 0
                return


@contextmanager
def prepared(kind: str, size: Size, directory: Path, gate: str = "") -> Iterator[tuple[Path, Shortage]]:
    """A flow whose log is in `state`, and what it will be short of."""
    state = directory / "state"
    state.mkdir()
    (directory / "up").touch()  # the gate takes, and does not ack yet
    flow = directory / "flow.troy"
    ways, gates = ["tcp -> log -> tcp", "log -> numbers -> out"], {}
    if gate:
        ways.append("log -> gate")
        gates["gate"] = json_only(gate, directory=str(directory))
    flow.write_text(
        flow_of(
            *ways,
            numbers=pipeline("select event.n from in into out;"),
            tcp=lines("tcp_server", url=ANY_PORT, max_event_bytes=16 << 20),
            log=plain("wal", path="state", chunk_size=size.chunk, max_chunks=size.chunks),
            out=OUT,
            **gates,
        )
    )
    shortage = KINDS[kind](state, size.disk)
    try:
        yield flow, shortage
    finally:
        shortage.close()


@contextmanager
def talking(flow: Path, shortage: Shortage, event: int, each: int = 1) -> Iterator[tuple[Daemon, Conversation]]:
    with running(flow, flow.parent, prefix=shortage.prefix, admin=LOOPBACK) as daemon:
        conversation = Conversation(daemon, event, each)
        shortage.pid = daemon.pid
        try:
            yield daemon, conversation
        finally:
            conversation.close()


@contextmanager
def short_of(
    kind: str, size: Size, directory: Path, gate: str = ""
) -> Iterator[tuple[Daemon, Conversation, Shortage]]:
    with (
        prepared(kind, size, directory, gate) as (flow, shortage),
        talking(flow, shortage, size.event, size.each) as (daemon, conversation),
    ):
        yield daemon, conversation, shortage


def starts(size: Size, directory: Path, times: int) -> None:
    """So many daemons whose first file finds no room: one of 64 MiB wants none for long after that."""
    with prepared("ENOSPC, bytes", size, directory) as (flow, shortage):
        for _ in range(times):
            with talking(flow, shortage, 100) as (daemon, conversation):
                shortage.begin(0)
                conversation.send_until_full(shortage)
                shortage.end()
                started = time.monotonic()
                conversation.hear()
                resumed = time.monotonic() - started
                control = conversation.round_trip()
                assert resumed <= RESUMES + control
                daemon.drained()
    assert len((directory / "out.log").read_bytes().splitlines()) == 2 * times


def cycles(kind: str, size: Size, directory: Path, times: int) -> list[float]:
    """How long after each shortage the echo came, in seconds."""
    gate = LAGGING if size is ROTATING else ""
    with short_of(kind, size, directory, gate) as (daemon, conversation, shortage):
        control = max(conversation.round_trip() for _ in range(4))
        resumed: list[float] = []
        for _ in range(times):
            shortage.begin(conversation.sent)
            conversation.send_until_full(shortage)
            shortage.end()
            started = time.monotonic()
            conversation.hear()
            resumed.append(time.monotonic() - started)
            control = max(control, *(conversation.round_trip() for _ in range(2)))
            assert resumed[-1] <= RESUMES + control, (
                f"resumed after {resumed[-1]:.1f} s; a round trip takes {control:.1f} s"
            )
        sent = conversation.sent
        (directory / "ack").touch()
        # a limit on the size of files is one for the sink's file, too, which waits before it tries again
        conversation.admin.until(lambda _: conversation.of_log("wal_backlog_events") == 0)
        daemon.drained()
    said = [line for line in daemon.raw if shortage.message in line]
    assert said, "and the log says why"
    numbers = [json.loads(line) for line in (directory / "out.log").read_bytes().splitlines()]
    assert numbers == list(range(sent)), "each once, in order"
    return resumed


def size_of(kind: str, chunk: str) -> Size:
    """Where no file is wanted for long, because one of 64 MiB is being written, it is filled."""
    wants_a_file = kind in ("ENOSPC, bytes", "ENOSPC, inodes", "EMFILE")
    return ROTATING if wants_a_file and chunk == "64 MiB" else SIZES[chunk]


def needed(kind: str) -> list[pytest.MarkDecorator]:
    of = KINDS[kind]
    return [needs_namespace] if of in (NoBytes, NoInodes) else [needs_strace] if of is OverQuota else []


EVERY = [(kind, chunk) for kind in KINDS for chunk in SIZES]
SAMPLE = [
    ("ENOSPC, bytes", "1 KiB"),
    ("EFBIG", "64 MiB"),
    ("ENOSPC, inodes", "64 KiB"),
    ("EFBIG", "64 KiB"),
    ("EDQUOT", "1 KiB"),
    ("EMFILE", "64 KiB"),
    ("ENOSPC, inodes", "64 MiB"),
]


@pytest.mark.nightly
@pytest.mark.alone
@pytest.mark.parametrize(("kind", "chunk"), [pytest.param(*one, marks=needed(one[0])) for one in SAMPLE])
def test_work_stops_and_resumes(tmp_path: Path, kind: str, chunk: str) -> None:
    assert len(cycles(kind, size_of(kind, chunk), tmp_path, 2)) == 2


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("kind", "chunk"), [pytest.param(*one, marks=needed(one[0])) for one in EVERY])
def test_fifty_times(tmp_path: Path, kind: str, chunk: str) -> None:
    assert len(cycles(kind, size_of(kind, chunk), tmp_path, 50)) == 50


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=needed(kind)) for kind in KINDS])
def test_acks_and_deletions_go_on(tmp_path: Path, kind: str) -> None:
    """A sink acks for the first time while the disk is full: the cursor follows, the files go, and their room is the
    log's again. Where that ends the shortage, nobody else does; elsewhere it lasts."""
    with short_of(kind, ROOMY, tmp_path, GATE) as (daemon, conversation, shortage):
        for _ in range(3):
            conversation.round_trip()
        assert conversation.of_log("wal_low_position") == 0
        # the file takes them by itself, and a limit on the size of files would be one for its sidecar too
        conversation.admin.until(lambda _: conversation.metrics()["walflow_component_acked_events_total", "out"] == 3)
        shortage.begin(conversation.sent)
        conversation.send_until_full(shortage)
        acked, used = conversation.echoed, conversation.of_log("wal_used_bytes")
        files = sorted(shortage.state.glob("*.wal"))[:3]
        (tmp_path / "ack").touch()
        conversation.admin.until(lambda admin: low_on_disk(shortage.state) >= acked)
        conversation.admin.until(lambda admin: not any(file.exists() for file in files))
        conversation.admin.until(lambda admin: conversation.of_log("wal_used_bytes") <= used - 2 * ROOMY.event)
        if kind not in ENDED_BY_DELETION:
            assert conversation.of_log("wal_disk_full") == 1
            shortage.end()
        conversation.hear()
        conversation.admin.until(lambda admin: conversation.of_log("wal_disk_full") == 0)
        daemon.drained()


def low_on_disk(state: Path) -> int:
    """What the cursor says is acked; one slot may be just being written."""
    data = (state / "cursor").read_bytes()
    slots = [unpack_slot(data[:SLOT]), unpack_slot(data[SLOT:])]
    return max(found[1].low for found in slots if found is not None)


@needs_namespace
@pytest.mark.timeout(900)
@pytest.mark.parametrize("times", [1, pytest.param(50, marks=pytest.mark.soak)])
def test_a_file_of_64_mib_that_finds_no_room(tmp_path: Path, times: int) -> None:
    starts(SIZES["64 MiB"], tmp_path, times)
