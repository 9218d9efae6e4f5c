"""The marks of a log with several lanes, on disk, in a file of their own: `marks`.

The cursor says what all lanes have acked, and what may be deleted goes by the cursor alone. What this file says
beyond it only prevents repeats. So it may be lost or be old: then a lane that was ahead of the others gets events
again, and no lane misses one. An older walflow knows nothing of the file and may use the log.

It must never say too much, because what a lane has acked is not sent to it. So it is written after a cursor that says
that these positions are durable: a position that recovery gives to another event is never among them. A slot that
says more than the cursor knows is wiped, and the older one counts: files of the log were taken away, or the newer
slot of the cursor is gone.

What a lane has acked, each of its sinks has. So the file has a mark for each sink, by its name: other links may part
lanes or merge them, and each sink keeps what it has. The first version had a mark for each lane, by the names of all
its sinks ("near+far"). A lane that still has just these sinks uses it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.marks import common
from walflow.wal.slot_file import SlotFile, SlotSave, Stored

NAME: Final = "marks"
MAGIC: Final = b"WALFMARK"
BOTH: Final = "+"  # between the names of sinks, in the name of a lane


def is_known(stored: Stored, known: int) -> bool:
    """Whether the cursor knows all positions of these marks, which says that those up to `known` are durable."""
    return all(mark.last <= known for mark in stored.values())


class Sink:
    """One of a lane. `stored`: what it has acked, in another lane perhaps, which may be more than this lane has."""

    def __init__(self, name: str, stored: Acked | None) -> None:
        self.name = name
        self._stored = stored

    def mark(self, lane: Acked) -> Acked:
        """What it has acked, now that the lane has acked so much."""
        stored = self._stored
        if stored is None or not _adds(stored, lane):
            self._stored = None
            return lane
        mark = Acked(lane.low, lane.ranges)
        mark.add(1, stored.low)
        for one in stored.ranges:
            mark.add(*one)
        return mark


class MarkFile:
    """`stored`: what it said when the log was opened, by the name in the file."""

    def __init__(self, directory: Directory, uuid: bytes) -> None:
        self.stored: Stored = {}
        self._file = SlotFile(directory, uuid, NAME, MAGIC)
        self._lanes: Sequence[Sequence[Sink]] = ()
        self._said = 0  # changes of the marks that were saved

    def read(self, known: int) -> None:
        """`known`: the cursor says that positions up to this one are durable."""
        self.stored = self._file.read(lambda stored: is_known(stored, known))

    @property
    def missing(self) -> bool:
        return self._file.missing

    def part(self, lanes: Sequence[Sequence[str]], begins: Mapping[str, int] = {}) -> Sequence[Acked | None]:
        """What each lane begins with: what all of its sinks have. None: of one of them nothing is known. `begins`:
        of new sinks, the position up to which they want nothing."""
        self.stored = {**{_quoted(name): Acked(low) for name, low in begins.items()}, **self.stored}
        self._lanes = [[Sink(_quoted(name), self._known(name, sinks)) for name in sinks] for sinks in lanes]
        return [_begin([self._known(name, sinks) for name in sinks]) for sinks in lanes]

    def save(self, marks: Sequence[Acked], changes: int) -> SlotSave | None:
        """`marks`: of the lanes. None: nothing has changed, and there is a file.
        `changes`: how often the marks have."""
        if changes == self._said and not self.missing:
            return None

        def stored() -> None:
            self._said = changes

        of_sinks = {
            sink.name: sink.mark(own) for sinks, own in zip(self._lanes, marks, strict=True) for sink in sinks
        }
        return self._file.save(of_sinks, stored)

    def close(self) -> None:
        self._file.close()

    def _known(self, sink: str, lane: Sequence[str]) -> Acked | None:
        own = self.stored.get(_quoted(sink))
        return self.stored.get(BOTH.join(lane)) if own is None and len(lane) > 1 else own


def _begin(marks: Sequence[Acked | None]) -> Acked | None:
    known = [mark for mark in marks if mark is not None]
    return common(known) if len(known) == len(marks) else None


def _adds(stored: Acked, lane: Acked) -> bool:
    return any(lane.missing(*one) for one in ((1, stored.low), *stored.ranges))


def _quoted(name: str) -> str:
    """As a flow file writes it, if it could be taken for the name of a lane."""
    return f"`{name}`" if BOTH in name else name
