"""When the checkpoint is written: half a second after an ack, or as soon as much was acked,
and one write at a time."""

import os
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from connectors.file.follow.checkpoint import PAST, FileMark, FollowCheckpoint, FollowMarks
from connectors.file.follow.compressed_file import is_compressed
from connectors.file.follow.files_found import Identity
from connectors.file.follow.followed import FollowedFile
from connectors.file.follow.jobs import Jobs
from connectors.file.follow.sent import SentOffsets
from walflow import Backoff, Outlet, Timer, WalflowError

SAVE_SECONDS: Final = 0.5  # from an ack to its checkpoint
SAVE_BYTES: Final = 8 << 20  # acked bytes after which it is written at once


class MarkKeeper:
    """The marks of all files that are known, in memory and on disk.
    `saved` is called when those on disk have moved."""

    def __init__(
        self,
        checkpoint: FollowCheckpoint,
        offsets: SentOffsets,
        in_thread: Jobs,
        out: Outlet,
        marks: FollowMarks | None,
        saved: Callable[[], None],
    ) -> None:
        self._checkpoint = checkpoint
        self._offsets = offsets
        self._in_thread = in_thread
        self._scheduler = out.scheduler
        self._log = out.log
        self._fatal = out.fatal
        self._tell = saved
        self._marks = {mark.identity: mark for mark in (marks.files if marks else ())}
        self._past = deque[FileMark](marks.past if marks else (), PAST)
        self._unsaved: dict[Identity, FollowedFile] = {}  # read further than the checkpoint says
        self._trouble = ""  # why it cannot be written
        self._changed = False  # the checkpoint on disk is not what it should be
        self._saving = False
        self._timer: Timer | None = None
        self._backoff = Backoff(0.5, 10.0)

    def __repr__(self) -> str:
        return f"<MarkKeeper of {len(self._marks)} files, {len(self._unsaved)} read further>"

    def know(self, each: FollowedFile) -> None:
        self._marks[each.identity] = each.mark()
        self._changed = True

    def reading(self, each: FollowedFile) -> None:
        """More of it is sent than the checkpoint says."""
        self._unsaved[each.identity] = each

    def acked(self, each: FollowedFile) -> None:
        self.know(each)
        self.save_soon(at_once=each.acked - each.saved >= SAVE_BYTES)

    def move(self, each: FollowedFile, before: Identity) -> None:
        """It was followed as `before`, and goes on in a copy. Another file is followed as `before` by now."""
        if self._unsaved.get(before) is each:
            del self._unsaved[before]
        if each.position != each.saved or not each.settled:
            self._unsaved[each.identity] = each
        self.acked(each)

    def drop(self, each: FollowedFile) -> None:
        """What was sent of it counts no more: another file has its inode."""
        self._unsaved.pop(each.identity, None)

    def forget(self, each: FollowedFile) -> None:
        self._unsaved.pop(each.identity, None)
        self._marks.pop(each.identity, None)
        self.remember(each)
        self._changed = True
        self.save_soon()

    def remember(self, each: FollowedFile) -> None:
        """What was in it may come again, compressed."""
        if each.acked and not each.compressed:
            self._past.append(each.mark()._replace(earlier=tuple(each.earlier)))

    @property
    def known(self) -> Iterable[FileMark]:
        """Of all files that are not compressed, also of past ones."""
        return [*self._past, *(mark for mark in self._marks.values() if not is_compressed(os.fsdecode(mark.path)))]

    @property
    def unsettled(self) -> bool:
        """Whether events wait for their outcome."""
        return any(not each.settled for each in self._unsaved.values())

    def files_ahead(self) -> int:
        """Of which events are sent that the checkpoint does not know to be acked."""
        return sum(not each.settled or each.acked != each.saved for each in self._unsaved.values())

    def ahead(self) -> int:
        """Bytes that are sent and would come again after a crash."""
        return sum(each.ahead for each in self._unsaved.values())

    def waits_for(self) -> str:
        """Why the checkpoint does not move, although all is acked; "": it does, or not all is."""
        return f"{self._checkpoint.path}, which cannot be written: {self._trouble}" if self._trouble else ""

    async def save(self) -> None:
        """Writes the checkpoint now. Raises OSError."""
        marks = self._now()
        await self._in_thread.run(partial(self._write, marks))
        self._changed = False

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._changed:
            try:
                await self.save()
            except OSError as error:
                self._log.warning(f"cannot write {self._checkpoint.path}: {error.strerror}")

    def save_soon(self, *, at_once: bool = False) -> None:
        if self._saving or not self._changed or (self._timer is not None and not at_once):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._scheduler.call_later(0 if at_once else SAVE_SECONDS, self._submit)

    def _submit(self) -> None:
        self._timer = None
        self._saving = True
        self._changed = False
        marks = self._now()
        self._scheduler.submit(partial(self._write, marks), partial(self._saved, marks.files, dict(self._unsaved)))

    def _write(self, marks: FollowMarks) -> None:
        self._checkpoint.save(marks)
        self._offsets.wipe()

    def _now(self) -> FollowMarks:
        return FollowMarks(list(self._marks.values()), list(self._past))

    def _saved(self, marks: list[FileMark], ahead: dict[Identity, FollowedFile], error: BaseException | None) -> None:
        self._saving = False
        if isinstance(error, OSError):
            self._changed = True
            self._trouble = error.strerror or str(error)
            self._log.warning(f"cannot write {self._checkpoint.path}: {error.strerror}; trying again")
            self._timer = self._scheduler.call_later(self._backoff.next(), self._submit)
            return
        if isinstance(error, WalflowError):
            self._fatal(error)
        if error is not None:
            raise error
        self._backoff.reset()
        self._trouble = ""
        self._note(marks, ahead)
        self._tell()
        if self._changed:
            self.save_soon()

    def _note(self, marks: list[FileMark], ahead: dict[Identity, FollowedFile]) -> None:
        """`ahead`: whose marks these are. Another file may have the inode by now."""
        for mark in marks:
            each = self._unsaved.get(mark.identity)
            if each is None or each is not ahead.get(mark.identity):
                continue
            if mark is self._marks.get(mark.identity):
                each.saved = mark.offset
                if each.position == each.saved:
                    del self._unsaved[mark.identity]
            elif mark.offset <= each.acked:
                each.saved = mark.offset
