"""Every async test runs on both event loops; hypothesis has no deadline, for nothing here is about time."""

import asyncio
import gc
import importlib.util
import os
import signal
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import cache
from pathlib import Path

import croniter  # noqa: F401  # asks the program `file` what machine this is, once: else some test starts a process
import pytest
import uvloop
from hypothesis import settings

from pyspark_walflow.java import NoJava, find_java
from tests.examples import profile
from tests.jvm import be_short_lived
from tests.pace import Measured
from tests.system import warm
from tests.tiers import TIERS, cannot_match, hidden_mark, processes_ended, tier
from walflow.extras import install_line

MEASURED = pytest.StashKey[Measured]()


def pytest_configure(config: pytest.Config) -> None:
    """What runs in the background ignores SIGINT and hands that down; here it is a user's Ctrl-C."""
    if config.getoption("tier") and not hasattr(config, "workerinput"):
        config.stash[MEASURED] = Measured()
    if config.getoption("hypothesis_profile") is None:
        settings.load_profile(profile(config.getoption("tier") or ()))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    be_short_lived()
    wanted = config.getoption("tier")
    warm.on = bool(wanted) and "nightly" not in wanted


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture starts a Spark of its own.
    A build that left these tests out would prove less than it says."""
    if item.get_closest_marker("spark") is None or (missing := _missing_for_spark()) is None:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(missing, pytrace=False)
    pytest.skip(missing)


@cache
def _missing_for_spark() -> str | None:
    if importlib.util.find_spec("pyspark") is None:
        return f"Spark is not installed: {install_line('spark')}"
    try:
        find_java()
    except NoJava as error:
        return str(error)
    return None


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"uvloop": uvloop.new_event_loop}
    wanted = config.getoption("tier")
    if not wanted or "nightly" in wanted or item.get_closest_marker("both_loops"):
        loops["asyncio"] = asyncio.new_event_loop  # else all twins were made only to be left out
    return loops


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", action="append", choices=TIERS, help="only tests of this tier, see tests/tiers.py")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """By here xdist's workers have ended."""
    if (measured := config.stash.get(MEASURED, None)) is not None:
        terminalreporter.write_line(str(measured))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """All files take half a minute to collect, in each process. Most have nothing of a rare mark."""
    is_tests = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if is_tests and cannot_match(collection_path, config.getoption("markexpr")) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays, so nothing is looked for that could go: a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if (mark := hidden_mark(item)) is not None:
            raise pytest.UsageError(f"{item.nodeid} is marked {mark}, which its file does not say (tests/tiers.py)")
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("one Spark session"))
    wanted = config.getoption("tier")
    if wanted:
        chosen = {item for item in items if tier(item) in wanted}
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]
        if warm.on and any(tier(item) == "test" for item in items):
            warm.begin()


def pytest_collection_finish() -> None:
    _keep()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Each test collects what it leaves. Here pytest has let go of its fixtures, and what is there stays: modules,
    caches. The next collection need not walk it; that was two thirds of the time of all small tests."""
    result = yield
    _keep()
    return result


def _keep() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _unsettled_receipts_fail_their_own_test() -> Iterator[None]:
    """A receipt warns when it is collected, which else may be in somebody else's test."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _quick_tests_start_no_process(request: pytest.FixtureRequest) -> Iterator[None]:
    before = processes_ended()
    yield
    if processes_ended() != before and tier(request.node) == "quick":
        pytest.fail("this test starts a process: mark it @pytest.mark.test (see tests/tiers.py)", pytrace=False)
