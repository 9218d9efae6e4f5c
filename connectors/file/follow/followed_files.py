"""What is followed, as the flow file has it, and in which state each of the files is."""

import asyncio
import glob
from collections.abc import Sequence
from typing import NamedTuple

from connectors.file.follow.checkpoint import FollowMarks
from connectors.file.follow.copies import CutFile
from connectors.file.follow.files_found import Identity
from connectors.file.follow.followed import FollowedFile
from connectors.file.follow.mark_keeper import MarkKeeper
from connectors.file.follow.sent import SentOffsets


class Following(NamedTuple):
    """The connector's keys for followed files. Times are in seconds."""

    pattern: str
    from_end: bool
    poll_interval: float
    rotate_wait: float
    max_open_files: int
    state: str
    dropped: bool = False  # each file is read once, and then deleted, or moved
    move_to: str | None = None

    @property
    def may_match_copies(self) -> bool:
        """Of dropped files each is one of its own, whatever is in it."""
        return glob.has_magic(self.pattern) and not self.dropped


class FollowedFiles:
    """All that are followed are in `known`; some of them in other tables, too.
    `wake` is set when the loop has something to do."""

    def __init__(
        self, config: Following, marks: FollowMarks | None, offsets: SentOffsets, wake: asyncio.Event
    ) -> None:
        self.known = {mark.identity: FollowedFile.known(mark) for mark in (marks.files if marks else ())}
        self.unread: dict[Identity, FollowedFile] = {}  # in the order in which they have their turn
        self.open: dict[Identity, FollowedFile] = {}  # the one that was read last comes last
        self.due: dict[Identity, FollowedFile] = {}  # failed, or finished: settled while a job had them in use
        self.done: dict[Identity, FollowedFile] = {}  # dropped files whose events are all acked
        self.cut: dict[Identity, FollowedFile] = {}  # of which a copy is looked for
        self.look_at_once = False  # for a copy
        self.crowded = False  # a file waits for another to be closed, and those that are open wait for acks
        self.wake = wake
        self._config = config
        self._offsets = offsets
        for each in self.known.values():
            each.slot, each.sent = offsets.take(each.identity)
            if not each.compressed and not config.may_match_copies:
                each.untried = []

    def __repr__(self) -> str:
        return f"<FollowedFiles {len(self.known)}, {len(self.open)} open>"

    def follows(self, each: FollowedFile) -> bool:
        """It may be forgotten, or another one has its inode by now."""
        return self.known.get(each.identity) is each

    @property
    def new(self) -> list[FollowedFile]:
        """New files, which may be copies of others."""
        found = [each for each in self.known.values() if each.untried is None and not each.compressed]
        return sorted(found, key=lambda each: each.path)

    def unread_bytes(self) -> int:
        return sum(max(0, each.size - each.position) for each in self.unread.values())

    def add(self, each: FollowedFile, keeper: MarkKeeper) -> None:
        self.known[each.identity] = each
        keeper.know(each)
        if each.unread:
            self.unread[each.identity] = each

    def close(self, each: FollowedFile) -> None:
        """Closes the file. It is opened again when it grows."""
        each.let_go()
        self.open.pop(each.identity, None)

    def begin_anew(self, each: FollowedFile, keeper: MarkKeeper, now: float) -> None:
        """It is another file by now, with its inode. What was sent of it waits for its outcome."""
        self._end(each, keeper)
        self.add(self.in_place_of(each, now), keeper)
        keeper.save_soon()

    def in_place_of(self, each: FollowedFile, now: float) -> FollowedFile:
        """What was sent goes by the same name only if the same bytes are there."""
        fresh = FollowedFile(each.path, each.identity, each.size)
        fresh.packed, fresh.slot, fresh.sent = each.packed, each.slot, each.sent
        fresh.gone_since, fresh.searched, fresh.quiet_since = each.gone_since, each.searched, now
        if not each.compressed and not self._config.may_match_copies:
            fresh.untried = []
        return fresh

    def settle_cut(self, cut: Sequence[CutFile], keeper: MarkKeeper) -> None:
        """A copy takes the place of the file that was cut, and what is in that now is a new file."""
        due = {id(each.file) for each in cut if self.due.get(each.file.identity) is each.file}
        for each in cut:
            if each.copy is None:
                self._end(each.file, keeper)
            self._leave(each.file)
            self.add(each.anew, keeper)
            if each.anew.file is not None:
                self.open[each.anew.identity] = each.anew
        for each in cut:
            if each.copy is None:
                continue
            before = each.file.identity
            self._leave(each.copy)
            if each.ends_at is not None:
                each.file.end_at(each.ends_at)
            each.file.go_on_in(each.copy)
            each.anew.after, each.anew.untried = each.file, []
            self._go_on(each.file)
            keeper.move(each.file, before)
            if id(each.file) in due:
                self.due[each.file.identity] = each.file
        keeper.save_soon()

    def _go_on(self, each: FollowedFile) -> None:
        self.known[each.identity] = each
        if each.file is not None:
            self.open[each.identity] = each
        if each.unread:
            self.unread[each.identity] = each

    def _end(self, each: FollowedFile, keeper: MarkKeeper) -> None:
        """Ends the file's stream. Half an event leaves by err."""
        if each.stream is not None and not each.ended:
            each.stream.close()
        each.stream = None
        each.let_go()
        self._leave(each)
        keeper.drop(each)
        keeper.remember(each)

    def _leave(self, each: FollowedFile) -> None:
        for table in (self.known, self.unread, self.open, self.done, self.cut, self.due):
            if table.get(each.identity) is each:
                del table[each.identity]

    def forget(self, each: FollowedFile, keeper: MarkKeeper) -> None:
        each.let_go()
        self._leave(each)
        self._offsets.free(each.slot, each.identity)
        keeper.forget(each)
