"""What a thread does for the follower: all that may block."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from connectors.file.follow.compressed_file import InflatedFile
from connectors.file.follow.copies import Originals, is_intact
from connectors.file.follow.files_found import FilesNow, Identity, compare, find_again, scan
from connectors.file.follow.followed import FollowedFile, open_file
from connectors.file.follow.plain_file import Elsewhere, GrowingFile, Rewritten, TooShort
from connectors.file.follow.sent import Sent, SentOffsets, after
from connectors.file.follow.walk import walk
from walflow import Scheduler

READ_BYTES: Final = (
    252 << 10
)  # a block of 256 KiB has room for it, and for the line that the read before broke off in
BATCH_READS: Final = 8  # in one job, of one file or of several
BATCH_BYTES: Final = BATCH_READS * READ_BYTES

T = TypeVar("T")


class Jobs:
    """What may block, on the scheduler's thread. A cancelled caller waits for its job: it has descriptors in use. A
    job that may be long looks whether it was `cancelled`, and ends."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.cancelled = False

    async def run(self, job: Callable[[], T]) -> T:
        result: list[T] = []
        raised: list[BaseException] = []
        ended = asyncio.Event()

        def done(error: BaseException | None) -> None:
            if error is not None:
                raised.append(error)
            ended.set()

        self._scheduler.submit(lambda: result.append(job()), done)
        try:
            await ended.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            await ended.wait()
            raise
        if raised:
            raise raised[0]
        return result[0]


class FileRead(NamedTuple):
    """What one file gave. `ended`: it has no more now; `damage`: because it is damaged there. `trouble`: it could not
    be read. `rewritten`: it is not what it was; with `ends_at` because it ends there. `originals`: what it may be a
    copy of, so it waits; `cut`: those of them that were cut meanwhile."""

    file: FollowedFile
    parts: Sequence[bytes] = ()
    ended: bool = False
    trouble: str = ""
    rewritten: bool = False
    ends_at: int | None = None
    damage: str = ""
    originals: Sequence[FollowedFile] = ()
    cut: Sequence[FollowedFile] = ()


def read_some(files: Sequence[FollowedFile], known: Iterable[FollowedFile], offsets: SentOffsets) -> list[FileRead]:
    """In a thread, BATCH_BYTES at most. Opens those that are not open. `known`: what new ones may be copies of."""
    originals = Originals(known)
    each_may = max(1, BATCH_READS // max(1, len(files)))
    left = BATCH_READS
    reads: list[FileRead] = []
    for file in files:
        if left <= 0:
            break
        read = _read(file, each_may, originals)
        left -= len(read.parts)
        if read.parts and isinstance(file.file, GrowingFile):
            try:
                _note(read, file.file, offsets)
            except OSError as error:  # whether it was sent before is not known, so it is read again
                read = FileRead(file, trouble=error.strerror or str(error))
        reads.append(read)
    return reads


def _note(read: FileRead, file: GrowingFile, offsets: SentOffsets) -> None:
    """Notes what was read, before any of it is sent. Raises OSError."""
    each = read.file
    sent = after(each.sent, file, each.last, each.position, read.parts, sound=not (read.rewritten or read.trouble))
    if sent != each.sent:
        try:
            each.slot = offsets.write(each.slot, each.identity, sent)
        except OSError:
            sent = sent._replace(name=Sent.nothing().name)  # after a crash it is not known how far that one went
        each.sent = sent


def note_cuts(cuts: Sequence[tuple[FollowedFile, int]], offsets: SentOffsets) -> None:
    """In a thread. Where events end for lack of more lines, before they are sent."""
    for each, offset in cuts:
        sent = each.sent._replace(cut=offset)
        try:
            each.slot = offsets.write(each.slot, each.identity, sent)
        except OSError:
            sent = sent._replace(name=Sent.nothing().name)  # after a crash it is not known
        each.sent = sent


def _read(each: FollowedFile, most: int, originals: Originals | None) -> FileRead:
    """Without `originals` it is not looked whether it is a copy, and nothing is read."""
    parts: list[bytes] = []
    try:
        if each.file is None:
            each.file = open_file(each)
        elif each.file.position != each.position:
            each.file.seek(each.position, each.before)
        if isinstance(each.file, InflatedFile) and (each.untried is None or not each.file.ready()):
            return FileRead(each)
        if isinstance(each.file, GrowingFile) and each.untried is None:
            if originals is None or not each.file.size():
                return FileRead(each, ended=True)
            if alike := originals.of(each, each.file):
                return FileRead(each, originals=alike, cut=[one for one in alike if not is_intact(one)])
            each.untried = []
        if each.covered:
            return FileRead(each, ended=True)
        if not each.last:
            each.last = each.file.last
        while len(parts) < most:
            data = each.file.read(READ_BYTES)
            if data:
                parts.append(data)
            if len(data) < READ_BYTES:
                break
        each.head = each.file.head
        ended = not parts or len(parts[-1]) < READ_BYTES
        return FileRead(each, parts, ended, damage=each.file.damage if isinstance(each.file, InflatedFile) else "")
    except TooShort as error:
        return FileRead(each, rewritten=True, ends_at=error.length)
    except Rewritten:
        return FileRead(each, parts, rewritten=True)
    except (Elsewhere, FileNotFoundError):
        return FileRead(each, trouble="gone")
    except OSError as error:
        return FileRead(each, parts, trouble=error.strerror or str(error))


def open_all(files: Iterable[FollowedFile]) -> list[FileRead]:
    """In a thread. An open file can be read to its end, also if its name is changed or removed."""
    return [_read(each, 0, None) for each in files]


class Look(NamedTuple):
    """`sizes`: of open files that no name leads to. `moved`: where files are that have gone from their names."""

    scan: FilesNow
    sizes: dict[Identity, int]
    moved: dict[Identity, str]


def look(pattern: str, known: dict[Identity, FollowedFile], cancelled: Callable[[], bool]) -> Look:
    """Looks for files. Runs on a thread."""
    seen = scan(pattern, (each.path for each in known.values()), partial(walk, cancelled=cancelled))
    if cancelled():
        return Look(seen, {}, {})
    gone = [known[identity] for identity in compare(known, seen.files).gone]
    sizes = {each.identity: each.file.size() for each in gone if each.file is not None}
    sought = [each for each in gone if each.gone_since is None or (each.file is None and not each.searched)]
    moved = find_again({each.identity: each.path for each in sought}) if sought else {}
    return Look(seen, sizes, {each: path for each, path in moved.items() if _is_at(known[each], path)})


def _is_at(each: FollowedFile, path: str) -> bool:
    """Another file may have its inode, under a name that nobody wants to be read."""
    if each.file is not None:
        return True
    try:
        open_file(each, path).close()
    except (OSError, Elsewhere, Rewritten):
        return False
    return True
