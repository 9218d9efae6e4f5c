"""Two logs in a row against a model: whatever fails, is killed and is cut from power at whichever operation of the
disk, the second log lacks no event that the first one acked, and has none twice."""

import errno
from random import Random
from typing import Final

from hypothesis import HealthCheck, example, given, settings, strategies as st

from tests.delivery.in_a_row import STRAIGHT, Row
from tests.examples import examples
from walflow.testing import PowerCut, SimulatedDisk, images
from walflow.testing.world import Fatal

PIPELINE: Final = """
  define pipeline p into out, some pipeline
    {selects}
  end;
  create pipeline p;
  connect /connector/first to /pipeline/p;
  connect /pipeline/p/out to /connector/second;
"""
BESIDE: Final = "connect /pipeline/p/some to /connector/other;"

Wanted = tuple[str, int, int]  # a flow, and which remainder by which number its second log does not get

STRAIGHT_ROWS: Final[list[Wanted]] = [
    (STRAIGHT, 1, 1),
    (PIPELINE.format(selects="select event from in where event.id % 3 != 1 into out;"), 3, 1),
    (PIPELINE.format(selects='select {"id": event.id, "made": 1} from in where event.id % 2 == 0 into out;'), 2, 1),
    (
        PIPELINE.format(
            selects="select event from in where event.id % 4 != 0 into out; select event from in into some;"
        )
        + BESIDE,
        4,
        0,
    ),
]
TWICE: Final = PIPELINE.format(selects="select event from in into out; select event from in into out;")

actions = st.lists(
    st.one_of(
        st.tuples(st.just("give"), st.integers(1, 12)),
        st.tuples(st.just("advance"), st.sampled_from([0, 1, 2, 10])),
        st.tuples(st.sampled_from(["ack", "fail", "crash", "close"]), st.just(0)),
        st.tuples(st.just("stick"), st.integers(0, 1)),
        st.tuples(st.just("cut"), st.integers(0, 40)),
    ),
    max_size=30,
)


class Model:
    def __init__(self, body: str, seed: int) -> None:
        self.body = body
        self._chance = Random(seed)
        self.disk = SimulatedDisk()
        self.row = Row(body, disk=self.disk)
        self.acked: set[int] = set()
        self.delivered: dict[int, int] = {}
        self._number = 0

    def do(self, action: str, of: int) -> None:
        try:
            self._act(action, of)
        except (PowerCut, Fatal):
            self._cut()

    def _act(self, action: str, of: int) -> None:
        row = self.row
        if action == "give":
            self._number += of
            row.give(*range(self._number - of, self._number), size=self._chance.choice((0, 0, 40, 300)))
        elif action == "advance":
            row.advance(of / 10)
        elif action == "ack":
            row.ack()
        elif action == "fail":
            row.last.fail()
            row.settle()
        elif action == "stick":  # the first log goes on, and what it has acked is not on disk
            self.disk.fault = _stuck if of else None
        elif action == "cut":
            self.disk.operations_left = of
        else:
            self._note()
            self.disk.fault = None
            row.crash() if action == "crash" else row.close()
            self._start()

    def _cut(self) -> None:
        """Of what was not synced any part is left."""
        self._note()
        self.row.cut()
        while True:
            (image, *_) = images(self.disk, self._chance, 1)
            self.disk = self.disk.like_this(image.files)
            try:
                self._start()
            except PowerCut:
                continue
            return

    def _start(self) -> None:
        self.row = Row(self.body, disk=self.disk)

    def _note(self) -> None:
        for receipt, ids in self.row.given:
            if not receipt.pending and receipt.cause is None:
                self.acked.update(ids)
        for position, number in self.row.delivered.items():
            assert self.delivered.setdefault(position, number) == number, "the position of another event"

    def finish(self) -> list[int]:
        """All that the second log ever sent."""
        self.disk.operations_left, self.disk.fault = -1, None
        for _ in range(20):
            self.row.ack()
            self.row.advance()
        assert self.row.first.log.low == self.row.first.log.durable
        assert self.row.second.log.low == self.row.second.log.durable
        self._note()
        self.row.close()
        return list(self.delivered.values())


def _stuck(operation: str, path: str) -> int | None:
    return errno.ENOSPC if operation == "write" and path == "/first/cursor" else None


def lived(body: str, seed: int, what: list[tuple[str, int]]) -> tuple[Model, list[int]]:
    model = Model(body, seed)
    for action, of in what:
        model.do(action, of)
    return model, model.finish()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=examples(80))
@example(STRAIGHT_ROWS[0], 1199, [("give", 3), ("cut", 3), ("ack", 0), ("close", 0)])
@given(st.sampled_from(STRAIGHT_ROWS), st.integers(0, 1 << 16), actions)
def test_each_event_is_in_the_second_log_once(wanted: Wanted, seed: int, what: list[tuple[str, int]]) -> None:
    body, by, without = wanted
    model, found = lived(body, seed, what)
    assert len(found) == len(set(found)), "twice"
    lacking = {one for one in model.acked if one % by != without} - set(found)
    assert not lacking, "lost"


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=examples(30))
@given(st.integers(0, 1 << 16), actions)
def test_where_an_event_becomes_two_none_is_lost(seed: int, what: list[tuple[str, int]]) -> None:
    model, found = lived(TWICE, seed, what)
    assert all(found.count(one) >= 2 for one in model.acked), "lost"
