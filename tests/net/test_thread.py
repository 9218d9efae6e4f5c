"""Blocking calls on the thread of a real scheduler."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from tests.waiting import PATIENCE
from walflow.net import on_thread
from walflow.runtime.loop import LoopScheduler


@pytest.fixture
async def scheduler() -> AsyncIterator[LoopScheduler]:
    made = LoopScheduler("thread")
    yield made
    await made.close()


async def test_it_returns_and_raises_what_the_job_does(scheduler: LoopScheduler) -> None:
    refused: list[object] = []
    assert await on_thread(scheduler, lambda: 7, refused.append) == 7
    with pytest.raises(ZeroDivisionError):
        await on_thread(scheduler, lambda: 1 / 0, refused.append)
    assert refused == []


async def test_what_comes_after_the_caller_was_cancelled_is_dropped(scheduler: LoopScheduler) -> None:
    begun, may_end = threading.Event(), threading.Event()
    refused: list[str] = []

    def job() -> str:
        begun.set()
        assert may_end.wait(PATIENCE)
        return "a socket"

    calling = asyncio.ensure_future(on_thread(scheduler, job, refused.append))
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert refused == []
    may_end.set()
    await on_thread(scheduler, lambda: None)  # behind it
    assert refused == ["a socket"]


async def test_what_had_come_when_the_caller_was_cancelled_is_dropped(scheduler: LoopScheduler) -> None:
    ended = threading.Event()
    refused: list[str] = []
    calling = asyncio.ensure_future(on_thread(scheduler, lambda: "a socket", refused.append))
    await asyncio.sleep(0)
    scheduler.submit(ended.set, lambda error: None)
    assert ended.wait(PATIENCE), "and the loop has not turned"
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert refused == ["a socket"]
