"""The loop that follows files: looks for them, reads in turns what has grown, and moves the checkpoint.

All that may block is done by the connector's one thread, a job at a time. A sink's failure, an unreadable file, a
file that was cut concern that file alone: it waits, the others go on.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from connectors.file.follow.checkpoint import FollowCheckpoint, FollowMarks, NoCheckpoint
from connectors.file.follow.followed import FollowedFile
from connectors.file.follow.followed_files import FollowedFiles, Following
from connectors.file.follow.jobs import BATCH_BYTES, Jobs, open_all, read_some
from connectors.file.follow.mark_keeper import MarkKeeper
from connectors.file.follow.outcomes import FileOutcomes
from connectors.file.follow.reads import FileReads
from connectors.file.follow.scan import FileLooks
from connectors.file.follow.sent import SentOffsets
from walflow import Outlet, world
from walflow.files import Disk

BATCH_FILES: Final = 64
AHEAD_BYTES: Final = 32 << 20  # sent, and not in the checkpoint yet: then no more is read
UNENDED_BYTES: Final = 32 << 20  # of all files, held because their event has no end yet
AHEAD_FILES: Final = 512  # with events ahead of the checkpoint: a log recognises those of some 1,000 files


async def follow(
    config: Following, out: Outlet, disk: Disk | None = None, boot: Callable[[], str] = world.boot
) -> None:
    """Raises Unusable and NoCheckpoint; returns only by being cancelled."""
    in_thread = Jobs(out.scheduler)
    checkpoint = await in_thread.run(
        lambda: FollowCheckpoint.open(disk or world.disk(), config.state, out.name, boot())
    )
    try:
        marks = await in_thread.run(checkpoint.load)
        offsets = await in_thread.run(
            partial(_offsets, config, out, disk or world.disk(), boot(), known=marks is not None)
        )
        try:
            follower = Follower(config, out, checkpoint, in_thread, marks, offsets)
            try:
                await follower.run()
            finally:
                await follower.close()
        finally:
            offsets.close()
    finally:
        checkpoint.close()


def _offsets(config: Following, out: Outlet, disk: Disk, boot: str, *, known: bool) -> SentOffsets:
    try:
        return SentOffsets.open(disk, config.state, out.name, boot, out.form, known=known)
    except OSError as error:
        raise NoCheckpoint(f"cannot keep what was sent in {config.state}: {error.strerror}") from error


class Follower:
    def __init__(
        self,
        config: Following,
        out: Outlet,
        checkpoint: FollowCheckpoint,
        in_thread: Jobs,
        marks: FollowMarks | None,
        offsets: SentOffsets,
    ) -> None:
        self._config = config
        self._out = out
        self._scheduler = out.scheduler
        self._in_thread = in_thread
        self._offsets = offsets
        self._first = marks is None  # start of all
        self._wake = asyncio.Event()
        self._files = files = FollowedFiles(config, marks, offsets, self._wake)
        self._keeper = keeper = MarkKeeper(checkpoint, offsets, in_thread, out, marks, self._wake.set)
        self._outcomes = outcomes = FileOutcomes(config, out, files, keeper, in_thread)
        self._reads = FileReads(config, out, files, keeper, offsets, in_thread, outcomes)
        self._looks = FileLooks(config, out, files, keeper, offsets, in_thread, outcomes, first=self._first)
        self._ready: asyncio.Task[None] | None = None
        self._full = False  # no more is read until something is acked, or the checkpoint is written
        out.backlog(lambda: 0, self._waits_for)
        out.gauge("followed_files", lambda: len(files.known))
        out.gauge("open_files", lambda: len(files.open))
        out.gauge("unread_bytes", files.unread_bytes)
        out.gauge("unended_bytes", self._unended)

    def __repr__(self) -> str:
        return f"<Follower of {self._config.pattern}, {self._files!r}>"

    async def run(self) -> None:
        self._out.on_ready(self._wake.set)  # up: it looks for files, whether there are any or not
        await self._looks.look()
        self._offsets.free_unfound()
        await self._reads.find_sent()
        await self._hold()
        if self._first:
            await self._keeper.save()  # from here on a restart knows what was there, and begins nothing at its end
        while True:
            self._wake.clear()
            await self._read()
            self._outcomes.see_to()
            await self._outcomes.dispose()
            if self._looks.due:
                cut = list(self._files.cut.values())
                await self._looks.look()
                await self._reads.settle_cut(cut)
                await self._hold()
            elif not self._wake.is_set():
                await self._sleep_until(self._looks.next_at)

    def _waits_for(self) -> str:
        return self._keeper.waits_for() if self._full else ""

    async def close(self) -> None:
        """What is acked by now is not read again."""
        if self._ready is not None:
            self._ready.cancel()
        for each in self._files.known.values():
            each.let_go()
        await self._keeper.close()

    async def _read(self) -> None:
        while not self._looks.due and (batch := self._batch()):
            if await self._may_send():
                for read in await self._in_thread.run(
                    partial(read_some, batch, self._files.known.values(), self._offsets)
                ):
                    self._reads.took(read)
                self._outcomes.see_to()

    async def _hold(self) -> None:
        """Opens what is to be read, which may take hours where a sink takes nothing:
        then it may be removed meanwhile."""
        files = self._files
        room = max(0, self._config.max_open_files - len(files.open))
        now = self._scheduler.time()
        closed = [each for each in files.unread.values() if each.file is None and each.not_before <= now][:room]
        for read in await self._in_thread.run(partial(open_all, closed)) if closed else ():
            if read.rewritten or read.trouble:
                self._reads.took(read)
            else:
                files.open[read.file.identity] = read.file

    async def _may_send(self) -> bool:
        """False once it is time to look for files."""
        if self._ready is None:
            self._ready = asyncio.ensure_future(self._out.ready())
            self._ready.add_done_callback(lambda _: self._wake.set())
            await asyncio.sleep(0)
        while not self._ready.done() and not self._looks.due:
            self._wake.clear()
            await self._sleep_until(self._looks.next_at)
        if not self._ready.done():
            return False
        self._ready = None
        return True

    def _batch(self) -> list[FollowedFile]:
        """What is read next: in turns, within the limit of open files,
        and no further ahead of the checkpoint than allowed."""
        files = self._files
        self._full = (
            self._keeper.ahead() + BATCH_BYTES > AHEAD_BYTES or self._keeper.files_ahead() + BATCH_FILES > AHEAD_FILES
        )
        if self._full:
            self._keeper.save_soon(at_once=True)
            if self._keeper.unsettled:
                self._out.waits()  # a batch may hold the events whose acks are missing
            return []
        now = self._scheduler.time()
        if self._unended() + BATCH_BYTES > UNENDED_BYTES and not self._give_way(now):
            return self._longest(now)
        chosen: list[FollowedFile] = []
        room = self._config.max_open_files - len(files.open)
        files.crowded = False
        for each in files.unread.values():
            if each.not_before > now or (each.after is not None and each.after.identity in files.unread):
                continue
            if each.file is None:
                if room <= 0 and (files.crowded or not self._close_one()):
                    files.crowded = True
                    continue
                room -= 1
            chosen.append(each)
            if len(chosen) == BATCH_FILES:
                break
        return chosen

    def _unended(self) -> int:
        """Bytes that are held because their event has no end yet. Of one that is too long nothing is held."""
        most = self._out.max_event_bytes
        return sum(each.unended for each in self._files.open.values() if each.stream and each.unended <= most)

    def _give_way(self, now: float) -> bool:
        """Quiet files are read again once they grow, or end. True: there is room for others."""
        for each in self._files.open.values():
            ends = self._config.dropped or each.gone_since is not None
            if each.unread or each.cut or each.compressed or not each.unended or each.waits_for_lines:
                continue
            if not (ends and now - each.quiet_since >= self._config.rotate_wait):
                each.give_way()
                if self._unended() + 2 * BATCH_BYTES <= UNENDED_BYTES:
                    return True
        return self._unended() + BATCH_BYTES <= UNENDED_BYTES

    def _longest(self, now: float) -> list[FollowedFile]:
        """Of the files that are read by half, the one whose event ends soonest, or is soonest too long: one alone, so
        that what is held does not grow with their number."""
        may = [each for each in self._files.unread.values() if each.unended and each.not_before <= now]
        return [max(may, key=lambda each: each.unended)] if may else []

    def _close_one(self) -> bool:
        """The one that has been quiet longest, if any is: it is opened again when it grows."""
        for each in self._files.open.values():
            # it ends soon, and the rest of it is sent then
            half = (self._config.dropped and each.position > each.acked) or each.waits_for_lines
            if each.settled and not each.unread and not each.cut and each.gone_since is None and not half:
                self._files.close(each)
                return True
        return False

    async def _sleep_until(self, moment: float) -> None:
        timer = self._scheduler.call_later(max(0.0, moment - self._scheduler.time()), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
