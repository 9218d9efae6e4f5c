"""Reads of the log for several peers, on a few of the runtime's threads: a read that hangs is named, as any is."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol, TypeVar

from walflow import Scheduler

Found = TypeVar("Found")

THREADS: Final = 2  # readers wait for memory and the disk's cache, not for one another


class Closes(Protocol):
    def close(self) -> None: ...


class Reads:
    """Each walk has one of the threads, so its reads do not meet."""

    def __init__(self, name: str, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._names = [f"{name} to Spark {number + 1}" for number in range(THREADS)]
        self._walks = dict.fromkeys(self._names, 0)

    def __repr__(self) -> str:
        return f"<Reads of {sum(self._walks.values())} walks>"

    @contextmanager
    def of(self, walk: Closes) -> "Generator[_Thread]":
        """At its end the walk is closed, behind what its thread is reading."""
        name = min(self._names, key=self._walks.__getitem__)
        self._walks[name] += 1
        try:
            yield _Thread(partial(self._scheduler.fetch, of=name))
        finally:
            self._walks[name] -= 1
            self._scheduler.fetch(walk.close, _nothing, of=name)

    async def end(self) -> None:
        """Until the threads have closed all walks."""
        for name in self._names:
            await _Thread(partial(self._scheduler.fetch, of=name)).run(lambda: None)


class _Thread:
    """Runs the reads of one walk in order."""

    def __init__(self, fetch: Callable[[Callable[[], None], Callable[[BaseException | None], None]], None]) -> None:
        self._fetch = fetch

    def run(self, job: Callable[[], Found]) -> "asyncio.Future[Found]":
        coming: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        found: list[Found] = []

        def done(error: BaseException | None) -> None:
            if coming.cancelled():
                return
            if error is None:
                coming.set_result(found[0])
            else:
                coming.set_exception(error)

        coming.add_done_callback(_retrieved)
        self._fetch(lambda: found.append(job()), done)
        return coming


def _retrieved(coming: "asyncio.Future[Found]") -> None:
    """A read ahead may fail after its peer has gone: asyncio then has no error to report."""
    if not coming.cancelled():
        coming.exception()


def _nothing(error: BaseException | None) -> None: ...
