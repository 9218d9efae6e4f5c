"""What is known of one file that is followed: how far it is read, and how far its events are acked."""

import os
from collections import deque
from collections.abc import Callable
from functools import partial

from connectors.file.checksum import crc32c
from connectors.file.follow.checkpoint import FileMark
from connectors.file.follow.compressed_file import InflatedFile, is_compressed
from connectors.file.follow.files_found import Identity, NamedFile
from connectors.file.follow.plain_file import LAST_BYTES, GrowingFile, Head
from connectors.file.follow.same_file import Guess
from connectors.file.follow.sent import NO_SLOT, Sent
from walflow import Backoff, Marked, Origin, Stream

FIRST_DELAY = 0.1
LAST_DELAY = 10.0
EARLIER = 32  # seconds of a file that is written to all the time
TAIL_BYTES = 4096  # kept of each file: the bytes before `position`
HALF_BYTES = (
    64 << 10
)  # kept of each read on its way: the bytes before an event that has not ended are in it, unless that is longer


def open_file(each: "FollowedFile", path: str | None = None) -> GrowingFile | InflatedFile:
    """It blocks. Raises OSError, Elsewhere, and Rewritten."""
    of = InflatedFile if each.compressed else GrowingFile
    return of.open(path or each.path, each.identity, each.position, each.head, each.before)


class _Fed:
    """One read: what was fed up to byte `end` of the file. `tail`: its last bytes. Without `end` it was damage."""

    __slots__ = ("end", "marked", "tail")

    def __init__(self, end: int | None, tail: bytes) -> None:
        self.end = end
        self.tail = tail
        self.marked: Marked | None = None


class FollowedFile:
    """`size`: as it was last seen. `position`: the next byte to read. `acked`: each event before it has its outcome,
    and one begins there. `saved`: the `acked` that the checkpoint on disk has. Of a compressed file these count what
    is in it; `packed` is its size on disk."""

    __slots__ = (
        "_fed",
        "acked",
        "after",
        "backoff",
        "changed",
        "changed_ns",
        "compressed",
        "covered",
        "cut",
        "cut_at",
        "earlier",
        "ended",
        "failed",
        "file",
        "gone_since",
        "half",
        "head",
        "identity",
        "last",
        "moved_from",
        "not_before",
        "originals",
        "packed",
        "path",
        "position",
        "quiet_since",
        "saved",
        "searched",
        "sent",
        "size",
        "slot",
        "stream",
        "tail",
        "told_long",
        "trouble",
        "untried",
    )

    def __init__(self, path: str, identity: Identity, size: int, acked: int = 0, head: Head | None = None) -> None:
        self.path = path
        self.moved_from: str | None = None  # its name before this one, in this run
        self.identity = identity
        self.size = size
        self.position = self.acked = self.saved = acked
        self.changed = True  # since it was looked into last; after a start that is not known
        self.changed_ns = 0
        self.half = 0  # bytes behind `position` that were read, before the file was closed, and had no end yet
        self.head = head or Head()
        self.tail = Head()  # the bytes before `acked`; no length: not known
        self.last = b""  # the bytes before `position`
        self.compressed = is_compressed(path)
        self.packed = 0
        self.untried: list[Guess] | None = None  # what this may be, compressed or copied; None: not looked for yet
        self.originals: dict[FollowedFile, Guess] = {}  # what this may be a copy of, and how far that was read then
        self.cut = False  # what was read is not in it any more; a copy is looked for
        self.cut_at = 0.0
        self.covered = False  # all that is in it was read
        self.earlier = deque[tuple[int, int]](
            (), EARLIER
        )  # offsets that were acked, with the checksum of the bytes before
        self.file: GrowingFile | InflatedFile | None = None
        self.stream: Stream | None = None
        self.sent = Sent.nothing()  # on its way to the sinks; beside `slot` only for files that are not compressed
        self.slot = NO_SLOT
        self.failed: BaseException | None = None
        self.ended = False  # its last event was sent, whether a line end follows it or not
        self.after: FollowedFile | None = None  # the file that had this name before, which is read first
        self.gone_since: float | None = None  # no name that matches leads to it any more
        self.searched = False  # once it is gone: under another name
        self.quiet_since = 0.0  # it has not grown since
        self.not_before = 0.0
        self.trouble = ""
        self.told_long = -1  # the offset of an event that is too long and has no end yet
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
        each = cls(os.fsdecode(mark.path), mark.identity, mark.offset, mark.offset, mark.head)
        each.tail, each.packed, each.ended = mark.tail, mark.packed, mark.packed > 0
        each.untried = [] if mark.offset or mark.packed else None
        each.earlier.extend(mark.earlier)
        return each

    def begin(self) -> int:
        """As the place of its stream: see `walflow.contract.ReadPlace`."""
        return self.position

    def origin(self) -> Origin:
        return Origin(self.sent.name, 0, 0, acked_below=self.saved + 1, term=0, settled=self.acked)

    @property
    def unread(self) -> bool:
        """A file that has become shorter, too, or was written to and is as long as before:
        reading it shows what it is."""
        grown = self.changed or self.size != self.position + self.half
        return grown and self.failed is None and not self.ended and not self.cut

    @property
    def before(self) -> Head:
        """The bytes before `position`. No length: not known."""
        if self.last:
            last = self.last[-LAST_BYTES:]
            return Head(len(last), crc32c(last))
        return self.tail if self.position == self.acked else Head()

    @property
    def settled(self) -> bool:
        """Nothing that was sent waits for its outcome."""
        return not self._fed

    @property
    def unended(self) -> int:
        """Bytes of an event that has no end yet.
        0 also while what was sent before it has no outcome: then that is not known."""
        return self.position - self.acked if self.settled and self.failed is None else 0

    @property
    def ahead(self) -> int:
        """Bytes that were sent, and would come again after a crash.
        What has no end yet is not among them: only more of it ends it."""
        return self.position - self.unended - self.saved

    @property
    def finished(self) -> bool:
        return self.ended and self.settled and self.failed is None

    def mark(self) -> FileMark:
        packed = self.packed if self.compressed and self.finished else 0
        return FileMark(
            os.fsencode(self.path), *self.identity, self.acked, *self.head, *self.tail, packed, self._told
        )

    @property
    def _told(self) -> tuple[tuple[int, int], ...]:
        """Of one that may be compressed by now."""
        return () if self.gone_since is None or self.compressed else tuple(self.earlier)

    def begin_behind(self, guess: Guess) -> None:
        """Begins behind the guessed offset. Nothing of the file was sent yet."""
        self.let_go()
        self.position = self.acked = self.saved = self.size = guess.offset
        self.tail, self.covered = guess.tail, guess.whole
        self.last = b""
        self.half = 0
        self.changed = True

    def end_at(self, place: Guess) -> None:
        """What is behind it was read of a file that does not have it any more. Only once all is settled."""
        if self.stream is not None:
            self.stream.close()  # half an event leaves by err
            self.stream = None
        saved = self.saved
        self.begin_behind(place)
        self.saved = min(saved, place.offset)

    def go_on_in(self, copy: "FollowedFile") -> None:
        """A copy has what was read of this one, and more; another file has this one's name by now."""
        if self.file is not None:
            self.file.close()
        self.path, self.identity, self.size = copy.path, copy.identity, copy.size
        self.file, copy.file = copy.file, None
        if self.file is not None:
            self.head = self.file.head
        self.gone_since, self.searched, self.quiet_since = copy.gone_since, copy.searched, copy.quiet_since
        self.changed_ns, self.changed, self.cut, self.half = copy.changed_ns, True, False, 0
        self.not_before = 0.0
        self.trouble = ""

    def take(self, data: bytes, progress: Callable[["FollowedFile"], None]) -> None:
        """What was read. `progress` is called whenever `acked` has moved, or `failed` is set and all is settled."""
        assert self.stream is not None
        self.position += len(data)
        self.half = 0
        self.size = max(self.size, self.position)
        cut = self.sent.cut - self.position + len(data)
        if 0 < cut <= len(data):  # these lines were an event before a crash, or before a sink failed them
            self.stream.feed(data[:cut])
            self.stream.end_event()
        else:
            cut = 0
        if cut < len(data):
            self.stream.feed(data[cut:] if cut else data)
        self.last = (self.last + data[-TAIL_BYTES:])[-TAIL_BYTES:]
        self._mark(progress, data[-HALF_BYTES:] if len(data) > TAIL_BYTES else self.last)

    @property
    def waits_for_lines(self) -> bool:
        """It has whole lines whose event may go on, which is over soon."""
        return self.stream is not None and self.stream.open_lines > 0

    def open_lines(self, now: float) -> int:
        """Bytes of whole lines that are an event by now: no more came. All before them is acked, and the checkpoint
        says so, so a restart reads from them on."""
        if self.stream is None or self.unread or self.compressed or not self.settled or self.acked != self.saved:
            return 0
        return self.stream.open_lines if now - self.quiet_since >= self.stream.patience else 0

    def end_event(self, progress: Callable[["FollowedFile"], None]) -> None:
        """Ends the event that is held. `sent.cut` is written already."""
        assert self.stream is not None
        self.stream.end_event()
        self._mark(progress, self.last)

    def damage(self, reason: str, progress: Callable[["FollowedFile"], None]) -> None:
        """There is no more of it, though it does not end here."""
        assert self.stream is not None
        self.ended = True
        self.stream.reject(reason)
        self.stream.eof(complete=False)
        self._mark(progress, None)

    def end(self, progress: Callable[["FollowedFile"], None]) -> None:
        """Marks the file as complete: it grows no more."""
        self.ended = True
        if self.stream is not None:
            self.stream.eof(complete=True)
            self._mark(progress, self.last)

    def begin_again(self) -> None:
        """What failed is read again, and what was sent behind it. Only once all is settled. The file stays open: it
        may have no name any more."""
        self._drop_stream()
        self.failed = None
        self.ended = False
        self.position = self.acked
        self.last = b""
        self.half = 0

    def give_way(self) -> None:
        """What was read of an event that has not ended takes no memory any more. It is read again once there is more
        of it, or the file ends. Only once all is settled."""
        self._drop_stream()
        self.half = self.position - self.acked
        self.position = self.acked
        self.last = b""

    def let_go(self) -> None:
        """Closes it. What was read of an event that had not ended is read again once there is more of it."""
        self._drop_stream()
        if self.settled and not self.ended:
            self.give_way()
        if self.file is not None:
            self.head = self.file.head
            self.file.close()
            self.file = None

    def _drop_stream(self) -> None:
        if self.stream is not None and not self.ended:
            self.stream.abandon()
        self.stream = None

    def _mark(self, progress: Callable[["FollowedFile"], None], tail: bytes | None) -> None:
        assert self.stream is not None
        fed = _Fed(None if tail is None else self.position, tail or b"")
        self._fed.append(fed)
        self.stream.mark(partial(self._settled, fed, progress))

    def _settled(self, fed: _Fed, progress: Callable[["FollowedFile"], None], marked: Marked) -> None:
        """In any order; what counts is how far all is settled from the beginning on."""
        fed.marked = marked
        while self._fed and (first := self._fed[0].marked) is not None:
            fed = self._fed.popleft()
            self.failed = self.failed or first.cause
            if self.failed is None:
                if fed.end is not None and fed.end - first.unended != self.acked:
                    self.acked = fed.end - first.unended
                    before = fed.tail[: max(0, len(fed.tail) - first.unended)][-LAST_BYTES:]
                    self.tail = Head(len(before), crc32c(before)) if before else Head()
                    if len(before) == LAST_BYTES:
                        self.earlier.append((self.acked, self.tail.crc))
                self.backoff.reset()
        if self.failed is None or not self._fed:
            progress(self)
