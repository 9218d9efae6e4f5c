"""The records of a log, and how many bytes are still to be delivered."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from walflow.errors import Unusable
from walflow.wal.cursor import Acked
from walflow.wal.format import CHUNK_START, Record
from walflow.wal.quarantine import Gap
from walflow.wal.tools.inspect.kept import reported
from walflow.wal.tools.inspect.view import TRIES, View, look
from walflow.wal.tools.inspect.walk import Read, outlines, unreported, walk

GONE: Final = "delivered and deleted while this was read"


def backlog_bytes(view: View) -> int:
    """Bytes of records whose events are not all acked, headers included."""
    size, acked = 0, view.found.acked
    for chunk in view.chunks:
        if acked.missing(chunk.first, chunk.last) == [(chunk.first, chunk.last)]:
            size += max(chunk.synced - CHUNK_START, 0)
        else:
            sizes = outlines(view.directory, chunk)
            size += sum(length for first, last, length in sizes if not acked.covers(first, last))
    return size


def records(view: View, first: int, last: int, read: Read = unreported) -> Iterator[Record | Gap]:
    """All records with a position from `first` to `last`, acked ones too, and a Gap for each part that cannot be
    read. A record that a running process deletes meanwhile is a Gap with the reason GONE."""
    before, behind = _outside(view, first, last)
    inside = (place.found for place in walk(view.directory, view.chunks, first, last, read))
    for found in chain(before, inside, behind):
        if isinstance(found, Gap) and view.holder and _gone(view, found):
            yield found._replace(file="", offset=0, size=0, reason=GONE)
        else:
            yield found


def _outside(view: View, first: int, last: int) -> tuple[list[Gap], list[Gap]]:
    """Lost positions below the first chunk and above the last one, which no walk through the chunks meets."""
    gaps = [gap for gap in view.found.recovery.gaps if gap.first <= last and gap.last >= first]
    if not view.chunks:
        return gaps, []
    begin, end = view.chunks[0].first, view.chunks[-1].last
    return [gap for gap in gaps if gap.last < begin], [gap for gap in gaps if gap.first > end]


def _gone(view: View, gap: Gap) -> bool:
    """Whether it was acked and deleted since the view was made. It looks several times, because each look may come in
    the middle of a deletion."""
    path = view.directory.path
    if any(first <= gap.last and last >= gap.first for first, last, _ in reported(path)):
        return False
    return any(_deleted(path, gap) for _ in range(TRIES))


def _deleted(path: str, gap: Gap) -> bool:
    try:
        view = look(path)
    except Unusable:
        return False
    held = any(chunk.first <= gap.last and chunk.last >= gap.first for chunk in view.chunks)
    return not held and view.found.acked.covers(gap.first, gap.last)


def acked_by_cursor(view: View) -> Acked:
    """As `view.found.acked`, without the lost positions that a start counts as acked once it has reported them."""
    slots = [slot for slot in view.slots if slot is not None]
    newest = max(slots, default=None)
    known = Acked(newest.low, newest.ranges) if newest is not None else Acked()
    unacked = view.found.acked.missing(1, view.found.durable)
    for gap in view.found.recovery.gaps:
        unacked += known.missing(gap.first, gap.last)
    acked, at = Acked(), 1
    for first, last in sorted(unacked):
        acked.add(at, first - 1)
        at = last + 1
    acked.add(at, view.found.durable)
    return acked
