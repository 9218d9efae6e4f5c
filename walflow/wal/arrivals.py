"""What a log has of the logs upstream: the positions that its events have there. So what comes again is not appended
again.

The tag of a record says where its events came from, so this is durable with the record itself. A start reads it back
from the records (walflow.delivery.known_arrivals). What it says of chunks that are deleted is in a file of its own,
`arrivals`, which is written and synced before they are. The file says up to which position of this log it covers the
records, so that a start reads the newer ones only.

To know too little means that an event is appended twice. To know too much would lose an event. So:

- A position counts together with its *term*, a random number of the chunk that holds it upstream. A position that is
  given to another event, after damage or in a directory that was restored from a copy, has another term.
- The file is written after a cursor that calls durable what it covers. A slot that covers more than the cursor knows
  is wiped, and the older one counts: files of this log were taken away, or the newer slot of the cursor is gone.
- If a start finds that this log has lost events, only what its records say counts.
- What upstream will not send again is forgotten.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from walflow.positions import PositionRun, WrittenPositions
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.slot_file import SlotFile, SlotSave, Stored

NAME: Final = "arrivals"
MAGIC: Final = b"WALFCAME"
COVERED: Final = ""  # the name under which the slot says what it covers
MOST_LOGS: Final = 1024  # and followed files
MOST_TERMS: Final = 512  # of a log: those of its chunks whose acks are not on disk there
STORED: Final = 800  # terms that fit a slot
AHEAD: Final = 16 << 20  # bytes of records that the file may not cover: so much a start reads


class Provenance(NamedTuple):
    """Positions `first` to `last` of a log upstream, both included, of one of its chunks. Those of them that are not
    in the record came to nothing on the way."""

    log: str
    term: int
    first: int
    last: int


def _nothing() -> None: ...


def _covered(stored: Stored) -> int:
    return stored[COVERED].low if COVERED in stored else 0


class UpstreamPositions:
    """`covered`: the file covers records up to this position.
    `before_save`: called when the file is about to be written."""

    def __init__(self, directory: Directory, uuid: bytes) -> None:
        self.covered = 0
        self._file = SlotFile(directory, uuid, NAME, MAGIC)
        self._positions = WrittenPositions()  # by log and term
        self._terms: dict[str, dict[int, str]] = {}  # by log, the one that came last at the end, and their keys
        self._below: dict[str, int] = {}  # by log: what is forgotten
        self._uncovered = 0  # bytes
        self.before_save: Callable[[], None] = _nothing

    def __repr__(self) -> str:
        return (
            f"<UpstreamPositions of {len(self._terms)} logs, {self._positions.total()} positions, "
            f"covers {self.covered}>"
        )

    @property
    def total(self) -> int:
        """The number of positions."""
        return self._positions.total()

    @property
    def missing(self) -> bool:
        return self._file.missing

    def read(self, known: int) -> None:
        """`known`: the cursor says that positions up to this one are durable."""
        stored = dict(self._file.read(lambda stored: _covered(stored) <= known))
        self.covered = _covered(stored)
        stored.pop(COVERED, None)
        for name, positions in stored.items():
            log, _, term = name.partition("/")
            key = self._key(log, int(term, 16))
            if positions.low:
                self._positions.add(key, 1, positions.low)
            for first, last in positions.ranges:
                self._positions.add(key, first, last)

    def add(self, came: Provenance) -> None:
        """A record is durable whose events came from there."""
        self._positions.add(self._key(came.log, came.term), came.first, came.last)

    def runs(self, came: Provenance) -> Sequence[PositionRun]:
        """These positions, by whether this log has them."""
        return self._positions.runs(f"{came.log}/{came.term:08x}", came.first, came.last)

    def settled(self, log: str, term: int, last: int) -> None:
        """All events up to this position have an outcome, also those that came to nothing on the way here."""
        if log in self._terms:
            self._positions.close_gaps(f"{log}/{term:08x}", last)

    def forget_below(self, log: str, position: int) -> None:
        """They will not come again, for upstream their outcome is on disk."""
        if self._below.get(log, 0) >= position or log not in self._terms:
            return
        self._below[log] = position
        terms = self._terms[log]
        for term, key in list(terms.items()):
            self._positions.forget_below(key, position)
            if key not in self._positions:
                del terms[term]

    def forget(self) -> None:
        """Events of this log were lost, perhaps of those that the file covers: only what the records say counts."""
        self.covered = 0
        self._positions = WrittenPositions()
        self._terms.clear()
        self._below.clear()

    def grown(self, size: int) -> None:
        """Records of so many bytes were committed."""
        self._uncovered += size

    def save(self, durable: int, *, wanted: bool) -> SlotSave | None:
        """What is to be written before chunks are deleted, and after a cursor that calls `durable` durable. None:
        nothing is to be written now. `wanted`: chunks are to be deleted."""
        if self._file.missing or not (wanted or self._uncovered >= AHEAD):
            return None
        self.before_save()
        self._uncovered = 0
        self.covered = durable
        known = self._positions.dump()
        newest = [key for terms in self._terms.values() for key in terms.values() if key in known][-STORED:]
        return self._file.save({COVERED: Acked(durable), **{key: Acked(0, known[key]) for key in newest}})

    def make(self) -> None:
        """The file, if there is none, so that it can be written on a full disk. Raises DiskFull or FailStop."""
        if self._file.missing:
            self._file.save({}).flush()

    def cover(self, durable: int) -> None:
        """The file says that it covers the records up to there. What it does not know of them may come again. Raises
        DiskFull or FailStop."""
        save = self.save(durable, wanted=True)
        if save is not None:
            save.flush()

    def close(self) -> None:
        self._file.close()

    def _key(self, log: str, term: int) -> str:
        terms = self._terms.pop(log, {})
        self._terms[log] = terms
        key = terms.get(term)
        if key is None:
            terms[term] = key = f"{log}/{term:08x}"
            self._shed(terms)
        return key

    def _shed(self, terms: dict[int, str]) -> None:
        """Forgets what came longest ago."""
        if len(terms) > MOST_TERMS:
            self._positions.forget(terms.pop(next(iter(terms))))
        if len(self._terms) > MOST_LOGS:
            log = next(iter(self._terms))
            self._below.pop(log, None)
            for key in self._terms.pop(log).values():
                self._positions.forget(key)
