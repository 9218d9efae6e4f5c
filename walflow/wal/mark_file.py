"""The marks of a log with several lanes, on disk, in a file of their own: `marks`.

The cursor says what all lanes have acked, and what may be deleted goes by the cursor alone. What this file says beyond it
only prevents repeats. So it may be lost or be old: then a lane that was ahead of the others gets events again, and no lane
misses one. An older walflow knows nothing of the file and may use the log.

It must never say too much, because what a lane has acked is not sent to it. So it is written after a cursor that says that
these positions are durable: a position that recovery gives to another event is never among them. A slot that says more
than the cursor knows is wiped, and the older one counts: files of the log were taken away, or the newer slot of the cursor
is gone.
"""

from collections.abc import Sequence
from typing import Final

from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.slot_file import SlotFile, SlotSave, Stored

NAME: Final = "marks"
MAGIC: Final = b"WALFMARK"


def is_known(stored: Stored, known: int) -> bool:
    """Whether the cursor knows all positions of these marks, which says that those up to `known` are durable."""
    return all(mark.last <= known for mark in stored.values())


class MarkFile:
    """`stored`: what it said when the log was opened, by lane."""

    def __init__(self, directory: Directory, uuid: bytes) -> None:
        self.stored: Stored = {}
        self._file = SlotFile(directory, uuid, NAME, MAGIC)
        self._said = 0  # changes of the marks that were saved

    def read(self, known: int) -> None:
        """`known`: the cursor says that positions up to this one are durable."""
        self.stored = self._file.read(lambda stored: is_known(stored, known))

    @property
    def missing(self) -> bool:
        return self._file.missing

    def save(self, names: Sequence[str], marks: Sequence[Acked], changes: int) -> SlotSave | None:
        """None: nothing has changed, and there is a file. `changes`: how often the marks have."""
        if changes == self._said and not self.missing:
            return None

        def stored() -> None:
            self._said = changes

        return self._file.save(dict(zip(names, marks, strict=True)), stored)

    def close(self) -> None:
        self._file.close()
