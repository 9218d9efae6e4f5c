"""Makes a log send one sink again what the log still has, because the sink's receiver has lost it.
The log must not be in use.

The cursor goes back. The marks keep what every other sink has acked. The marks are written first: beside the old
cursor they say no more than it knows.
"""

from collections.abc import Iterator, Mapping, Sequence

from walflow import world
from walflow.disk import Disk
from walflow.wal.chunk import Chunk
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.format import SLOT, Slot, pack_slot
from walflow.wal.mark_file import MAGIC, NAME
from walflow.wal.slot_file import SlotFile
from walflow.wal.tools.inspect import View

Ranges = Sequence[tuple[int, int]]


def planned(view: View, sink: str, above: int) -> Ranges:
    """The positions that the sink has acked and that it gets again, both ends included.
    Those up to `above` are not sent."""
    again: list[tuple[int, int]] = []
    for chunk, unacked in _unacked(view, sink):
        again += Acked(0, unacked).missing(max(chunk.first, above + 1), chunk.last)
    return again


def to_send(view: View, sink: str, again: Ranges) -> Mapping[int, Ranges]:
    """By term, what the sink gets after that."""
    rewound = Acked(0, again)
    sent: dict[int, list[tuple[int, int]]] = {}
    for chunk, unacked in _unacked(view, sink):
        lacking = Acked(0, rewound.missing(chunk.first, chunk.last)) if again else None
        back = lacking.missing(chunk.first, chunk.last) if lacking is not None else []
        sent[chunk.salt] = [*sent.get(chunk.salt, ()), *unacked, *back]
    return sent


def rewind(view: View, sink: str, again: Ranges, disk: Disk | None = None) -> None:
    """Raises DiskFull or FailStop."""
    if not again:
        return
    directory = Directory(view.directory.path, disk or world.disk())
    common = view.found.acked
    file = SlotFile(directory, view.found.uuid, NAME, MAGIC)
    try:
        stored = file.read()
        if stored:
            kept = {name: _both(mark, common) for name, mark in stored.items()}
            kept[sink] = _without(kept.get(sink, common), again)
            file.save(kept).flush()
    finally:
        file.close()
    _write_cursor(directory, view, _without(common, again))


def _unacked(view: View, sink: str) -> Iterator[tuple[Chunk, Ranges]]:
    mark = view.marks.get(sink)
    acked = view.found.acked if mark is None else _both(mark, view.found.acked)
    for chunk in view.chunks:
        if chunk.last >= chunk.first:
            yield chunk, acked.missing(chunk.first, chunk.last)


def _both(one: Acked, other: Acked) -> Acked:
    both = Acked(one.low, one.ranges)
    for part in ((1, other.low), *other.ranges):
        both.add(*part)
    return both


def _without(acked: Acked, again: Ranges) -> Acked:
    """What no file of the log has stays acked: nothing could be sent of it."""
    lacking = Acked(0, again)
    return Acked(0, [part for low, high in ((1, acked.low), *acked.ranges) for part in lacking.missing(low, high)])


def _write_cursor(directory: Directory, view: View, acked: Acked) -> None:
    newest = max((slot for slot in view.slots if slot is not None), default=Slot(0, 0, 0))
    durable = max(newest.durable, newest.low)
    fd = directory.disk.open(directory.file("cursor"), create=True)
    try:
        for number in (1, 2):
            slot = newest._replace(
                generation=newest.generation + number, low=acked.low, durable=durable, ranges=acked.ranges
            )
            directory.write("cursor", fd, [pack_slot(view.found.uuid, slot)], slot.generation % 2 * SLOT)
            directory.sync("cursor", fd)
    finally:
        directory.disk.close(fd)
