"""Every async test runs on both event loops; hypothesis has no deadline, for nothing here is about time."""

import asyncio
import gc
import importlib.util
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from functools import cache

import pytest
import uvloop
from hypothesis import settings

from pyspark_walflow.java import NoJava, find_java

settings.register_profile("walflow", deadline=None)
settings.load_profile("walflow")


def pytest_configure(config: pytest.Config) -> None:
    """What runs in the background ignores SIGINT and hands that down; here it is somebody's Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture starts a Spark of its own. A build that left these tests out would prove less than it says."""
    if item.get_closest_marker("spark") is None or (missing := _missing_for_spark()) is None:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(missing, pytrace=False)
    pytest.skip(missing)


@cache
def _missing_for_spark() -> str | None:
    if importlib.util.find_spec("pyspark") is None:
        return "Spark is not installed: pip install 'walflow[spark]'"
    try:
        find_java()
    except NoJava as error:
        return str(error)
    return None


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def _unsettled_receipts_fail_their_own_test() -> Iterator[None]:
    """A receipt warns when it is collected, which else may be in somebody else's test."""
    yield
    gc.collect()
