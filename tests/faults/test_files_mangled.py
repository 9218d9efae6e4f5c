"""Every file of a small log cut at every byte, and whole files gone, zeroed, swapped and doubled: what lies whole
comes, what does not is named. (More of it, on one log: tests/wal/test_recovery.py.)"""

import pytest

from tests.faults.damage import small_logs
from tests.faults.mangled import cut_anywhere, sweep, whole_files

pytestmark = pytest.mark.test

LOGS = small_logs()


@pytest.mark.nightly
@pytest.mark.parametrize("name", LOGS)
def test_files_that_were_cut(name: str) -> None:
    outcomes = sweep(LOGS[name], list(cut_anywhere(LOGS[name]))[::5])
    assert outcomes["named in a report"] > 100
    assert bool(outcomes["in silence, at the end"]) == bool(LOGS[name].unheard)


@pytest.mark.parametrize("name", LOGS)
def test_whole_files(name: str) -> None:
    outcomes = sweep(LOGS[name], whole_files(LOGS[name]))
    assert outcomes["named in a report"] > 5


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", LOGS)
def test_files_that_were_cut_at_any_byte(name: str) -> None:
    sweep(LOGS[name], cut_anywhere(LOGS[name]))
