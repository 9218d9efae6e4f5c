"""Any event stops the daemon, gracefully or not, after its delay; it is acked at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from connectors.exit import Exit
from walflow.codecs import STRING
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler

SECOND = 1_000_000_000


@asynccontextmanager
async def running(connector: Exit) -> AsyncIterator[tuple[MemoryInlet, VirtualScheduler]]:
    scheduler = VirtualScheduler()
    inlet = MemoryInlet(scheduler)
    task = asyncio.ensure_future(connector.run(inlet, MemoryOutlet(scheduler, linked=False)))
    await scheduler.settle()
    try:
        yield inlet, scheduler
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(
    ("config", "event", "after", "graceful"),
    [
        ({}, b"{}\n", 0, True),
        ({}, b"1\n", 0, True),
        ({"graceful": False}, b'"exit"\n', 0, False),
        ({"delay": 2 * SECOND}, b'{"exit": 0}\n', 2, True),
        ({"delay": 2 * SECOND}, b'{"delay": 3000000000, "graceful": false}\n', 3, False),
        ({"delay": 2 * SECOND, "graceful": False}, b'{"delay": 0, "graceful": true}\n', 0, True),
        ({"delay": 2 * SECOND}, b'{"delay": -1, "graceful": 1}\n', 2, True),
        ({"delay": 2 * SECOND}, b'{"delay": true}\n', 2, True),
        ({"delay": SECOND}, b'{"a": 1}\n{"delay": 0}\n', 1, True),  # the first event decides
    ],
)
async def test_an_event_stops_the_daemon(
    config: dict[str, object], event: bytes, after: float, graceful: bool
) -> None:
    async with running(Exit.model_validate(config)) as (inlet, scheduler):
        inlet.give(inlet.block(event))
        assert inlet.acked == [event]
        scheduler.advance(after - 0.001)
        assert inlet.stopped == ([] if after else [graceful])
        scheduler.advance(0.001)
        assert inlet.stopped == [graceful]


async def test_it_asks_once() -> None:
    async with running(Exit(delay=SECOND)) as (inlet, scheduler):
        inlet.give(inlet.block(b"1\n"), inlet.block(b'{"delay": 0}\n'))
        scheduler.advance(5)
        assert inlet.stopped == [True]
        assert len(inlet.acked) == 2


async def test_text() -> None:
    async with running(Exit()) as (inlet, scheduler):
        inlet.give(inlet.block(b"exit\n", codec=STRING))
        scheduler.run()
        assert inlet.stopped == [True]


@pytest.mark.parametrize("config", [{"delay": -1}, {"delay": "1"}, {"after": 1}])
def test_wrong_configurations(config: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(config))):
        Exit.model_validate(config)


def test_what_it_promises() -> None:
    assert "drains" in Exit().guarantee(behind_log=True).sink
    assert "at once" in Exit(graceful=False).guarantee(behind_log=True).sink
