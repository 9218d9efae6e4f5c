"""What `python -m bench.evaluation` measures is what it says: all events are looked at, and misfits are misfits."""

import pytest

from bench.evaluation import EVENTS, SELECTS, Taker, lines, seconds, select
from tests.examples import sampled
from walflow.event import Block

MISFITS = 26
FITTING = {  # what scripts that take an array make of one: it leaves, or it is dropped
    "script: match of records": (EVENTS - MISFITS, 0),
    "script: for of five members": (EVENTS, 0),
    # the windows of the first run are open yet
    "window of 1,000 by group: count, sum": (3, MISFITS),
    "... five aggregates": (3, MISFITS),
    "... hdr": (3, MISFITS),
}
CLOSED = {  # what leaves of windows: those that are full
    "window of 1,000 by group: count, sum": 2,
    "... five aggregates": 2,
    "... hdr": 2,
    "... by interval": 0,
    "... in a chain of four": 0,
}


@pytest.mark.parametrize("name", sampled([*SELECTS]))
def test_each_select_takes_all_events_but_the_misfits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[int] = []
    refused: list[int] = []
    node = select(SELECTS[name])

    def accept(self: Taker, block: Block) -> None:
        passed.append(block.frames.count)
        block.receipt.ack()

    def take(self: Taker, block: Block, reasons: list[str], details: object) -> None:
        refused.append(len(reasons))
        block.receipt.ack()

    monkeypatch.setattr(Taker, "accept", accept)
    monkeypatch.setattr(Taker, "take", take)
    assert seconds(node, lines(misfits=False)) > 0
    assert (sum(passed), refused) == (CLOSED.get(name, EVENTS), [])
    passed.clear()
    seconds(node, lines(misfits=True))
    assert (sum(passed), sum(refused)) == FITTING.get(name, (CLOSED.get(name, EVENTS - MISFITS), MISFITS))


def test_lines_have_100_bytes() -> None:
    assert {len(payload) for payload in lines(misfits=True).payloads()} <= {98, 99}
