"""One open tap: it takes samples, and makes lines of them in little pieces between the flow's own work."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from typing import Final, Self

import msgspec

from walflow.admin.tap.events import Shown
from walflow.admin.tap.rules import TapRules
from walflow.admin.tap.sampler import Sampler, TakenBlock
from walflow.admin.tap.where import Condition
from walflow.nodes.ports import PortName, WatchedPorts

EVERY: Final = 1.0
PAUSE: Final = 0.1  # seconds between samples, at the least
REST: Final = 19  # times as long as it worked: so it takes a twentieth of the loop's time
AT_ONCE_EVENTS: Final = 64  # and
AT_ONCE_BYTES: Final = 64 << 10  # before the flow has its turn
EXAMINED: Final = 512  # events that a condition judges of one sample


class TapCounts(msgspec.Struct):
    """Of the last `seconds`. `events` and `bytes` passed; of them `examined` were looked at by the condition, and
    `matched`; `failed` could not be evaluated, because of `reason`. `shown` are in the lines."""

    seconds: float
    events: int = 0
    bytes: int = 0
    examined: int = 0
    matched: int = 0
    failed: int = 0
    reason: str = ""
    shown: int = 0


class OpenTap:
    """Use it as a context manager: it watches the ports as long as the block lasts. `limit`: events a second; 0: it
    only counts. `every`: seconds between counts."""

    def __init__(
        self,
        ports: WatchedPorts,
        names: Sequence[PortName],
        rules: TapRules,
        *,
        limit: int = 100,
        raw: bool = False,
        where: Condition | None = None,
        every: float = EVERY,
    ) -> None:
        self._ports = ports
        self._names = names
        self._limit = limit
        self._every = every
        self._arrived = asyncio.Event()
        self._sampler = Sampler(self._arrived.set)
        self._condition = where
        self._shown = Shown(rules, raw=raw)
        self._clock = asyncio.get_running_loop().time
        self._worked = 0.0  # seconds, on the last sample
        self._room: float = limit  # events that may be shown
        self._counts = TapCounts(0)

    def __enter__(self) -> Self:
        self._want()
        self._ports.watch(self._sampler, self._names)
        return self

    def __exit__(self, *_: object) -> None:
        self._ports.unwatch(self._sampler)

    async def lines(self) -> AsyncGenerator[bytes]:
        """Events and, once a second, what was counted. While the caller does not ask for more, a few blocks are held,
        and all others pass."""
        limit = self._limit
        counted = self._clock()
        while True:
            self._want()
            begun = self._clock()
            await self._next(counted + self._every)
            self._worked = 0.0
            async for lines in self._of(self._sampler.take()):
                yield lines
            if self._clock() >= counted + self._every:
                yield self._count(self._clock() - counted)
                counted = self._clock()
            await asyncio.sleep(max(PAUSE, REST * self._worked))
            self._room = min(limit, self._room + limit * (self._clock() - begun))

    def _want(self) -> None:
        self._sampler.want(EXAMINED if self._condition is not None else int(self._room))

    async def _next(self, until: float) -> None:
        """A block, or the time of the next count."""
        try:
            async with asyncio.timeout_at(until):
                await self._arrived.wait()
        except TimeoutError:
            pass
        self._arrived.clear()

    async def _of(self, blocks: Sequence[TakenBlock]) -> AsyncGenerator[bytes]:
        for block in blocks:
            most = AT_ONCE_BYTES if self._condition is None else min(AT_ONCE_BYTES, self._condition.most)
            at_once = max(1, min(AT_ONCE_EVENTS, most * block.frames.count // (len(block.frames) or 1)))
            async for numbers in self._matching(block, at_once):
                for start in range(0, min(len(numbers), int(self._room)), at_once):
                    some = numbers[start : min(start + at_once, int(self._room) + start)]
                    with self._work():
                        lines = b"".join(self._shown.lines(block, some))
                    self._room -= len(some)
                    self._counts.shown += len(some)
                    yield lines
                    await asyncio.sleep(0)

    async def _matching(self, block: TakenBlock, at_once: int) -> AsyncGenerator[Sequence[int]]:
        """The numbers of the events to show."""
        if self._condition is None:
            yield range(block.frames.count)
            return
        with self._work():
            visible = self._shown.redacted(block)
            examined = visible.frames.slice(0, EXAMINED)
            full, rest = divmod(examined.count, at_once)
            parts = examined.parts([at_once] * full + ([rest] if rest else []))
        start = 0
        for frames in parts:
            with self._work():
                found = self._condition.of(self._shown.part(visible, frames, start))
            self._counts.examined += frames.count
            self._counts.matched += len(found.numbers)
            self._counts.failed += found.failed
            self._counts.reason = self._counts.reason or found.reason
            if found.numbers:
                yield [start + number for number in found.numbers]
            start += frames.count
            await asyncio.sleep(0)

    @contextmanager
    def _work(self) -> Generator[None]:
        """A piece that holds up the loop. Its processor time counts:
        on a busy machine a piece may wait in the middle."""
        begun = time.thread_time()
        yield
        self._worked += time.thread_time() - begun

    def _count(self, seconds: float) -> bytes:
        counts, self._counts = self._counts, TapCounts(0)
        counts.seconds = round(seconds, 3)
        counts.events, self._sampler.events = self._sampler.events, 0
        counts.bytes, self._sampler.size = self._sampler.size, 0
        return msgspec.json.encode({"counts": counts}) + b"\n"
