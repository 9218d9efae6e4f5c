"""`qos::stamp`: where an event stands in its log, in the event."""

from pathlib import Path

import pytest

from tests.flows.builder import NULL, TICKS, flow_of, pipeline
from tests.operators.flows import Running
from walflow.codecs import JSON
from walflow.event import Block, Frames, Origin, StreamId
from walflow.framing import LINES
from walflow.plan import load
from walflow.receipt import Receipt

LOG = 'define operator log from qos::wal with dir = "log", max_elements = 9 end; create operator log;'
BODY = """
    define operator stamp from qos::stamp{more};
    create operator stamp;
    {log}
    select event from in into log;
    select event from log into stamp;
    select event from stamp into out;
"""


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def stamped(running: Running, payloads: list[bytes], origin: Origin | None) -> Receipt:
    settled: list[Receipt] = []
    receipt = Receipt(settled.append, len(payloads))
    frames = Frames(LINES.join(payloads), len(payloads), LINES)
    log = next(nodes for nodes in running.nodes.connectors if nodes.plan.id.name == "p/log")
    log.source.ports.out.accept(
        Block(StreamId("f::log", 1, 1), frames, JSON, receipt, ingest_ns=1, meta={}, origin=origin)
    )
    return receipt


def test_position_by_position() -> None:
    running = Running(BODY.format(more="", log=LOG))
    receipt = stamped(running, [b'{"a":1}', b'{"a":2,"origin":"x"}'], Origin("the-log", 17, 18, 3))
    assert running.sinks[0].got == [
        {"a": 1, "origin": {"log": "the-log", "position": 17}},
        {"a": 2, "origin": {"log": "the-log", "position": 18}},
    ]
    assert running.sinks[0].waiting[0].origin == Origin("the-log", 17, 18, 3)
    running.sinks[0].ack()
    assert not receipt.pending
    running.end()


def test_what_is_no_record_leaves_by_err_and_the_rest_goes_on() -> None:
    running = Running(BODY.format(more=' with field = "from" end', log=LOG), ("out", "err"))
    receipt = stamped(running, [b"1", b'{"a":2}'], Origin("the-log", 1, 2, 1))
    assert running.sinks[0].got == [{"a": 2, "from": {"log": "the-log", "position": 2}}]
    assert "writes into records" in str(running.sinks[1].got)
    running.sinks[1].ack()
    assert receipt.pending
    running.sinks[0].fail()
    assert (receipt.done, receipt.lacking) == (1, 1)
    running.end()


@pytest.mark.parametrize("origin", [None, Origin("the-log", 1, 3, 1)])
def test_without_a_position_it_is_not_stamped_with_another(origin: Origin | None) -> None:
    running = Running(BODY.format(more="", log=LOG), ("out", "err"))
    receipt = stamped(running, [b'{"a":1}'], origin)
    assert running.sinks[0].got == []
    assert "its position in a log is not known" in str(running.sinks[1].got)
    running.sinks[1].ack()
    assert receipt.cause is None
    assert not receipt.pending
    running.end()


def test_check_says_that_it_needs_a_log() -> None:
    body = BODY.format(more="", log="define operator log from passthrough; create operator log;")
    with pytest.raises(AssertionError, match="qos::stamp needs a log on disk upstream"):
        Running(body)


HELD = """
    define operator held from qos::wal with max_elements = 10%s end;
    define operator stamp from qos::stamp;
    create operator held;
    create operator stamp;
    select event from in into held;
    select event from held into stamp;
    select event from stamp into out;
"""


def test_a_log_in_memory_has_no_positions(tmp_path: Path) -> None:
    file = tmp_path / "main.troy"

    def write(more: str) -> None:
        file.write_text(flow_of("ticks -> way -> last", ticks=TICKS, way=pipeline(HELD % more), last=NULL))

    write("")
    assembly, found = load([file])
    assert assembly is None
    assert [(one.message, one.hint) for one in found if one.severity == "error"] == [
        (
            "qos::stamp needs a log on disk upstream",
            "`way/held` gives events no positions: put a log before it, `qos::wal` with a `dir`, say",
        )
    ]
    write(', dir = "state"')
    assert load([file])[0] is not None
