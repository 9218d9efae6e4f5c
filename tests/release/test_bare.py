"""The page of the bare Debian is what happens there."""

from pathlib import Path

import pytest

from tests.release import machine
from tests.release.bare import PAGE, session


@pytest.mark.nightly
@pytest.mark.alone  # of its minutes, one is judged: from `apt-get install` to an echo
@pytest.mark.timeout(1800)
@pytest.mark.skipif(machine.absent() is not None, reason=str(machine.absent()))
def test_the_page_is_what_happens(tmp_path: Path) -> None:
    assert session(tmp_path) == PAGE.read_text("utf-8")
