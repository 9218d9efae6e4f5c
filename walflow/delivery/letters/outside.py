"""The letters of a log for the command line. They are read beside the process that uses the log: nothing is written
and no lock is taken. They are dropped where no process has them."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from msgspec import MsgspecError

from walflow.delivery.letters.box import DIRECTORY
from walflow.delivery.letters.letter import LETTER, POSITION, Letter
from walflow.delivery.letters.store import BY_HAND
from walflow.delivery.tag import Tags
from walflow.errors import WalflowError
from walflow.event import Codec, codec_at
from walflow.positions import Range
from walflow.wal import Gap, Log, LogOptions, Record
from walflow.wal.tools.inspect import NoLogYet, acked_by_cursor, look, records
from walflow.world import disk


class SeenLetter(NamedTuple):
    """`goes`: it is on its way to the sink. `position`: in its log; None: it was made of several events. `payload`:
    as the sink had got it."""

    number: int
    sink: str
    letter: Letter
    goes: bool
    position: int | None
    codec: Codec
    payload: bytes
    meta: Mapping[str, object]

    def value(self) -> object:
        """Raises WalflowError and ValueError."""
        return codec_at(self.codec, self.letter.ingest_ns).decode(self.payload)


class LetterGap(NamedTuple):
    """Letters that cannot be read."""

    sink: str
    first: int
    last: int
    reason: str


def sinks_with_letters(path: str) -> Mapping[str, str]:
    """The directories of letters, by sink. `path`: of the log."""
    folder = os.path.join(path, DIRECTORY)
    try:
        names = disk().names(folder)
    except FileNotFoundError:
        return {}
    return {unquote(name): os.path.join(folder, name) for name in names}


def drop_letters(path: str, ranges: Sequence[Range]) -> int:
    """Drops those of these numbers that are there, and returns how many they were. Raises DirectoryLocked if a daemon
    has them, Unusable if their log does not open."""
    log = Log(LogOptions(path))
    try:
        found = [part for one in ranges for part in log.unacked(one[0], min(one[1], log.durable))]
        for one in found:
            log.trail.gone("", BY_HAND, *one)
            log.ack(*one)
    finally:
        log.close()
    if log.failure is not None:
        raise log.failure
    return sum(last - first + 1 for first, last in found)


def seen_letters(sink: str, path: str) -> Iterator[SeenLetter | LetterGap]:
    """By number. `path`: their directory. Raises Unusable."""
    try:
        view = look(path)
    except NoLogYet:  # the directory was made, and nothing in it: a crash, or a full disk
        return
    acked, tags = acked_by_cursor(view), Tags()
    first, last = acked.low + 1, view.found.durable
    for record in records(view, first, last):  # what goes again is no letter any more
        if isinstance(record, Record) and (letter := _letter(tags, record)) is not None:
            for one in letter.again_for:
                acked.add(*one)
    for record in records(view, first, last):
        if isinstance(record, Gap):
            for begin, end in acked.missing(record.first, record.last):
                yield LetterGap(sink, begin, end, record.reason)
            continue
        for begin, end in acked.missing(record.position, record.position + record.count - 1):
            try:
                yield from _of(sink, tags, record, begin, end)
            except (MsgspecError, WalflowError) as error:
                yield LetterGap(sink, begin, end, str(error))


def _letter(tags: Tags, record: Record) -> Letter | None:
    try:
        return Letter.of(tags.decode(record.tag).meta)
    except (MsgspecError, WalflowError):
        return None


def _of(sink: str, tags: Tags, record: Record, first: int, last: int) -> Iterator[SeenLetter]:
    tag = tags.decode(record.tag)
    letter = Letter.of(tag.meta)
    if letter is None:
        raise WalflowError("it is no letter")
    payloads = tag.framing.payloads(record.payload)
    for number in range(first, last + 1):
        at = number - record.position
        meta = {**tag.meta, **(tag.event_metas[at] if tag.event_metas is not None else {})}
        position = meta.get(POSITION)
        kept = {name: value for name, value in meta.items() if name not in (LETTER, POSITION)}
        yield SeenLetter(
            number,
            sink,
            letter,
            letter.goes,
            position if isinstance(position, int) else None,
            tag.codec,
            payloads[at],
            kept,
        )
