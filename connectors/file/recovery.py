"""What to do with the end of a file that is appended to, from what its sidecar says and what the file is now.

Only bytes that are ours by proof are cut: those that a batch was writing when the process was killed, by the
checksums of its pieces. What is behind the known part and proves nothing is either kept where it is (another
program's) or copied to a file of its own before it is cut (after a power cut, or behind half a batch).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from connectors.file.checksum import crc32c
from connectors.file.sidecar import State, WriteIntent
from walflow import WrittenPositions

PIECE: Final = 4096  # a page: a killed write ends at one, nearly always
PIECES: Final = 256  # and one more where the first begins inside a page: what a slot has room for
END: Final = 4096
HEAD: Final = 32
LOOK: Final = 1 << 20  # so much may be appended by others between our look at the size and our write
CANDIDATES: Final = 10_000  # lines that begin as the batch does

Read = Callable[[int, int], bytes]  # size, offset


class FileNow(NamedTuple):
    """The file as recovery finds it."""

    boot: str
    identity: tuple[int, int]
    size: int


@dataclass(frozen=True, slots=True)
class FoundFile:
    """The file is to end at `size`: behind it, everything from `aside` on is copied away first (None: nothing is
    worth it)."""

    size: int
    aside: int | None = None
    ranges: WrittenPositions = field(default_factory=WrittenPositions)
    note: str = ""


def judge(state: State | None, here: FileNow, read: Read) -> FoundFile:
    if state is None:
        return FoundFile(here.size)
    if not is_same_file(state, here):
        return FoundFile(here.size, ranges=WrittenPositions(state.ranges if state.moved else None))
    if here.size < state.size:
        return FoundFile(here.size, note=f"was cut from {state.size} to {here.size} bytes by another process")
    if end_mark(read, state.size, state.end[0]) != state.end:
        return FoundFile(here.size, note=f"was changed before byte {state.size} by another process")
    power_cut = _power_was_cut(state, here)
    if power_cut and not state.synced:
        return FoundFile(here.size, note='may be damaged at its end: the machine stopped, and sync is "never"')
    return _judge_tail(state, here, power_cut, read)


def _judge_tail(state: State, here: FileNow, power_cut: bool, read: Read) -> FoundFile:
    size, ranges = state.size, WrittenPositions(state.ranges)
    if here.size == size:
        return FoundFile(size, ranges=ranges)
    if power_cut:
        return FoundFile(size, aside=size, ranges=ranges, note="was being written when the machine stopped")
    if state.clean or state.intent is None:
        return FoundFile(here.size, ranges=ranges, note=f"has bytes that another process appended behind byte {size}")
    intent = state.intent
    place = _find(intent, size, here.size, read)
    if place is None:
        return FoundFile(here.size, ranges=ranges, note=f"has bytes that another process appended behind byte {size}")
    start, proven = place
    if proven == intent.length:
        ranges.update(WrittenPositions(intent.adds))
        return FoundFile(here.size, ranges=ranges)
    if start + proven == here.size:
        return FoundFile(start, ranges=ranges)
    note = "ended in bytes that may be half a batch or another process's"
    return FoundFile(start, aside=start + proven, ranges=ranges, note=note)


def is_same_file(state: State, here: FileNow) -> bool:
    if state.boot == here.boot:
        return state.file == here.identity
    return state.file[1] == here.identity[1]  # device numbers are dealt out anew at each boot


def is_known_again(state: State, here: FileNow, read: Read, *, named_alike: bool) -> bool:
    """Under another name: by its number, which a new file may have got, and its content. Nothing else may be cut.

    Of a file that was empty a power cut leaves no content to know it by; then its name must begin as it did."""
    if not is_same_file(state, here) or here.size < state.size:
        return False
    if state.size > 0:
        return end_mark(read, state.size, state.end[0]) == state.end
    if here.size == 0 or (named_alike and _power_was_cut(state, here)):
        return True
    return (
        state.intent is not None and bool(state.intent.head) and _find(state.intent, 0, here.size, read) is not None
    )


def _power_was_cut(state: State, here: FileNow) -> bool:
    return not state.clean and (not here.boot or state.boot != here.boot)


def events_of(state: State) -> int:
    """How many events may be in the file and are not known to be acked by all logs."""
    known = WrittenPositions(state.ranges)
    if state.intent is not None:
        known.update(WrittenPositions(state.intent.adds))
    return known.total()


def _find(intent: WriteIntent, planned: int, size: int, read: Read) -> tuple[int, int] | None:
    """Where behind `planned` the batch begins, and how many bytes are proven to be its. None: nothing of it is there.

    A killed write ends at a page, nearly always, which proves it. So if the bytes at `planned` do not even begin as
    the batch does, it comes behind what other processes appended meanwhile, or it is not there.
    """
    proven = _proven(intent, planned, planned, size, read)
    if proven or not intent.head:
        return planned, proven
    window = read(min(size - planned, intent.length + LOOK), planned)
    first = next(_ends(planned, intent.length, intent.piece))
    torn: int | None = None
    for number, at in enumerate(_occurrences(intent.head, window)):
        proven = _proven(intent, planned, planned + at, size, read)
        if proven:
            return planned + at, proven
        if number == CANDIDATES:
            return planned, 0
        if torn is None and (at == 0 or planned + at + first > size):
            torn = planned + at  # less than a piece of it, or bytes that begin alike
    return None if torn is None else (torn, 0)


def _occurrences(head: bytes, data: bytes) -> Iterator[int]:
    """All occurrences, also one that the end of `data` cuts off."""
    at = data.find(head)
    while at >= 0:
        yield at
        at = data.find(head, at + 1)
    for at in range(max(0, len(data) - len(head) + 1), len(data)):
        if head.startswith(data[at:]):
            yield at


def _proven(intent: WriteIntent, planned: int, start: int, size: int, read: Read) -> int:
    """How many bytes from `start` on are those of the batch, which is cut into pieces as if it began at `planned`."""
    at = 0
    for number, end in enumerate(_ends(planned, intent.length, intent.piece)):
        if start + end > size:
            break
        checksum = int.from_bytes(intent.sums[4 * number :][:4], "little")
        if crc32c(read(end - at, start + at)) != checksum:
            break
        at = end
    return at


def intend(data: bytes, start: int, adds: WrittenPositions) -> WriteIntent:
    piece = PIECE
    while len(data) > piece * PIECES:
        piece *= 2
    at = 0
    sums: list[bytes] = []
    for end in _ends(start, len(data), piece):
        sums.append(crc32c(data[at:end]).to_bytes(4, "little"))
        at = end
    return WriteIntent(len(data), piece, b"".join(sums), adds.dump(), data[:HEAD])


def _ends(start: int, length: int, piece: int) -> Iterator[int]:
    """The ends of a batch's pieces, relative to its start."""
    end = piece - start % piece
    while end < length:
        yield end
        end += piece
    yield length


def end_mark(read: Read, size: int, length: int = END) -> tuple[int, int]:
    length = min(length, size)
    return length, crc32c(read(length, size - length))
