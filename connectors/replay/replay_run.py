"""One run of a replay: the log is read on the scheduler's thread, a little at a time."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, cast

from msgspec import MsgspecError

from walflow import Families, Family, Frames, Outlet, ReadFailed, StreamId, Unusable, WalflowError, place_of
from walflow.delivery import HeldBatch, RecordFeed, Resending, Tag, Tags
from walflow.net import on_thread
from walflow.wal import Gap, Record

if TYPE_CHECKING:
    from connectors.replay.connector import Replay

READ: Final = 32 << 10  # bytes at a time: many replays may run, and each has 256 KiB
WINDOW: Final = 64 << 10  # bytes that are sent and not settled
EVENTS: Final = 200  # sent and not settled: each has metadata of its own
LOOK: Final = 1.0  # seconds until it looks for more
STREAMS: Final = 4096  # of the log, remembered

FAMILIES: Final[Families] = {
    "replay_position": Family("gauge", "The position in the log up to which a replay has read."),
    "replay_end_position": Family("gauge", "The position in the log at which a replay ends, as far as is known."),
    "replay_missed_events_total": Family(
        "counter",
        "Events that a replay could not read: deleted before or while it read, damaged, or of another version.",
    ),
}


class LogNotReadable(WalflowError):
    """The log cannot be read now. Another run may."""


class HeldRecord(HeldBatch):
    """Events of a record, of which the first has `position`."""

    def __init__(
        self,
        stream: StreamId,
        frames: Frames,
        tag: Tag,
        ingest_ns: int,
        log: str,
        position: int,
        settled: Callable[[], None],
    ) -> None:
        super().__init__(stream, frames, tag.event_metas, ingest_ns, codec=tag.codec, meta=tag.meta)
        self.last = position + frames.count - 1
        self._log = log
        self._position = position
        self._settled = settled

    def marked(
        self, metas: Sequence[Mapping[str, object]] | None, start: int, count: int
    ) -> Sequence[Mapping[str, object]]:
        first = self._position + start
        marks = ({"replay": {"log": self._log, "position": at}} for at in range(first, first + count))
        return list(marks) if metas is None else [{**meta, **mark} for meta, mark in zip(metas, marks, strict=True)]

    def settled(self) -> None:
        self._settled()

    def place(self, meta: Mapping[str, object]) -> str:
        mark = cast(Mapping[str, object], meta["replay"])
        return f"position {mark['position']} of the log"


class ReplayRun:
    """Goes on behind what a run before has settled."""

    def __init__(self, config: "Replay", out: Outlet) -> None:
        self._config = config
        self._out = out
        self._room = asyncio.Event()
        self._resending = Resending(out, self._room.set, config.max_attempts, EVENTS)
        self._tags = Tags()
        self._streams: dict[StreamId, StreamId] = {}
        self._held: deque[HeldRecord] = deque()
        self._progress = config.progress
        self._missed = out.counter("replay_missed_events_total")
        self._paced_from: tuple[float, int] | None = None
        self._gap: Gap | None = None
        self._numbers = count(1)
        begin = None if config.begin is None else place_of(config.begin)
        if self._progress.settled_to:
            begin = self._progress.settled_to + 1
        end = None if config.end is None else place_of(config.end)
        self._feed = RecordFeed(config.path, begin, end, follow=config.follow)

    async def run(self) -> None:
        """Until all is settled, if it has an end. Raises LogNotReadable."""
        out, feed, progress = self._out, self._feed, self._progress
        out.window = min(out.window, WINDOW)
        on = partial(on_thread, out.scheduler)
        try:
            gaps = await on(feed.open)
            progress.first, progress.end = progress.first or feed.first, feed.end
            out.gauge("replay_position", lambda: feed.next - 1)
            out.gauge("replay_end_position", lambda: feed.end)
            out.log.info("replay", begins=feed.next, ends=None if self._config.follow else feed.end, log=feed.log)
            out.on_ready(self._resending.pump)
            await self._send(gaps)
            while not feed.ended:
                await self._send(await on(lambda: feed.read(READ)))
                if feed.waits:
                    self._tell_gap()
                    await self._sleep(LOOK)
            self._tell_gap()
            while self._held:
                await self._wait()
        except (Unusable, ReadFailed) as error:
            raise LogNotReadable(str(error)) from error
        finally:
            await on(feed.close)
        out.log.info("replay over", events=progress.events, missed=progress.missed, ended=feed.end)
        progress.over = True
        if self._config.stop:
            out.stop(graceful=True)

    async def _send(self, found: Sequence[Record | Gap]) -> None:
        for one in found:
            if isinstance(one, Gap):
                self._miss(one)
                continue
            await self._pace(one.ingest_ns)
            self._hold(one)
            self._resending.pump()
            while not self._resending.has_room:
                await self._wait()

    async def _wait(self) -> None:
        self._room.clear()
        await self._room.wait()

    async def _pace(self, ingest_ns: int) -> None:
        speed = self._config.speed
        if speed is None:
            return
        now = self._out.scheduler.time()
        if self._paced_from is None:
            self._paced_from = now, ingest_ns
        since, first_ns = self._paced_from
        await self._sleep(since + (ingest_ns - first_ns) / 1e9 / speed - now)

    async def _sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        passed = asyncio.Event()
        timer = self._out.scheduler.call_later(seconds, passed.set)
        try:
            await passed.wait()
        finally:
            timer.cancel()

    def _hold(self, record: Record) -> None:
        try:
            tag = self._tags.decode(record.tag)
        except (MsgspecError, WalflowError) as error:
            last = record.position + record.count - 1
            self._miss(Gap(record.position, last, "", 0, 0, f"not to be decoded: {error}"))
            return
        self._tell_gap()
        feed = self._feed
        first = max(record.position, feed.first)
        last = min(record.position + record.count - 1, feed.end)
        frames = Frames(record.payload, record.count, tag.framing)
        start, stop = first - record.position, last + 1 - record.position
        if stop - start < record.count:
            frames = frames.slice(start, stop)
            metas = tag.event_metas
            tag = tag._replace(event_metas=None if metas is None else metas[start:stop])
        held = HeldRecord(self._stream(tag.stream), frames, tag, record.ingest_ns, feed.log, first, self._settled)
        self._held.append(held)
        self._resending.hold(held)

    def _stream(self, of: StreamId) -> StreamId:
        """A stream of this run for each of the log: what came together stays in order."""
        known = self._streams.get(of)
        if known is None:
            if len(self._streams) >= STREAMS:
                self._streams.clear()
            known = self._streams[of] = StreamId(self._out.name, self._out.run, next(self._numbers))
        return known

    def _settled(self) -> None:
        while self._held and not self._held[0].left:
            held = self._held.popleft()
            self._progress.settled_to = held.last
            self._progress.events += held.frames.count
        self._room.set()

    def _miss(self, gap: Gap) -> None:
        """Told with its neighbours, before what follows them."""
        first, last = max(gap.first, self._feed.first), min(gap.last, self._feed.end)
        self._missed.value += last - first + 1
        self._progress.missed += last - first + 1
        before = self._gap
        if before is not None and (before.last + 1, before.reason) == (first, gap.reason):
            first = before.first
        else:
            self._tell_gap()
        self._gap = gap._replace(first=first, last=last)

    def _tell_gap(self) -> None:
        gap, self._gap = self._gap, None
        if gap is not None:
            self._out.log.error("not replayed", first=gap.first, last=gap.last, reason=gap.reason)
