"""The loop that follows files: looks for them, reads in turns what has grown, and moves the checkpoint.

All that may block is done by the connector's one thread, a job at a time. A sink's failure, an unreadable file, a file
that was cut concern that file alone: it waits, the others go on.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from connectors.file.appending import boot_id
from connectors.file.follow.checkpoint import FollowCheckpoint, FollowMarks, NoCheckpoint
from connectors.file.follow.disposing import dispose
from connectors.file.follow.finding import Identity, NamedFile, compare, shown
from connectors.file.follow.followed import FollowedFile
from connectors.file.follow.inflating import InflatedFile, is_compressed
from connectors.file.follow.jobs import BATCH_BYTES, FileRead, Jobs, Look, look, open_all, read_some
from connectors.file.follow.keeping import MarkKeeper
from connectors.file.follow.recognising import NOTHING_READ, Guess, guesses, left
from connectors.file.follow.sent import SentOffsets
from walflow import Outlet
from walflow.disk import Disk, RealDisk

BATCH_FILES: Final = 64
AHEAD_BYTES: Final = 32 << 20  # read, and not in the checkpoint yet: then no more is read
AHEAD_FILES: Final = 512  # with events ahead of the checkpoint: a log recognises those of some 1,000 files
SCAN_SHARE: Final = 5  # looking for files takes at most a fifth of the time


class Following(NamedTuple):
    """As the flow file has it. Seconds."""

    pattern: str
    from_end: bool
    poll_interval: float
    rotate_wait: float
    max_open_files: int
    state: str
    dropped: bool = False  # each file is read once, and then deleted, or moved
    move_to: str | None = None


async def follow(config: Following, out: Outlet, disk: Disk | None = None, boot: Callable[[], str] = boot_id) -> None:
    """Raises Unusable and NoCheckpoint; returns only by being cancelled."""
    in_thread = Jobs(out.scheduler)
    checkpoint = await in_thread.run(
        lambda: FollowCheckpoint.open(disk or RealDisk(), config.state, out.name, boot())
    )
    try:
        marks = await in_thread.run(checkpoint.load)
        offsets = await in_thread.run(
            partial(_offsets, config, out, disk or RealDisk(), boot(), known=marks is not None)
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
        self._log = out.log
        self._in_thread = in_thread
        self._skip = config.from_end and marks is None  # what is there at the first start of all
        self._files = {mark.identity: FollowedFile.known(mark) for mark in (marks.files if marks else ())}
        self._offsets = offsets
        for each in self._files.values():
            each.slot, each.sent = offsets.take(each.identity)
        self._first = marks is None
        self._unread: dict[Identity, FollowedFile] = {}  # in the order in which they have their turn
        self._open: dict[Identity, FollowedFile] = {}  # the one that was read last comes last
        self._wake = asyncio.Event()
        self._keeper = MarkKeeper(checkpoint, in_thread, out, marks, self._wake.set)
        self._ready: asyncio.Task[None] | None = None
        self._due: dict[Identity, FollowedFile] = {}  # failed, or finished: settled while a job had them in use
        self._done: dict[Identity, FollowedFile] = {}  # dropped files whose events are all acked
        self._refused: dict[str, str] = {}
        self._waiting = False
        self._crowded = False  # a file waits for another to be closed, and those that are open wait for acks
        self._look_at = 0.0
        self._cut = out.counter("truncated_files_total")
        self._again = out.counter("reread_bytes_total")
        self._disposed = out.counter("disposed_files_total")
        self._damaged = out.counter("damaged_files_total")
        out.gauge("followed_files", lambda: len(self._files))
        out.gauge("open_files", lambda: len(self._open))
        out.gauge("unread_bytes", self._unread_bytes)

    def __repr__(self) -> str:
        return f"<Follower of {self._config.pattern}, {len(self._files)} files, {len(self._open)} open>"

    async def run(self) -> None:
        self._out.on_ready(self._wake.set)  # up: it looks for files, whether there are any or not
        await self._look()
        self._offsets.free_unfound()
        await self._hold()
        if self._first:
            await self._keeper.save()  # from here on a restart knows what was there, and begins nothing at its end
        while True:
            self._wake.clear()
            await self._read()
            self._see_to_outcomes()
            await self._dispose()
            if self._scheduler.time() >= self._look_at:
                await self._look()
                await self._hold()
            elif not self._wake.is_set():
                await self._sleep_until(self._look_at)

    async def close(self) -> None:
        """What is acked by now is not read again."""
        if self._ready is not None:
            self._ready.cancel()
        for each in self._files.values():
            each.let_go()
        await self._keeper.close()

    def _unread_bytes(self) -> int:
        return sum(max(0, each.size - each.position) for each in self._unread.values())

    # which files there are

    async def _look(self) -> None:
        known = dict(self._files)

        def timed() -> tuple[Look, float]:
            began = self._scheduler.time()  # not before: a slow disk may be at the checkpoint yet, which is no scan
            return look(self._config.pattern, known), self._scheduler.time() - began

        seen, took = await self._in_thread.run(timed)
        now = self._scheduler.time()
        self._look_at = now + max(self._config.poll_interval, took * SCAN_SHARE)
        self._tell_refused(seen.scan.refused)
        changes = compare(self._files, seen.scan.files)
        names = {self._files[identity].path: self._files[identity] for identity in changes.gone}
        for identity in changes.gone:
            self._gone(self._files[identity], seen, now)
        for found in changes.still:
            self._still(self._files[found.identity], found, now)
        for found in changes.new:
            self._new(found, names.get(found.path), now)
        if self._skip:
            self._skip = False
            known = dict(self._files)
            for read in await self._in_thread.run(lambda: open_all(known.values())):
                read.file.let_go()
                self._keeper.know(read.file)
        if not self._files and not self._waiting:
            self._log.info(f"waiting for {shown(self._config.pattern)}: no such file yet")
        self._waiting = not self._files

    def _new(self, found: NamedFile, before: FollowedFile | None, now: float) -> None:
        each = FollowedFile.found(found)
        each.slot, each.sent = self._offsets.take(each.identity)
        if self._skip and not each.compressed:
            each.position = each.acked = each.saved = found.size
        each.packed, each.ended = found.size if each.compressed else 0, self._skip and each.compressed
        if each.compressed:
            each.not_before = now + self._config.rotate_wait  # it may be written yet
        each.changed_ns = found.changed_ns
        each.after = before
        each.quiet_since = now
        self._add(each)

    def _add(self, each: FollowedFile) -> None:
        self._files[each.identity] = each
        self._keeper.know(each)
        if each.unread:
            self._unread[each.identity] = each

    def _still(self, each: FollowedFile, found: NamedFile, now: float) -> None:
        if each.compressed != is_compressed(found.path):  # it has the inode of one that is gone
            self._forget(each)
            self._new(found, None, now)
            return
        if each.path != found.path:
            each.path = found.path
            self._keeper.acked(each)
        each.gone_since = None
        each.searched = False
        if each.changed_ns != found.changed_ns:
            each.changed_ns = found.changed_ns
            each.changed = True
        self._grown(each, found.size, now)
        if self._config.dropped:
            self._end_if_quiet(each, now)

    def _grown(self, each: FollowedFile, size: int, now: float) -> None:
        if each.compressed:
            self._repacked(each, size, now)
        elif size != each.size:
            each.size = size
            each.quiet_since = now
        if each.unread:
            self._unread.setdefault(each.identity, each)

    def _repacked(self, each: FollowedFile, size: int, now: float) -> None:
        """What was read to its end, or to its damage, may be written on."""
        if size == each.packed:
            return
        if each.finished:
            each.begin_again()
        each.packed = size
        each.changed = True
        each.quiet_since = now
        each.not_before = now + self._config.rotate_wait

    def _gone(self, each: FollowedFile, seen: Look, now: float) -> None:
        """FileRead on for as long as the program that writes it may do so: until another file has its name, and it has not
        grown for a while."""
        if each.gone_since is None:
            each.gone_since = each.quiet_since = now
            self._keeper.acked(each)
        if each.identity in seen.sizes:
            self._grown(each, seen.sizes[each.identity], now)
        elif each.compressed and each.finished:
            self._forget(each)
            return
        elif each.file is None and not each.searched:
            each.searched = True
            path = seen.moved.get(each.identity)
            if path is None:
                self._missing(each)
                return
            each.path = path
            each.size = -1  # not known: reading it will show
            self._unread[each.identity] = each
        self._end_if_quiet(each, now)

    def _end_if_quiet(self, each: FollowedFile, now: float) -> None:
        waited = now - each.quiet_since >= self._config.rotate_wait
        if waited and not each.unread and not each.ended and each.failed is None:
            each.end(self._progress)
            if each.finished:
                self._due[each.identity] = each

    def _missing(self, each: FollowedFile) -> None:
        unread = each.size - each.acked
        words = f"{unread} bytes of it were not read" if unread > 0 else "what was written behind that is not read"
        words += ", unless it is there compressed"
        self._log.warning(f"{shown(each.path)} is gone: it was read to byte {each.acked}, {words}")
        self._forget(each)

    def _forget(self, each: FollowedFile) -> None:
        each.let_go()
        for table in (self._files, self._unread, self._open, self._done):
            table.pop(each.identity, None)
        self._offsets.free(each.slot)
        self._keeper.forget(each)

    def _tell_refused(self, refused: dict[str, str]) -> None:
        for path, reason in refused.items():
            if self._refused.get(path) != reason:
                self._log.warning(f"cannot follow {shown(path)}: {reason}")
        self._refused = refused

    # reading

    async def _read(self) -> None:
        while self._scheduler.time() < self._look_at and (batch := self._batch()):
            if await self._may_send():
                for read in await self._in_thread.run(partial(read_some, batch, self._offsets)):
                    self._took(read)
                self._see_to_outcomes()

    async def _hold(self) -> None:
        """Opens what is to be read, which may take hours where a sink takes nothing: then it may be removed meanwhile."""
        room = self._config.max_open_files - len(self._open)
        now = self._scheduler.time()
        closed = [each for each in self._unread.values() if each.file is None and each.not_before <= now][
            : max(0, room)
        ]
        for read in await self._in_thread.run(partial(open_all, closed)) if closed else ():
            if read.rewritten or read.trouble:
                self._took(read)
            else:
                self._open[read.file.identity] = read.file

    async def _may_send(self) -> bool:
        """False once it is time to look for files."""
        if self._ready is None:
            self._ready = asyncio.ensure_future(self._out.ready())
            self._ready.add_done_callback(lambda _: self._wake.set())
            await asyncio.sleep(0)
        while not self._ready.done() and self._scheduler.time() < self._look_at:
            self._wake.clear()
            await self._sleep_until(self._look_at)
        if not self._ready.done():
            return False
        self._ready = None
        return True

    def _batch(self) -> list[FollowedFile]:
        """What is read next: in turns, within the limit of open files, and no further ahead of the checkpoint than allowed."""
        if self._keeper.ahead() + BATCH_BYTES > AHEAD_BYTES or self._keeper.files_ahead() + BATCH_FILES > AHEAD_FILES:
            self._keeper.save_soon(at_once=True)
            return []
        now = self._scheduler.time()
        chosen: list[FollowedFile] = []
        room = self._config.max_open_files - len(self._open)
        self._crowded = False
        for each in self._unread.values():
            if each.not_before > now or (each.after is not None and each.after.identity in self._unread):
                continue
            if each.file is None:
                if room <= 0 and (self._crowded or not self._close_one()):
                    self._crowded = True
                    continue
                room -= 1
            chosen.append(each)
            if len(chosen) == BATCH_FILES:
                break
        return chosen

    def _close_one(self) -> bool:
        """The one that has been quiet longest, if any is: it is opened again when it grows."""
        for each in self._open.values():
            half = (
                self._config.dropped and each.position > each.acked
            )  # it ends soon, and the rest of it is sent then
            if each.settled and not each.unread and each.gone_since is None and not half:
                self._close_file(each)
                return True
        return False

    def _close_file(self, each: FollowedFile) -> None:
        each.let_go()
        self._open.pop(each.identity, None)

    def _took(self, read: FileRead) -> None:
        each = read.file
        if each.file is not None:
            self._open.pop(each.identity, None)
            self._open[each.identity] = each
        if self._files.get(each.identity) is not each:
            return
        if read.parts and each.compressed:
            each.untried = []
        if read.parts and each.failed is None:  # otherwise it is read again, this too
            self._take(each, read.parts)
        if read.rewritten and each.untried:
            self._guess(each, left(each.untried, read.ends_at))
        elif read.rewritten:
            self._rewritten(each)
        elif read.trouble:
            self._unreadable(each, read.trouble)
        elif isinstance(each.file, InflatedFile) and each.untried is None:
            self._recognise(each, each.file)
        else:
            self._readable(each, read)

    def _take(self, each: FollowedFile, parts: Sequence[bytes]) -> None:
        if each.stream is None:
            each.stream = self._out.stream(
                {"file": {"path": shown(each.path)}}, marks=True, place=None if each.compressed else each
            )
        self._keeper.reading(each)
        for part in parts:
            if each.failed is None:
                each.take(part, self._progress)

    def _recognise(self, each: FollowedFile, file: InflatedFile) -> None:
        """It may be one that was followed, compressed. That one is read first, as long as it can be."""
        known = [*self._keeper.known]
        alike = guesses(file.first, known)
        offsets = {guess.offset for guess in alike}
        busy = [self._files.get(mark.identity) for mark in known if mark.offset in offsets]
        if any(one is not None and one.gone_since is not None for one in busy):
            each.not_before = self._scheduler.time() + self._config.rotate_wait
            self._close_file(each)
            return
        self._guess(each, [*alike, NOTHING_READ])

    def _guess(self, each: FollowedFile, untried: list[Guess]) -> None:
        each.begin_behind(untried[0])
        each.untried = untried[1:]
        self._open.pop(each.identity, None)

    def _inflated(self, each: FollowedFile, damage: str) -> None:
        """All that is in it."""
        if damage:
            self._damaged.value += 1
            reason = f"{shown(each.path)} is damaged: {damage}"
            self._log.error(f"{reason}; what follows byte {each.position} of what is in it is not read")
            if each.stream is None:
                each.stream = self._out.stream({"file": {"path": shown(each.path)}}, marks=True)
            each.damage(reason, self._progress)
        else:
            each.end(self._progress)
        if each.finished:
            self._due[each.identity] = each

    def _readable(self, each: FollowedFile, read: FileRead) -> None:
        if each.failed is not None:
            return
        if each.trouble:
            self._log.info(f"{shown(each.path)} can be read again")
            each.trouble = ""
        each.after = None
        each.changed = False
        self._unread.pop(each.identity, None)
        if read.ended:
            each.size = each.position
            if each.compressed and not each.ended:
                self._inflated(each, read.damage)
        else:
            each.size = max(each.size, each.position + 1)  # more may be there; it has another turn
            self._unread[each.identity] = each

    def _unreadable(self, each: FollowedFile, trouble: str) -> None:
        each.not_before = self._scheduler.time() + each.backoff.next()
        if trouble == "gone":  # the next look says where it is
            return
        if trouble != each.trouble:
            self._log.warning(f"cannot read {shown(each.path)}: {trouble}; the other files go on")
            each.trouble = trouble

    def _rewritten(self, each: FollowedFile) -> None:
        self._cut.value += 1
        lost = (
            ""
            if each.acked == each.position
            else f" Of what was sent, {each.position - each.acked} bytes are not acked."
        )
        self._log.warning(
            f"{shown(each.path)} was cut, or written anew: it is read from its beginning. What was in it behind byte "
            f"{each.position} is not read.{lost}"
        )
        if each.stream is not None:
            each.stream.close()
            each.stream = None
        each.let_go()
        self._open.pop(each.identity, None)
        self._keeper.drop(each)
        self._keeper.remember(each)
        self._unread.pop(each.identity, None)
        fresh = FollowedFile(each.path, each.identity, each.size)
        fresh.slot = each.slot
        fresh.packed = each.packed
        fresh.gone_since, fresh.searched, fresh.quiet_since = each.gone_since, each.searched, self._scheduler.time()
        self._add(fresh)
        self._keeper.save_soon()

    # outcomes

    def _progress(self, each: FollowedFile) -> None:
        if self._files.get(each.identity) is not each:
            if each.failed is not None:
                self._log.error(
                    f"events of {shown(each.path)} failed, and are not in it any more", cause=str(each.failed)
                )
            return
        if each.failed is None:
            self._keeper.acked(each)
        if each.failed is not None or each.finished:
            self._due[each.identity] = each
            self._wake.set()
        elif self._crowded and each.settled:
            self._wake.set()

    def _see_to_outcomes(self) -> None:
        """No job runs now, so files may be closed."""
        due, self._due = self._due, {}
        for each in due.values():
            if self._files.get(each.identity) is not each:
                continue
            if each.failed is not None:
                self._failed(each, each.failed)
            elif each.compressed and not self._config.dropped and each.gone_since is None:
                self._log.info(f"{shown(each.path)} is read to its end", bytes=each.position)
                self._close_file(each)
                self._keeper.acked(each)
            elif self._config.dropped and each.gone_since is None:
                self._close_file(each)
                self._done[each.identity] = each
            else:
                self._log.info(f"{shown(each.path)} is read to its end, and followed no more", bytes=each.position)
                self._forget(each)

    async def _dispose(self) -> None:
        now = self._scheduler.time()
        done = [each for each in self._done.values() if each.not_before <= now]
        if not done:
            return
        for result in await self._in_thread.run(lambda: dispose(done, self._config.move_to)):
            each = result.file
            if result.grown:
                del self._done[each.identity]
                each.begin_again()
                each.quiet_since = now
                self._unread[each.identity] = each
            elif result.trouble:
                if result.trouble != each.trouble:
                    verb = "delete" if self._config.move_to is None else "move"
                    self._log.warning(f"cannot {verb} {shown(each.path)}: {result.trouble}; it is read, and stays")
                each.trouble = result.trouble
                each.not_before = now + each.backoff.next()
            else:
                self._disposed.value += 1
                self._forget(each)

    def _failed(self, each: FollowedFile, cause: BaseException) -> None:
        delay = each.backoff.next()
        self._again.value += each.position - each.acked
        self._log.warning(
            f"events of {shown(each.path)} failed: it is read again from byte {each.acked}", cause=str(cause),
            seconds=round(delay, 2),
        )  # fmt: skip
        each.begin_again()
        each.not_before = self._scheduler.time() + delay
        each.size = max(each.size, each.position + 1)
        self._unread[each.identity] = each
        self._scheduler.call_later(delay, self._wake.set)

    async def _sleep_until(self, moment: float) -> None:
        timer = self._scheduler.call_later(max(0.0, moment - self._scheduler.time()), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
