"""Which test reaches which line of what is mutated, and how long each takes. Runs in a copy of the source, in a
process of its own: `python -m tests.mutation.reach FILE.json TESTS`."""

import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import coverage
import msgspec
import pytest

from tests.mutation.rows import ROOT, targets

# The tests that run in one process. tests/faults starts processes, and takes minutes; the large doses of power cuts
# are in tests/mutation/bites.py in small ones.
TESTS: Final = (
    "tests/mutation/bites.py",
    "tests/wal",
    "tests/test_durable.py",
    "tests/cli/test_wal.py",
    "tests/cli/test_wal_export.py",
    "tests/cli/test_wal_progress.py",
    "tests/cli/test_wal_skip.py",
    "tests/delivery",
    "tests/connectors/test_file_append.py",
    "tests/test_positions.py",
    "tests/test_receipt.py",
    "tests/test_outage.py",
    "tests/nodes",
    "tests/sinks",
    "tests/testing/test_sinks.py",
    "tests/connectors/test_sink_promises.py",
    "tests/connectors/test_stdio.py",
    "tests/connectors/test_file_sidecar.py",
    "tests/connectors/test_file_trouble.py",
)
MEMORY: Final = 4 << 30
LARGEST: Final = 1 << 30  # file
LEFT_OUT: Final = (
    "test_the_power_may_be_cut_at_any_operation",
    "uvloop",
    "test_long_tail.py",
)


class Reached(msgspec.Struct):
    """By the tests of one file. `lines`: by file and line, which of them reach it, by their place in `seconds`."""

    seconds: dict[str, float] = {}
    lines: dict[str, dict[int, list[int]]] = {}


class Watch:
    def __init__(self, cover: coverage.Coverage) -> None:
        self._cover = cover
        self.seconds: dict[str, float] = {}
        self.red: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not any(word in item.nodeid for word in LEFT_OUT)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._cover.switch_context(item.nodeid)
        started = time.perf_counter()
        result = yield
        self.seconds[item.nodeid] = round(time.perf_counter() - started, 3)
        self._cover.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.red.append(report.nodeid)


def bound() -> None:
    """A mutant that never ends must not take the machine with it."""
    for limit, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, LARGEST)):
        resource.setrlimit(limit, (most, resource.getrlimit(limit)[1]))


def main(output: str, tests: list[str]) -> None:
    here = os.getcwd()
    bound()
    cover = coverage.Coverage(data_file=None, config_file=False, include=[f"{here}/{file}" for file in targets()])
    watch = Watch(cover)
    cover.start()
    pytest.main(["-q", "-p", "no:cacheprovider", "-m", "not soak and not spark", *tests], plugins=[watch])
    cover.stop()
    data = cover.get_data()
    lines = [
        (os.path.relpath(path, here), line, test)
        for path in data.measured_files()
        for line, tests_of_it in data.contexts_by_lineno(path).items()
        for test in tests_of_it
        if test
    ]
    found: dict[str, Reached] = {}
    for test, seconds in watch.seconds.items():
        found.setdefault(test.split("::")[0], Reached()).seconds[test] = seconds
    numbers = {test: number for one in found.values() for number, test in enumerate(one.seconds)}
    for file, line, test in lines:
        found[test.split("::")[0]].lines.setdefault(file, {}).setdefault(line, []).append(numbers[test])
    Path(output).write_bytes(msgspec.json.encode((found, watch.red)))


if __name__ == "__main__":
    assert ROOT.samefile(Path.cwd())
    main(sys.argv[1], sys.argv[2:] or list(TESTS))
