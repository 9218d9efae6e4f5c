"""What a sink has failed last, as `walflow status` and the metrics have it."""

import pytest
from structlog.testing import capture_logs

from tests.nodes.test_sink import block, served
from tests.nodes.world import World
from walflow import Block, Origin, Receipt
from walflow.nodes.failures import QUIET, SinkFailures
from walflow.nodes.sink import SinkNode


def told(sink: SinkNode) -> tuple[str, int, int]:
    return sink.failures.cause, sink.failures.position, sink.failures.row


def at(position: int, settled: list[Receipt]) -> Block:
    one = block(b"1\n", settled)
    return Block(
        one.stream,
        one.frames,
        one.codec,
        one.receipt,
        ingest_ns=0,
        meta={},
        origin=Origin("log", position, position, 1),
    )


def test_a_failed_block_is_noted_with_its_position_until_one_is_taken() -> None:
    settled: list[Receipt] = []
    world = World()
    sink = world.sink()
    got = served(sink)
    for position in (7, 8, 9):
        sink.accept(at(position, settled))
    sink.fail(got[0], ConnectionError("500"))
    assert told(sink) == ("500", 7, 1)
    sink.fail(got[1], ConnectionError("502"))
    assert told(sink) == ("502", 8, 2)
    sink.ack(got[2])
    assert told(sink) == ("502", 8, 0)
    assert world.count("failed_tries_total") == 2


def test_a_breaker_is_a_failure_each_time_it_triggers_and_none_once_it_is_restored() -> None:
    sink = World().sink()
    sink.trigger("refused")
    sink.trigger("refused again")
    assert told(sink) == ("refused again", 0, 2)
    sink.half_open()
    assert sink.failures.row == 2
    sink.restore()
    assert sink.failures.row == 0


def test_of_a_sink_that_tells_of_its_tries_nothing_is_counted_twice() -> None:
    settled: list[Receipt] = []
    sink = World().sink()
    got = served(sink)
    sink.accept(at(7, settled))
    sink.failed_try("500 boom", got[0])
    sink.trigger("500 boom (2 in a row)")
    sink.fail(got[0], ConnectionError("500 boom (attempt 1)"))
    assert told(sink) == ("500 boom", 7, 1)


def test_a_run_that_begins_anew_has_taken_nothing() -> None:
    world = World()
    sink = world.sink()
    sink.trigger("away")
    sink.end("restarting: it broke")
    sink.note_failure("it broke")
    sink.begin(world.context("f::sink"))
    assert told(sink) == ("it broke", 0, 2)


@pytest.mark.parametrize(
    ("reason", "level", "advice"),
    [
        ("out.log: cannot write: No space left on device", "error", "make room: it goes on by itself"),
        ("/home/out: cannot write: Disk quota exceeded", "error", "make room: it goes on by itself"),
        ("the log is full: 9 of 10 bytes", "error", "its sinks do not take its events: `walflow status` says why"),
        ("Connection refused", "warning", None),
    ],
)
def test_a_disk_that_is_full_is_an_error_that_says_what_to_do(reason: str, level: str, advice: str | None) -> None:
    with capture_logs() as lines:
        World().sink().trigger(reason)
    assert [(line["log_level"], line.get("advice")) for line in lines] == [(level, advice)]


@pytest.mark.parametrize(
    ("takes", "again", "began"),
    [(False, QUIET + 6, 5.0), (True, QUIET + 4, 5.0), (True, QUIET + 6, QUIET + 6)],
    ids=["it has taken nothing since", "so soon it is the same trouble", "new trouble"],
)
def test_trouble_lasts_until_a_quiet_minute(takes: bool, again: float, began: float) -> None:
    failures = SinkFailures()
    assert failures.seconds(1000) == 0
    failures.note("a", 1, 5.0)
    assert failures.seconds(8.0) == 3.0
    if takes:
        failures.took()
    failures.note("b", 2, again)
    assert failures.began == began
    failures.took()
    assert failures.seconds(1000.0) == 0
