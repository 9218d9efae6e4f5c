"""Units: test files, each in one of the passes of nightly. And the half of it that runs within pytest."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from tests.tiers import tier


class Pass(NamedTuple):
    """One set of options of pytest. `processes`: 0 for none beside pytest's own, None for as many as `--jobs` says.
    `guess`: seconds for a test that never ran."""

    name: str
    options: tuple[str, ...]
    processes: int | None
    guess: float

    def command(self, jobs: int) -> list[str]:
        processes = jobs if self.processes is None else min(jobs, self.processes)
        return [*self.options, *(("-n", str(processes)) if processes else ())]

    def at_once(self, jobs: int) -> int:
        return max(1, jobs if self.processes is None else min(jobs, self.processes))


EXAMPLES: Final = ("--hypothesis-profile", "full", "--dist", "worksteal")
PASSES: Final = {
    one.name: one
    for one in (
        Pass("alone", ("--tier", "nightly", "-m", "alone"), 0, 5.0),
        Pass("rest", ("--tier", "nightly", "-m", "not alone and not spark", "--dist", "worksteal"), None, 2.0),
        Pass("full", ("--tier", "quick", "--tier", "test", "-m", "hypothesis and not alone", *EXAMPLES), None, 1.0),
        Pass("spark", ("--tier", "nightly", "-m", "not alone and spark", "--dist", "loadgroup"), 2, 10.0),
    )
}


class Unit(NamedTuple):
    of: str  # the name of its pass
    file: str

    def __str__(self) -> str:
        return f"{self.of} {self.file}"


class Outcome(msgspec.Struct):
    """Of the tests of one file in one run of pytest. A test that did not begin before the deadline is in none of
    them."""

    passed: int = 0
    skipped: int = 0
    failed: int = 0
    seconds: float = 0.0


class Uncollected(Exception):
    """pytest could not collect the tests. It has said why."""


def units(root: Path) -> dict[Unit, int]:
    """All there are, and how many tests each has."""
    file = root / ".nightly.units.tmp"
    command = [sys.executable, "-m", "pytest", "-p", __name__, "--units", str(file), "--collect-only", "--quiet"]
    try:
        done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(done.stdout[-20_000:], end="")  # noqa: T201
            raise Uncollected
        return {Unit(*name.split(" ", 1)): count for name, count in json.loads(file.read_bytes()).items()}
    finally:
        file.unlink(missing_ok=True)


# The half within pytest, `-p tests.nightly.units`.


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--units", help="write which units there are into this file")
    parser.addoption("--outcomes", help="write what became of each test file into this file")
    parser.addoption("--deadline", type=float, help="begin no test after this time, in seconds since 1970")


def pytest_configure(config: pytest.Config) -> None:
    if (file := config.getoption("outcomes")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(Path(file)))


def pytest_collection_finish(session: pytest.Session) -> None:
    if file := session.config.getoption("units"):
        found = Counter(str(unit) for item in session.items if (unit := unit_of(item)) is not None)
        Path(file).write_text(json.dumps(found), encoding="utf-8")


def unit_of(item: pytest.Item) -> Unit | None:
    """What the options in PASSES choose, said once more: tests/nightly/test_units.py holds them together."""
    file = item.nodeid.split("::")[0]
    alone = item.get_closest_marker("alone") is not None
    chosen = tier(item)
    if chosen == "nightly":
        return Unit("alone" if alone else "spark" if item.get_closest_marker("spark") else "rest", file)
    return Unit("full", file) if chosen and not alone and item.get_closest_marker("hypothesis") else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    deadline = item.config.getoption("deadline")
    return True if deadline is not None and time.time() >= deadline else None


class Outcomes:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._of: dict[str, Outcome] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = self._of.setdefault(report.nodeid.split("::")[0], Outcome())
        outcome.seconds += report.duration
        outcome.failed += report.failed
        if report.when == "call" or report.skipped:
            outcome.passed += report.passed
            outcome.skipped += report.skipped

    def pytest_sessionfinish(self) -> None:
        self._file.write_bytes(msgspec.json.encode(self._of))
