"""The scenes of the seeds' quality-of-service pages, faster: flows/qos as shipped, real listeners, and what they
printed."""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from demo.listener_process import ListenerProcess, Printed, lives
from demo.server import write_flow
from tests.system import test_ws
from tests.system.daemon import ROOT, Daemon, running
from tests.waiting import wait_until

wscat = test_ws.wscat  # the fixture

QOS = ROOT / "flows" / "qos"
READ_COUNT = 20  # of both flows: events on their way to listeners
BOUND = 1000  # events in the log
MS = 1_000_000


def persistent(directory: Path, port: int, interval: int, ack: str) -> Path:
    args = {"url": f"127.0.0.1:{port}", "interval": interval, "ack": ack}
    return write_flow(directory, QOS / "persistent.troy", args)


def wait_for_more(listener: ListenerProcess, count: int) -> None:
    goal = len(listener.events()) + count
    wait_until(lambda: len(listener.events()) >= goal, f"{goal} events, not {len(listener.events())}")


def ids(events: list[Printed]) -> list[int]:
    return [event.id for event in events]


def end(daemon: Daemon, number: signal.Signals) -> None:
    if number is signal.SIGKILL:
        daemon.kill()
    else:
        assert daemon.terminate() == 0


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_walflow_is_restarted(tmp_path: Path, number: signal.Signals) -> None:
    """The listener has printed events that it never acked: these come again, then what was only logged, then new
    ones."""
    acked = 30
    with ListenerProcess(tmp_path / "printed") as listener:
        listener.start("--back", "--answers", str(acked))
        flow = persistent(tmp_path, listener.port, 5 * MS, "message")
        with running(flow, tmp_path, "--drain-seconds", "0.1") as first:
            wait_for_more(listener, acked + READ_COUNT)
            end(first, number)
        listener.kill()
        before = listener.events()
        assert ids(before) == list(range(acked + READ_COUNT))

        listener.start("--back")
        with running(flow, tmp_path) as second:
            replays = int(str(second.wait_for("log open")["replays"]))
            wait_for_more(listener, replays + 20)
            second.drained()

    after = listener.events()[len(before) :]
    again, new = after[:replays], after[replays:]
    logged = again[-1].id + 1
    assert ids(again) == list(range(logged - replays, logged))
    assert again[0].id == acked if number is signal.SIGTERM else again[0].id <= acked  # a kill may forget acks
    assert set(again) >= set(before[acked:])
    assert ids(new) == list(range(len(new)))
    assert lives(listener.events()) == [list(range(logged)), ids(new)]


@pytest.mark.nightly
@pytest.mark.parametrize("ack", ["pong", "message"])
def test_the_listener_is_restarted(tmp_path: Path, ack: str) -> None:
    """The seed's event 5: written to a listener that never read it."""
    options = ["--back"] if ack == "message" else []
    with ListenerProcess(tmp_path / "printed") as listener:
        listener.start(*options)
        flow = persistent(tmp_path, listener.port, 60 * MS, ack)
        with running(flow, tmp_path) as daemon:
            for _ in range(2):
                wait_for_more(listener, 5)
                listener.freeze()
                wait_until(lambda: listener.unread() > 0, "an event is written to it")
                listener.kill()
                daemon.wait_for("breaker triggered")
                listener.start(*options)
                wait_for_more(listener, 3)
            daemon.drained()
            logged = int(str(daemon.last("log closing")["durable"]))
    printed = ids(listener.events())
    assert sorted(set(printed)) == list(range(logged))
    assert 5 in printed
    assert len(printed) - logged <= 2 * READ_COUNT


class Three:
    """The listeners of the round robin. `shot`: what each printed just before it was killed, so much of it as could be
    in flight."""

    def __init__(self, directory: Path) -> None:
        self.all = [ListenerProcess(directory / f"ws{number}") for number in range(3)]
        self.shot: set[int] = set()
        for listener in self.all:
            listener.start("--back")

    def flow(self, directory: Path, interval: int) -> Path:
        urls = {f"ws{number}": f"127.0.0.1:{listener.port}" for number, listener in enumerate(self.all)}
        return write_flow(directory, QOS / "roundrobin.troy", {**urls, "interval": interval, "ack": "message"})

    def kill(self, *which: ListenerProcess) -> None:
        for listener in which:
            listener.kill()
        for listener in which:
            self.shot.update(ids(listener.events())[-READ_COUNT:])

    def counts(self) -> list[int]:
        return [len(listener.events()) for listener in self.all]

    def wait_for_more(self, which: list[ListenerProcess], count: int) -> None:
        goals = [(listener, len(listener.events()) + count) for listener in which]
        wait_until(
            lambda: all(len(listener.events()) >= goal for listener, goal in goals),
            f"{count} more each, there are {self.counts()}",
        )

    def printed(self) -> list[int]:
        return [number for listener in self.all for number in ids(listener.events())]

    def check(self) -> None:
        """Every id from 0 on; each by one listener, unless it was in flight at a kill."""
        printed = sorted(self.printed())
        twice = {number for number, following in pairwise(printed) if number == following}
        assert sorted(set(printed)) == list(range(printed[-1] + 1))
        assert twice <= self.shot


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    made = Three(tmp_path)
    with ExitStack() as stack:
        for listener in made.all:
            stack.enter_context(listener)
        yield made


def test_one_of_three_is_lost_at_a_thousand_events_a_second(tmp_path: Path, three: Three) -> None:
    first, *others = three.all
    with running(three.flow(tmp_path, MS), tmp_path) as daemon:
        three.wait_for_more(three.all, 200)
        read = [ids(listener.events()) for listener in three.all]  # one after the other: the last one has got more
        until = min(map(max, read))
        shares = [sum(number < until for number in numbers) for numbers in read]
        assert max(shares) - min(shares) <= 2 * READ_COUNT
        three.kill(first)
        alone = len(first.events())
        three.wait_for_more(others, 300)
        assert len(first.events()) == alone
        first.start("--back")
        three.wait_for_more(three.all, 100)
        daemon.drained()
    three.check()


@pytest.mark.nightly
def test_all_three_are_lost_until_the_log_is_full(tmp_path: Path, three: Three) -> None:
    with running(three.flow(tmp_path, MS), tmp_path) as daemon:
        three.wait_for_more(three.all, 50)
        three.kill(*three.all)
        before = max(three.printed()) + 1
        while "in memory" not in str((full := daemon.wait_for("breaker triggered"))["reason"]):
            pass
        assert str(full["reason"]).startswith(f"{BOUND:,} events, ")
        since = time.time_ns()
        for _ in range(2):
            daemon.wait_for("cannot connect")
        until = time.time_ns()
        for listener in three.all:
            listener.start("--back")
        wait_until(lambda: len(set(three.printed())) >= before + BOUND, "what was in the log comes")
        three.wait_for_more(three.all, 50)
        daemon.drained()
    three.check()
    made = [event.ingest_ns for listener in three.all for event in listener.events()]
    assert not [moment for moment in made if since < moment < until]


@pytest.mark.nightly
def test_wscat_is_restarted(tmp_path: Path, wscat: list[str]) -> None:
    with ListenerProcess(tmp_path / "printed", [*wscat, "-l"]) as listener:
        listener.start()
        with running(persistent(tmp_path, listener.port, 60 * MS, "pong"), tmp_path) as daemon:
            wait_for_more(listener, 5)
            listener.kill()
            daemon.wait_for("breaker triggered")
            listener.start()
            wait_for_more(listener, 5)
            assert daemon.terminate() == 0
            logged = int(str(daemon.last("log closing")["durable"]))
    assert sorted(set(ids(listener.events()))) == list(range(logged))
