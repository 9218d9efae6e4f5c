"""Which files there are: what a look at the directories means for each of them."""

from functools import partial
from typing import Final

from connectors.file.checksum import crc32c
from connectors.file.follow.compressed_file import is_compressed
from connectors.file.follow.files_found import NamedFile, compare, shown
from connectors.file.follow.followed import FollowedFile
from connectors.file.follow.followed_files import FollowedFiles, Following
from connectors.file.follow.jobs import Jobs, Look, look, note_cuts, open_all
from connectors.file.follow.mark_keeper import MarkKeeper
from connectors.file.follow.outcomes import FileOutcomes
from connectors.file.follow.plain_file import GrowingFile, Head
from connectors.file.follow.sent import SentOffsets
from walflow import Outlet

SCAN_SHARE: Final = 5  # looking for files takes at most a fifth of the time


class FileLooks:
    """`next_at`: when the next look is due, by the scheduler's time. `first`: no run was before this one."""

    def __init__(
        self,
        config: Following,
        out: Outlet,
        files: FollowedFiles,
        keeper: MarkKeeper,
        offsets: SentOffsets,
        in_thread: Jobs,
        outcomes: FileOutcomes,
        *,
        first: bool,
    ) -> None:
        self._config = config
        self._scheduler = out.scheduler
        self._log = out.log
        self._files = files
        self._keeper = keeper
        self._offsets = offsets
        self._in_thread = in_thread
        self._outcomes = outcomes
        self._first = first
        self._refused: dict[str, str] = {}
        self._waiting = False
        self.next_at = 0.0

    def __repr__(self) -> str:
        return f"<FileLooks for {self._config.pattern}>"

    @property
    def due(self) -> bool:
        return self._files.look_at_once or self._scheduler.time() >= self.next_at

    async def look(self) -> None:
        files = self._files
        files.look_at_once = False
        known = dict(files.known)

        def timed() -> tuple[Look, float]:
            began = self._scheduler.time()  # not before: a slow disk may be at the checkpoint yet, which is no scan
            seen = look(self._config.pattern, known, lambda: self._in_thread.cancelled)
            return seen, self._scheduler.time() - began

        seen, took = await self._in_thread.run(timed)
        now = self._scheduler.time()
        self.next_at = now + max(self._config.poll_interval, took * SCAN_SHARE)
        self._tell_refused(seen.scan.refused)
        changes = compare(files.known, seen.scan.files)
        names = {files.known[identity].path: files.known[identity] for identity in changes.gone}
        named = {each.path for each in files.known.values() if changes.new}
        for identity in changes.gone:
            self._gone(files.known[identity], seen, now)
        for found in changes.still:
            self._still(files.known[found.identity], found, now)
        for found in changes.new:
            self._new(found, names.get(found.path), now)
            if found.path in named:
                self._log.info(f"{shown(found.path)} is a new file, which is read from its beginning")
        await self._end_events(now)
        if self._skips:
            known = dict(files.known)
            for read in await self._in_thread.run(lambda: open_all(known.values())):
                self._skip(read.file)
        self._first = False
        if not files.known and not self._waiting:
            self._log.info(f"waiting for {shown(self._config.pattern)}: no such file yet")
        self._waiting = not files.known

    async def _end_events(self, now: float) -> None:
        """Of several lines, to which no more came."""
        due = [each for each in self._files.open.values() if each.open_lines(now)]
        if not due:
            return
        cuts = [(each, each.acked + each.open_lines(now)) for each in due]
        await self._in_thread.run(partial(note_cuts, cuts, self._offsets))
        for each in due:
            if self._files.follows(each):
                self._keeper.reading(each)
                each.end_event(self._outcomes.progress)

    @property
    def _skips(self) -> bool:
        return self._first and self._config.from_end

    def _skip(self, each: FollowedFile) -> None:
        if isinstance(each.file, GrowingFile):
            last = each.file.last
            each.tail = Head(len(last), crc32c(last))
        each.let_go()
        self._keeper.know(each)

    def _new(self, found: NamedFile, before: FollowedFile | None, now: float) -> None:
        each = FollowedFile.found(found)
        each.slot, each.sent = self._offsets.take(each.identity)
        if self._skips and not each.compressed:
            each.position = each.acked = each.saved = found.size
        each.packed, each.ended = found.size if each.compressed else 0, self._skips and each.compressed
        if each.compressed:
            each.not_before = now + self._config.rotate_wait  # it may be written yet
        elif self._first or not self._config.may_match_copies:
            each.untried = []  # nothing was read that it could be a copy of
        each.changed_ns = found.changed_ns
        each.after = before
        each.quiet_since = now
        self._files.add(each, self._keeper)

    def _still(self, each: FollowedFile, found: NamedFile, now: float) -> None:
        if each.compressed != is_compressed(found.path):  # it has the inode of one that is gone
            self._files.forget(each, self._keeper)
            self._new(found, None, now)
            return
        if each.path != found.path:
            self._tell_renamed(each, found.path)
            each.path, each.moved_from = found.path, each.path
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
            self._files.unread.setdefault(each.identity, each)

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
        """It is read on for as long as the program that writes it may do so: until another file has its name, and it
        has not grown for a while."""
        if each.gone_since is None:
            each.gone_since = each.quiet_since = now
            self._keeper.acked(each)
            path = seen.moved.get(each.identity)
            if path is not None:
                self._tell_renamed(each, path)
            elif each.file is not None:
                self._log.info(f"{shown(each.path)} was removed: it is read on from byte {each.position}")
        if each.identity in seen.sizes:
            self._grown(each, seen.sizes[each.identity], now)
        elif each.compressed and each.finished:
            self._files.forget(each, self._keeper)
            return
        elif each.file is None and not each.searched:
            each.searched = True
            path = seen.moved.get(each.identity)
            if path is None:
                self._missing(each)
                return
            each.path, each.moved_from = path, each.path
            each.size = -1  # not known: reading it will show
            self._files.unread[each.identity] = each
        self._end_if_quiet(each, now)

    def _end_if_quiet(self, each: FollowedFile, now: float) -> None:
        waited = now - each.quiet_since >= self._config.rotate_wait
        if waited and not each.unread and not each.ended and not each.cut and each.failed is None:
            if each.half:  # it gave way to others, and is read once more
                each.half = 0
                self._files.unread[each.identity] = each
            else:
                self._outcomes.end(each)

    def _tell_renamed(self, each: FollowedFile, path: str) -> None:
        rest = "it is read" if each.compressed and each.ended else f"it is read on from byte {each.position}"
        self._log.info(f"{shown(each.path)} was renamed to {shown(path)}: {rest}")

    def _missing(self, each: FollowedFile) -> None:
        unread = each.size - each.acked
        words = f"{unread} bytes of it were not read" if unread > 0 else "what was written behind that is not read"
        words += ", unless it is there compressed"
        self._log.warning(f"{shown(each.path)} is gone: it was read to byte {each.acked}, {words}")
        self._files.forget(each, self._keeper)

    def _tell_refused(self, refused: dict[str, str]) -> None:
        for path, reason in refused.items():
            if self._refused.get(path) != reason:
                self._log.warning(f"cannot follow {shown(path)}: {reason}")
        self._refused = refused
