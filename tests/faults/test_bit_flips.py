"""Single bits of a small log: a damaged record costs itself at most, anything else costs nothing, and only in the
last commit may a loss go without a report. Every bit of every file: `python -m tests.faults flips`."""

import pytest

from tests.faults.damage import SmallLog, small_logs
from tests.faults.flips import CUT, NAMED, every_bit, spread, sweep

pytestmark = pytest.mark.test

LOGS = small_logs()


@pytest.mark.nightly
@pytest.mark.parametrize("name", LOGS)
def test_flipped_bits_all_over_it(name: str) -> None:
    small = LOGS[name]
    outcomes = sweep(small, spread(small))
    assert outcomes["a record", NAMED] > 100, "no flip did any harm"
    assert bool(outcomes["a record", CUT]) == bool(small.last)


@pytest.mark.parametrize("name", LOGS)
def test_the_flip_that_a_sweep_misses_is_told(name: str) -> None:
    """The judge bites: one record more than was damaged is a broken promise, and so is a loss nobody reports."""
    small = LOGS[name]
    sound = small.start(small.files)
    other = sound._replace(delivered=sound.delivered - {small.records[0].first})
    with pytest.raises(AssertionError, match="it cost the records"):
        _judged(small, other, hit=1)
    with pytest.raises(AssertionError, match="in silence"):
        _judged(small, other, hit=0)


def _judged(small: SmallLog, verdict: object, *, hit: int) -> None:
    from tests.faults.flips import judge

    judge(small, small.records[hit].file, small.records[hit].offset, verdict)  # type: ignore[arg-type]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", LOGS)
def test_every_bit_of_every_file(name: str) -> None:
    sweep(LOGS[name], every_bit(LOGS[name]))
