"""Every async test runs on both event loops; hypothesis has no deadline, for nothing here is about time."""

import asyncio
import gc
import signal
from collections.abc import Callable, Iterator, Mapping

import pytest
import uvloop
from hypothesis import settings

settings.register_profile("walflow", deadline=None)
settings.load_profile("walflow")


def pytest_configure(config: pytest.Config) -> None:
    """What runs in the background ignores SIGINT and hands that down; here it is somebody's Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def _unsettled_receipts_fail_their_own_test() -> Iterator[None]:
    """A receipt warns when it is collected, which else may be in somebody else's test."""
    yield
    gc.collect()
