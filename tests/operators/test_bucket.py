"""grouper::bucket: how many events pass in a time, by class and dimensions."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.operators.flows import LOST, Running
from walflow.codecs import JSON
from walflow.event import Block, Frames, StreamId
from walflow.framing import LINES
from walflow.receipt import Delivered, Receipt

MS = 1_000_000
LIMITED = """
    define operator limit from grouper::bucket;
    create operator limit;
    select event from in into limit;
    select event from limit into out;
    select event from limit/overflow into over;
"""


class Limited(Running):
    def __init__(self) -> None:
        super().__init__(LIMITED, ("out", "over", "err"))
        self.settled: list[Receipt] = []

    def send(
        self, at_ms: int, metas: Sequence[Mapping[str, object]], delivered: Delivered | None = None, first: int = 0
    ) -> Receipt:
        """Events that are their numbers."""
        payloads = [b"%d" % (first + number) for number in range(len(metas))]
        receipt = Receipt(self.settled.append, len(metas), None, delivered)
        frames = Frames(LINES.join(payloads), len(metas), LINES)
        block = Block(
            StreamId("main::ticks", 1, 1), frames, JSON, receipt, ingest_ns=at_ms * MS, meta={}, event_metas=metas
        )
        self.source.ports.out.accept(block)
        return receipt

    def ack(self) -> None:
        for sink in self.sinks:
            sink.ack()


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Limited]:
    monkeypatch.chdir(tmp_path)
    flow = Limited()
    yield flow
    flow.ack()
    flow.end()


def test_so_many_pass_in_a_second_and_the_others_leave_by_overflow(limited: Limited) -> None:
    limited.send(0, [{"class": "a", "rate": 2}] * 3)
    limited.send(900, [{"class": "a", "rate": 2}], first=3)
    limited.send(1100, [{"class": "a", "rate": 2}] * 3, first=4)
    assert limited.got == [[0, 1, 4, 5], [2, 3, 6], []]
    assert limited.world.count("overflow_events_total") == 3
    limited.ack()
    assert [receipt.cause for receipt in limited.settled] == [None] * 3


def test_each_class_and_each_value_of_dimensions_has_its_rate(limited: Limited) -> None:
    limited.send(0, [{"class": "a", "rate": 1}, {"class": "b", "rate": 1}, {"class": "a", "rate": 1}])
    of = {"class": "c", "rate": 1}
    limited.send(
        0, [{**of, "dimensions": ["x", 1]}, {**of, "dimensions": ["x", 2]}, {**of, "dimensions": ["x", 1]}], first=3
    )
    assert limited.got == [[0, 1, 3, 4], [2, 5], []]


def test_time_range_and_windows_say_how_time_slides(limited: Limited) -> None:
    meta = {"class": "a", "rate": 1, "time_range": 100, "windows": 10}
    for number, at in enumerate((0, 99, 100, 150, 200)):
        limited.send(at, [meta], first=number)
    assert limited.got == [[0, 2, 4], [1, 3], []]


def test_of_more_dimensions_than_cardinality_the_oldest_is_forgotten(limited: Limited) -> None:
    of = {"class": "a", "rate": 1, "cardinality": 2}
    limited.send(0, [{**of, "dimensions": each} for each in "abacab"])
    assert limited.got == [[0, 1, 3, 5], [2, 4], []]


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ({}, "`$class` is absent, not a string"),
        ({"class": 1, "rate": 1}, "`$class` is 1, not a string"),
        ({"class": "a"}, "`$rate` is absent"),
        ({"class": "a", "rate": -1}, "`$rate` is -1, not a whole number from 0 on"),
        ({"class": "a", "rate": "many"}, "`$rate` is a string, not a whole number from 0 on"),
        ({"class": "a", "rate": 1, "time_range": 0}, "`$time_range` is 0, not a whole number from 1 on"),
        ({"class": "a", "rate": 1, "windows": 0.5}, "`$windows` is a decimal number, not a whole number from 1 on"),
        ({"class": "a", "rate": 1, "cardinality": True}, "`$cardinality` is "),
    ],
)
def test_metadata_that_say_no_limit(limited: Limited, meta: Mapping[str, object], said: str) -> None:
    limited.send(0, [meta, {"class": "fine", "rate": 1}])
    assert limited.got[0] == [1]
    [error] = limited.got[2]
    assert isinstance(error, dict)
    assert said in error["error"]
    limited.ack()
    assert [receipt.cause for receipt in limited.settled] == [None]


def test_an_event_that_takes_the_other_way_the_second_time_is_not_left_out_there(limited: Limited) -> None:
    """Behind `overflow` one event had been acked, and the one behind `out` had failed:
    it alone comes again, and goes the other way."""
    of = {"class": "a", "rate": 1}
    first = limited.send(0, [of, of])
    limited.sinks[1].ack()
    limited.sinks[0].fail()
    assert (first.cause, first.done, first.lacking) == (LOST, 0, 1)
    limited.send(1, [of, of], first.outcome().between(0, 2))
    assert limited.got == [[0], [1, 0], []]


def test_what_was_delivered_here_is_not_limited_again(limited: Limited) -> None:
    first = limited.send(0, [{"class": "a", "rate": 1}])
    limited.ack()
    again = limited.send(0, [{"class": "a", "rate": 1}], first.outcome().between(0, 1))
    assert again.cause is None
    assert limited.got == [[0], [], []]


def test_the_events_before_a_failure_count_as_done(limited: Limited) -> None:
    of = {"class": "a", "rate": 2}
    receipt = limited.send(0, [of, {"class": "b", "rate": 0}, of, of])
    limited.sinks[1].ack()
    limited.sinks[0].fail(1)
    assert (receipt.done, receipt.count) == (2, 4)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from("ab")), max_size=40),
    st.integers(0, 4),
    st.sampled_from([(100, 10), (100, 1), (100, 100), (30, 3)]),
)
def test_a_plain_model_agrees(
    monkeypatch_home: None, events: list[tuple[int, str]], rate: int, time: tuple[int, int]
) -> None:
    time_range, windows = time
    step = time_range // windows
    flow = Limited()
    now = 0
    passed: list[tuple[int, str]] = []
    expected: list[int] = []
    for number, (later, name) in enumerate(events):
        now += later
        flow.send(now, [{"class": name, "rate": rate, "time_range": time_range, "windows": windows}], first=number)
        within = [one for at, one in passed if one == name and now // step - at // step < windows]
        if len(within) < rate:
            passed.append((now, name))
            expected.append(number)
    assert flow.got[0] == expected
    flow.ack()
    flow.end()


@pytest.fixture(scope="module")
def monkeypatch_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("bucket"))
        yield
