"""Flows as tremor's own tests have them: each runs in a daemon until it ends by itself, with exit code 0.

`config.troy` and what it reads stand in the case's directory, what it is to write in `expected`; `expected/stderr`
are lines of stderr, in this order among others (of log lines their event).
"""

import shutil
from pathlib import Path

import pytest

from tests.system.daemon import running

HERE = Path(__file__).parent
CASES = sorted(case.name for case in HERE.iterdir() if (case / "config.troy").exists())
OPTIONS = {"cb_timeout": ("--drain-seconds", "0.1")}  # what never gets an answer need not be waited for


@pytest.mark.parametrize("case", CASES)
def test_flow(case: str, tmp_path: Path) -> None:
    work = tmp_path / case
    shutil.copytree(HERE / case, work)
    with running(work / "config.troy", work, *OPTIONS.get(case, ())) as daemon:
        assert daemon.wait() == 0, daemon.raw
    for expected in (work / "expected").iterdir():
        if expected.name == "stderr":
            said = iter(str(line.get("event")) for line in daemon.lines)
            missing = [line for line in expected.read_text().splitlines() if line not in said]
            assert not missing, daemon.raw
        else:
            written = (work / expected.name).read_text(encoding="utf-8").replace(f"{work}/", "")
            assert written == expected.read_text(encoding="utf-8"), daemon.raw
