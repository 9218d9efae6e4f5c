"""What is followed, as the flow file has it, and in which state each of the files is."""

import asyncio
from typing import NamedTuple

from connectors.file.follow.checkpoint import FollowMarks
from connectors.file.follow.finding import Identity
from connectors.file.follow.followed import FollowedFile
from connectors.file.follow.keeping import MarkKeeper
from connectors.file.follow.sent import SentOffsets


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


class FollowedFiles:
    """All that are followed are in `known`; some of them in other tables, too. `wake` is set when the loop has something to do."""

    def __init__(self, marks: FollowMarks | None, offsets: SentOffsets, wake: asyncio.Event) -> None:
        self.known = {mark.identity: FollowedFile.known(mark) for mark in (marks.files if marks else ())}
        self.unread: dict[Identity, FollowedFile] = {}  # in the order in which they have their turn
        self.open: dict[Identity, FollowedFile] = {}  # the one that was read last comes last
        self.due: dict[Identity, FollowedFile] = {}  # failed, or finished: settled while a job had them in use
        self.done: dict[Identity, FollowedFile] = {}  # dropped files whose events are all acked
        self.crowded = False  # a file waits for another to be closed, and those that are open wait for acks
        self.wake = wake
        self._offsets = offsets
        for each in self.known.values():
            each.slot, each.sent = offsets.take(each.identity)

    def __repr__(self) -> str:
        return f"<FollowedFiles {len(self.known)}, {len(self.open)} open>"

    def follows(self, each: FollowedFile) -> bool:
        """It may be forgotten, or another one has its inode by now."""
        return self.known.get(each.identity) is each

    def unread_bytes(self) -> int:
        return sum(max(0, each.size - each.position) for each in self.unread.values())

    def add(self, each: FollowedFile, keeper: MarkKeeper) -> None:
        self.known[each.identity] = each
        keeper.know(each)
        if each.unread:
            self.unread[each.identity] = each

    def close(self, each: FollowedFile) -> None:
        """It is opened again when it grows."""
        each.let_go()
        self.open.pop(each.identity, None)

    def forget(self, each: FollowedFile, keeper: MarkKeeper) -> None:
        each.let_go()
        for table in (self.known, self.unread, self.open, self.done):
            table.pop(each.identity, None)
        self._offsets.free(each.slot)
        keeper.forget(each)
