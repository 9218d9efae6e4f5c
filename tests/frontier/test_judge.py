"""May a writer go on? Terms alone keep rows from being doubled, and the model shows that. That a log or a receiver
went back is said to the operator; these tests hold each reason."""

import pytest
from msgspec.structs import replace

from walflow.frontier import (
    Confirmed,
    Fits,
    Frontier,
    LogView,
    LogWentBack,
    OtherWriter,
    ReceiverWentBack,
    WriterKeys,
    judged,
)
from walflow.frontier.judge import Verdict

HAS = Frontier(epoch=3, token="mine", highest=20, term=7, ranges={7: [(11, 20)]})
KEYS = WriterKeys(("mine",), 3, Confirmed(20))
LOG = LogView(21, 20, {7: (11, 20)})


@pytest.mark.parametrize(
    ("frontier", "keys", "log", "verdict"),
    [
        (HAS, KEYS, LOG, Fits(HAS)),
        (None, WriterKeys(), LOG, Fits(None)),
        (HAS, KEYS, LogView(31, 30, {9: (21, 30)}), Fits(HAS)),  # what it has is acked, and deleted in the log
        (HAS, KEYS, LogView(20, 15, {7: (11, 19)}), LogWentBack(20, 20)),
        (HAS, KEYS, LogView(31, 20, {8: (11, 30)}), LogWentBack(20, 31)),  # another event has that position
        (
            replace(HAS, forgotten=10),
            KEYS,
            LogView(31, 9, {7: (1, 30)}),
            LogWentBack(20, 31),
        ),  # it would send 10 again
        (None, KEYS, LOG, ReceiverWentBack(0, 20)),
        (replace(HAS, highest=15), KEYS, LOG, ReceiverWentBack(15, 20)),
        (replace(HAS, epoch=2, token="old"), KEYS, LOG, ReceiverWentBack(20, 20)),
        (
            replace(HAS, highest=15, generation=2),
            KEYS,
            LogView(16, 10, {7: (11, 15)}),
            Fits(None),
        ),  # someone has accepted
        (replace(HAS, token="other", beat=5), KEYS, LOG, OtherWriter(3, 5)),
        (replace(HAS, token="other"), KEYS, LogView(20, 15, {7: (11, 19)}), LogWentBack(20, 20)),
    ],
)
def test_verdicts(frontier: Frontier | None, keys: WriterKeys, log: LogView, verdict: Verdict) -> None:
    expected = Fits(frontier) if isinstance(verdict, Fits) else verdict
    assert judged(frontier, keys, log) == expected
