"""Whether a new file is a copy of one that is followed: `copytruncate` copies a file, and then cuts it.

It is if it begins alike, and has the same bytes before the place up to which the other one is read. While the other
one has these bytes as well, the new file waits: it may be a copy that is written yet, or just another file. Once the
other one is cut, the copy takes its place, as if that one had been renamed: what was not read yet is read from the
copy. Where the other one is not cut, the new file is read from its beginning: lines that come twice are better than
lines that are missing.

A file of which less than 1 KiB is there to compare is a copy only if its name begins as the other one's: `app.log.1`
of `app.log`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from connectors.file.checksum import crc32c
from connectors.file.follow.followed import TAIL_BYTES, FollowedFile, open_file
from connectors.file.follow.plain_file import HEAD_BYTES, LAST_BYTES, Elsewhere, GrowingFile, Head, Rewritten
from connectors.file.follow.same_file import Guess
from connectors.file.follow.sent import NO_SLOT, Sent, SentOffsets, is_there

NO_GUESS: Final = Guess(0, Head())


class Originals:
    """What new files may be copies of, among those that are followed. It blocks: for a thread."""

    def __init__(self, known: Iterable[FollowedFile]) -> None:
        self._known = known
        self._read: tuple[dict[int, list[FollowedFile]], dict[str, FollowedFile]] | None = None

    def of(self, new: FollowedFile, file: GrowingFile) -> list[FollowedFile]:
        """Raises OSError, and Rewritten where the new file does not begin as before."""
        file.look_at_head()
        return [each for each in self._alike(new, file) if each.path != new.path and _may_be_copy(file, each)]

    def _alike(self, new: FollowedFile, file: GrowingFile) -> Iterator[FollowedFile]:
        if self._read is None:
            self._read = _by_head_and_name(self._known)
        by_head, by_name = self._read
        if file.head.length == HEAD_BYTES:
            yield from by_head.get(file.head.crc, ())
        for length in range(1, len(new.path)):
            each = by_name.get(new.path[:length])
            if (
                each is not None
                and not (file.head.length == HEAD_BYTES == each.head.length)
                and _begins_alike(file, each)
            ):
                yield each


def _by_head_and_name(known: Iterable[FollowedFile]) -> tuple[dict[int, list[FollowedFile]], dict[str, FollowedFile]]:
    by_head: dict[int, list[FollowedFile]] = {}
    by_name: dict[str, FollowedFile] = {}
    for each in known:
        if not each.position or each.compressed:
            continue
        by_name[each.path] = each
        if each.head.length == HEAD_BYTES:
            by_head.setdefault(each.head.crc, []).append(each)
    for each in [each for each in by_name.values() if each.moved_from is not None]:
        by_name.setdefault(each.moved_from or "", each)  # copied, cut and renamed between two looks
    return by_head, by_name


def _begins_alike(copy: GrowingFile, original: FollowedFile) -> bool:
    """Whether copy and original have the same bytes, as far as both go."""
    length, crc = original.head
    if len(copy.first) >= length:
        return length > 0 and crc32c(copy.first[:length]) == crc
    return isinstance(original.file, GrowingFile) and original.file.first.startswith(copy.first)


def _may_be_copy(copy: GrowingFile, original: FollowedFile) -> bool:
    """Where it begins alike. A shorter one may be written yet, if it is the same as far as it goes."""
    size = copy.size()
    if size >= original.position:
        return _has(copy, Guess(original.position, original.before))
    if original.cut:
        return True
    length = min(TAIL_BYTES, size)
    try:
        file = original.file or open_file(original)
        try:
            assert isinstance(file, GrowingFile)
            same = file.peek(length, size - length) == copy.peek(length, size - length)
        finally:
            if file is not original.file:
                file.close()
    except Rewritten:
        return True
    except (Elsewhere, FileNotFoundError):
        return False
    except OSError:
        return True  # it waits, and is looked into again
    return same or not is_intact(original)


def _has(file: GrowingFile, guess: Guess) -> bool:
    offset, tail, _ = guess
    return 0 < tail.length <= offset <= file.size() and tail.ends(file.peek(tail.length, offset - tail.length))


def is_intact(each: FollowedFile) -> bool:
    """Whether what was read of it is in it. What cannot be read counts as whole. It blocks."""
    try:
        if each.cut:
            return False
        if isinstance(each.file, GrowingFile):
            return not each.before.length or _has(each.file, Guess(each.position, each.before))
        open_file(each).close()
    except Rewritten:
        return False
    except (Elsewhere, OSError):
        pass
    return True


class CutFile(NamedTuple):
    """`anew`: the file that has its place. `patient`: what cannot be read now may be the copy. `copy`: one that has
    what was read of it, and more; with `ends_at` all that is in the copy was read. `unsettled`: there is such a short
    one, and what was sent has no outcome yet, or one that cannot be read."""

    file: FollowedFile
    anew: FollowedFile
    patient: bool = False
    copy: FollowedFile | None = None
    ends_at: Guess | None = None
    unsettled: bool = False


def find_copies(cut: Sequence[CutFile], new: Sequence[FollowedFile], offsets: SentOffsets) -> list[CutFile]:
    """In a thread. Files that it has opened stay open. The copy may have got the inode of another one that was
    followed: then that one was cut, too, as it seems, and the copy is what has its place."""
    left = [*new, *(each.anew for each in cut)]
    found: list[CutFile] = []
    for each in cut:
        result = _find_copy(each, left, offsets)
        if result.copy is not None:
            left.remove(result.copy)
            for other in cut:
                if other.anew is result.copy:
                    other.file.slot = NO_SLOT  # the copy's by now
        found.append(result)
    return found


def _find_copy(cut: CutFile, new: Sequence[FollowedFile], offsets: SentOffsets) -> CutFile:
    each = cut.file
    short: tuple[FollowedFile, GrowingFile] | None = None
    unread = False
    for copy in new:
        try:
            copy.file = file = copy.file or open_file(copy)
            if not isinstance(file, GrowingFile) or each not in Originals([each]).of(copy, file):
                continue
            if file.size() >= each.position:
                file.seek(each.position, each.before)
                _carry(cut, each.sent, copy, file, offsets)
                return cut._replace(copy=copy)
            if _was_read(file, each, copy):
                short = short or (copy, file)
        except (FileNotFoundError, Elsewhere, Rewritten):
            continue  # it waits, as before, and is looked into again
        except OSError:
            unread = True
    if unread and cut.patient:
        return cut._replace(unsettled=True)
    if short is None:
        return cut
    if not each.settled or each.failed is not None:  # what failed is read again, from the copy
        return cut._replace(unsettled=True)
    try:
        return _all_read(cut, *short, offsets)
    except OSError:
        return cut._replace(unsettled=True)


def _was_read(file: GrowingFile, original: FollowedFile, copy: FollowedFile) -> bool:
    """Where it ends before the place up to which the original one was read: that had more by the time it was cut."""
    size = file.size()
    if (
        isinstance(original.file, GrowingFile)
        and original.file.first[:size] == file.first
        and size == len(file.first)
    ):
        return True
    earlier = [Guess(offset, Head(LAST_BYTES, crc)) for offset, crc in original.earlier]
    known = [Guess(original.acked, original.tail), copy.originals.get(original, NO_GUESS), *earlier]
    return any(_has(file, guess) for guess in known)


def _all_read(cut: CutFile, copy: FollowedFile, file: GrowingFile, offsets: SentOffsets) -> CutFile:
    size, sent = file.size(), cut.file.sent
    file.seek(size, Head())
    if sent.offset:
        tail = file.peek(min(TAIL_BYTES, size), max(0, size - TAIL_BYTES))
        sent = sent._replace(offset=size, tail=Head(len(tail), crc32c(tail)), head=file.head)
    _carry(cut, sent, copy, file, offsets)
    return cut._replace(copy=copy, ends_at=Guess(size, Head(len(file.last), crc32c(file.last))))


def _carry(cut: CutFile, sent: Sent, copy: FollowedFile, file: GrowingFile, offsets: SentOffsets) -> None:
    """What was sent of it was sent of the copy: that is on disk before anything of the file in its place is sent.
    After a crash it may be on disk from before, and what is there for its inode is of the file in its place."""
    each, anew = cut.file, cut.anew
    slot, before = each.slot, each.sent
    if copy.sent.offset and is_there(copy.sent, file):
        each.slot, each.sent = copy.slot, copy.sent
        anew.slot, anew.sent = slot, before
        return
    if sent.offset and not is_there(sent, file):
        each.slot, each.sent = copy.slot, Sent.nothing()
        anew.slot, anew.sent = slot, before
        return
    anew.slot, anew.sent = slot, Sent.nothing()
    each.slot = copy.slot
    if not sent.offset:
        return
    try:
        if each.slot < 0:
            each.slot, anew.slot = slot, NO_SLOT
        each.slot = offsets.write(each.slot, copy.identity, sent)
        each.sent = sent
    except OSError:
        each.sent = Sent.nothing()  # after a crash it is not known how far that one went


def find_sent(
    known: Iterable[FollowedFile], new: Sequence[FollowedFile], offsets: SentOffsets, *, patient: bool
) -> list[FollowedFile]:
    """In a thread, in a start. What was sent of a file before a crash may be in a copy by now, though the checkpoint
    knows neither the copy nor what the file had. Then the copy is read by the name of what was sent. `patient`: of
    what cannot be read nothing is decided. Returns the files for which that is so."""
    left = [*new]
    undecided: list[FollowedFile] = []
    for each in known:
        if each.sent.offset and not each.compressed and left:
            try:
                if _still_has(each):
                    continue
                copy = next((copy for copy in left if _was_sent(copy, each)), None)
            except OSError:
                if patient:
                    undecided.append(each)
                continue
            if copy is None:
                continue
            left.remove(copy)
            try:
                copy.slot = offsets.write(copy.slot, copy.identity, each.sent)
            except OSError:
                continue
            copy.sent, each.sent = each.sent, Sent.nothing()
    return undecided


def _still_has(each: FollowedFile) -> bool:
    """Whatever the checkpoint says of it. Raises OSError."""
    try:
        file = GrowingFile.open(each.path, each.identity, 0, Head(), Head())
    except (Elsewhere, FileNotFoundError):
        return True
    try:
        return is_there(each.sent, file)
    finally:
        file.close()


def _was_sent(copy: FollowedFile, each: FollowedFile) -> bool:
    """Raises OSError."""
    if each.sent.offset < HEAD_BYTES and not copy.path.startswith(each.path):
        return False
    try:
        copy.file = file = copy.file or open_file(copy)
        if (
            copy.path == each.path
            or not isinstance(file, GrowingFile)
            or (copy.sent.offset and is_there(copy.sent, file))
        ):
            return False
        return is_there(each.sent, file)
    except (FileNotFoundError, Elsewhere, Rewritten):
        return False
