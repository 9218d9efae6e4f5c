"""What is known of one file that is followed: how far it is read, and how far its events are acked."""

import os
from collections import deque
from collections.abc import Callable
from functools import partial

from connectors.file.follow.checkpoint import FileMark
from connectors.file.follow.finding import Identity, NamedFile
from connectors.file.follow.growing import GrowingFile, Head
from walflow import Backoff, Marked, Stream

FIRST_DELAY = 0.1
LAST_DELAY = 10.0


class _Fed:
    """One read: what was fed up to byte `end` of the file."""

    __slots__ = ("end", "marked")

    def __init__(self, end: int) -> None:
        self.end = end
        self.marked: Marked | None = None


class FollowedFile:
    """`size`: as it was last seen. `position`: the next byte to read. `acked`: each event before it has its outcome, and
    one begins there. `saved`: the `acked` that the checkpoint on disk has."""

    __slots__ = (
        "_fed",
        "acked",
        "after",
        "backoff",
        "changed",
        "changed_ns",
        "ended",
        "failed",
        "file",
        "gone_since",
        "half",
        "head",
        "identity",
        "not_before",
        "path",
        "position",
        "quiet_since",
        "saved",
        "searched",
        "size",
        "stream",
        "trouble",
    )

    def __init__(self, path: str, identity: Identity, size: int, acked: int = 0, head: Head | None = None) -> None:
        self.path = path
        self.identity = identity
        self.size = size
        self.position = self.acked = self.saved = acked
        self.changed = True  # since it was looked into last; after a start that is not known
        self.changed_ns = 0
        self.half = 0  # bytes behind `position` that were read, before the file was closed, and had no end yet
        self.head = head or Head()
        self.file: GrowingFile | None = None
        self.stream: Stream | None = None
        self.failed: BaseException | None = None
        self.ended = False  # its last event was sent, whether a line end follows it or not
        self.after: FollowedFile | None = None  # the file that had this name before, which is read first
        self.gone_since: float | None = None  # no name that matches leads to it any more
        self.searched = False  # once it is gone: under another name
        self.quiet_since = 0.0  # it has not grown since
        self.not_before = 0.0
        self.trouble = ""
        self.backoff = Backoff(FIRST_DELAY, LAST_DELAY)
        self._fed: deque[_Fed] = deque()

    def __repr__(self) -> str:
        return f"<FollowedFile {self.path!r} at {self.position} of {self.size}, acked {self.acked}>"

    @classmethod
    def found(cls, found: NamedFile) -> "FollowedFile":
        return cls(found.path, found.identity, found.size)

    @classmethod
    def known(cls, mark: FileMark) -> "FollowedFile":
        """From the checkpoint; its size is seen when it is found."""
        return cls(os.fsdecode(mark.path), mark.identity, mark.offset, mark.offset, mark.head)

    @property
    def unread(self) -> bool:
        """A file that has become shorter, too, or was written to and is as long as before: reading it shows what it is."""
        grown = self.changed or self.size != self.position + self.half
        return grown and self.failed is None and not self.ended

    @property
    def settled(self) -> bool:
        """Nothing that was sent waits for its outcome."""
        return not self._fed

    @property
    def finished(self) -> bool:
        return self.ended and self.settled and self.failed is None

    def mark(self) -> FileMark:
        return FileMark(os.fsencode(self.path), *self.identity, self.acked, *self.head)

    def take(self, data: bytes, progress: Callable[["FollowedFile"], None]) -> None:
        """What was read. `progress` is called whenever `acked` has moved, or `failed` is set and all is settled."""
        assert self.stream is not None
        self.position += len(data)
        self.half = 0
        self.size = max(self.size, self.position)
        self.stream.feed(data)
        self._mark(progress)

    def end(self, progress: Callable[["FollowedFile"], None]) -> None:
        """The file grows no more."""
        self.ended = True
        if self.stream is not None:
            self.stream.eof(complete=True)
            self._mark(progress)

    def begin_again(self) -> None:
        """What failed is read again, and what was sent behind it. Only once all is settled. The file stays open: it may
        have no name any more."""
        self._drop_stream()
        self.failed = None
        self.ended = False
        self.position = self.acked
        self.half = 0

    def let_go(self) -> None:
        """Closes it. What was read of an event that had not ended is read again once there is more of it."""
        self._drop_stream()
        if self.settled and not self.ended:
            self.half = self.position - self.acked
            self.position = self.acked
        if self.file is not None:
            self.head = self.file.head
            self.file.close()
            self.file = None

    def _drop_stream(self) -> None:
        if self.stream is not None and not self.ended:
            self.stream.abandon()
        self.stream = None

    def _mark(self, progress: Callable[["FollowedFile"], None]) -> None:
        assert self.stream is not None
        fed = _Fed(self.position)
        self._fed.append(fed)
        self.stream.mark(partial(self._settled, fed, progress))

    def _settled(self, fed: _Fed, progress: Callable[["FollowedFile"], None], marked: Marked) -> None:
        """In any order; what counts is how far all is settled from the beginning on."""
        fed.marked = marked
        while self._fed and (first := self._fed[0].marked) is not None:
            end = self._fed.popleft().end
            self.failed = self.failed or first.cause
            if self.failed is None:
                self.acked = end - first.unended
                self.backoff.reset()
        if self.failed is None or not self._fed:
            progress(self)
