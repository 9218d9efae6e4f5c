"""generic::counter, generic in what it numbers."""

from pathlib import Path

import pytest

from tests.operators.flows import Running
from walflow.codecs import make
from walflow.event import Block, Frames, StreamId
from walflow.framing import LINES
from walflow.receipt import Receipt

COUNTED = """
    define operator numbers from generic::counter;
    create operator numbers;
    select event from in into numbers;
    select event from numbers into out;
"""


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_events_are_numbered_over_blocks() -> None:
    flow = Running(COUNTED, ("out", "err"))
    flow.give({"a": 1}, "b")
    flow.give([3])
    assert flow.got == [
        [{"count": 1, "event": {"a": 1}}, {"count": 2, "event": "b"}, {"count": 3, "event": [3]}],
        [],
    ]
    for sink in flow.sinks:
        sink.ack()
    assert flow.outlet.inflight == 0
    flow.end()


def test_what_has_no_json_form_is_rejected_and_has_no_number() -> None:
    flow = Running(COUNTED, ("out", "err"))
    settled: list[Receipt] = []
    deep = b"[" * 512 + b"]" * 512
    frames = Frames(LINES.join([b'{"a": 1}', deep, b"2"]), 3, LINES)
    block = Block(
        StreamId("main::ticks", 1, 1), frames, make("json"), Receipt(settled.append, 3), ingest_ns=7, meta={}
    )
    flow.source.ports.out.accept(block)
    numbered, rejected = flow.got
    assert numbered == [{"count": 1, "event": {"a": 1}}, {"count": 2, "event": 2}]
    [error] = rejected
    assert isinstance(error, dict)
    assert "generic::counter" in error["error"]
    assert not settled
    for sink in flow.sinks:
        sink.ack()
    assert [receipt.cause for receipt in settled] == [None]
    flow.end()


def test_a_failure_comes_to_the_source() -> None:
    flow = Running(COUNTED, ("out", "err"))
    flow.give(1, 2)
    flow.sinks[0].fail()
    assert flow.outlet.inflight == 0
    assert flow.world.count("lost_events_total") == 2
    flow.end()
