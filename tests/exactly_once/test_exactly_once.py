from collections import Counter
from pathlib import Path

import pytest

from tests.exactly_once import windows
from tests.exactly_once.points import DAEMON, POINTS
from tests.exactly_once.run import Found, run


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_every_event_is_in_sparks_table_once_after_kills_at_every_point(tmp_path: Path) -> None:
    kills, events, found = run(tmp_path, kills=2)

    assert Counter(kill.point for kill in kills) == dict.fromkeys([point.name for point in POINTS] + [DAEMON], 2)
    assert found == Found(rows=events, distinct=events, first=0, last=events - 1, positions=events)


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_every_window_comes_once_and_right_after_kills_at_every_point(tmp_path: Path) -> None:
    ledger = windows.run(tmp_path, kills=2)

    assert Counter(kill.point for kill in ledger.kills) == dict.fromkeys(windows.POINTS, 2)
    assert ledger.once
    assert (ledger.windows, ledger.errors) == (ledger.expected, ledger.expected_errors)
