"""What a log knows of positions beside their events, in a file of its own: `trail`. For which positions a sink was
linked, which flow was running, and which positions no sink will get, and why.

It is written before a cursor that covers these positions. So a crash may leave a statement of an event that is
delivered all the same, and never an event that is gone without one. Delivery does not go by it: a log without the
file, or with a file that cannot be read, is as good. A full disk does not wait for it.

It is bounded. Where ranges are too many, the oldest of a statement become one, with the positions between them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from walflow.clock import Clocks
from walflow.errors import WalflowError
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.slot_file import SlotFile, SlotSave, Stored

NAME: Final = "trail"
MAGIC: Final = b"WALFTRAI"
OPEN: Final = (1 << 63) - 1  # the last position of what holds still
RANGES: Final = 1024  # in the file
NAME_BYTES: Final = 32 << 10  # of all statements
WORD: Final = 200  # characters of a name: longer ones are cut
SINK: Final = "sink"
FLOW: Final = "flow"
GONE: Final = "gone"
KINDS: Final = (SINK, FLOW, GONE)
UNSURE: Final = "or earlier"  # of a sink: the log is older than the file
DROPPED: Final = 'dropped: the log was full, with on_full = "drop_oldest"'
DAMAGED: Final = "damaged: kept in quarantine/"
SKIPPED: Final = "skipped by the operator"


class Statement(NamedTuple):
    """`what`: SINK, FLOW or GONE. `who`: the sink, the hash of the flow, or the node that gave the events up ("": the
    log itself). `more`: of a sink UNSURE or "", of a flow the version of walflow, of what is gone the reason."""

    what: str
    who: str
    more: str = ""


class ToldRanges(NamedTuple):
    """A statement, the positions that it is about, and when it was made first, in ns."""

    statement: Statement
    ranges: Sequence[tuple[int, int]]
    since_ns: int

    @property
    def holds(self) -> bool:
        """It is true of the next event as well."""
        return bool(self.ranges) and self.ranges[-1][1] == OPEN


class Trail:
    """`broken`: why the file cannot be read. Then it is left as it is, and nothing is written."""

    def __init__(self, directory: Directory, uuid: bytes, clock: Clocks) -> None:
        self._file = SlotFile(directory, uuid, NAME, MAGIC)
        self._clock = clock
        self._known: dict[Statement, Acked] = {}
        self._since: dict[Statement, int] = {}
        self._changes = self._said = 0
        self.broken = ""

    def __repr__(self) -> str:
        return f"<Trail of {len(self._known)} statements>"

    @property
    def missing(self) -> bool:
        return self._file.missing

    def read(self, durable: int) -> None:
        """Behind `durable`, positions are given to other events: of them nothing is known."""
        try:
            stored = self._file.read()
        except WalflowError as error:
            self.broken = str(error)
            return
        for statement, ranges, since_ns in tell(stored):
            left = [(min(first, durable + 1), last) for first, last in ranges if first <= durable or last == OPEN]
            if left:
                known = [(first, last if last == OPEN else min(last, durable)) for first, last in left]
                self._known[statement] = Acked(0, known)
                self._since[statement] = since_ns

    def told(self) -> list[ToldRanges]:
        return tell(self._stored())

    def linked(self, sinks: Iterable[str], first: Mapping[str, int], durable: int) -> None:
        """The sinks of this run. `first`: where those begin that were not linked before."""
        wanted = {name[:WORD]: first[name] for name in sinks}
        unsure = UNSURE if durable and not any(one.what == SINK for one in self._known) else ""
        for one in [one for one in self._known if one.what == SINK and self._holds(one)]:
            if wanted.pop(one.who, None) is None:
                self._end(one, durable)
        for name, position in wanted.items():
            self._add(Statement(SINK, name, unsure), position, OPEN)

    def runs(self, flow: str, version: str, durable: int) -> None:
        """The flow of this run."""
        now = Statement(FLOW, flow, version)
        for one in [one for one in self._known if one.what == FLOW and one != now and self._holds(one)]:
            self._end(one, durable)
        if now not in self._known or not self._holds(now):
            self._add(now, durable + 1, OPEN)

    def gone(self, who: str, reason: str, first: int, last: int) -> None:
        """No sink will get these, or `who` was a sink and will not, and it is no letter."""
        self._add(Statement(GONE, who[:WORD], reason), first, last)

    def rename(self, sink: str, new: str) -> None:
        """The sink has another name now."""
        for one in [one for one in self._known if one.what == SINK and one.who == sink[:WORD]]:
            other = one._replace(who=new[:WORD])
            self._known[other], self._since[other] = self._known.pop(one), self._since.pop(one)
            self._changes += 1

    def save(self) -> SlotSave | None:
        """None: nothing has changed."""
        changes = self._changes
        if changes == self._said or self.broken:
            return None

        def stored() -> None:
            self._said = changes

        return self._file.save(self._stored(), stored)

    def close(self) -> None:
        self._file.close()

    def _add(self, statement: Statement, first: int, last: int) -> None:
        known = self._known.setdefault(statement, Acked())
        self._since.setdefault(statement, self._clock.wall_ns())
        if known.add(first, last):
            self._changes += 1
            if known.count > RANGES:  # many at a time: each look at all of them costs as much
                ranges = known.ranges
                known.add(ranges[0][0], ranges[RANGES // 4][1])

    def _holds(self, statement: Statement) -> bool:
        return self._known[statement].last == OPEN

    def _end(self, statement: Statement, last: int) -> None:
        ranges = [(first, min(end, last)) for first, end in _ranges(self._known[statement]) if first <= last]
        self._known[statement] = Acked(0, ranges)
        self._changes += 1

    def _stored(self) -> Stored:
        """As much as has room. What holds still goes in first, then the newest."""
        order = sorted(self._known, key=lambda one: (self._holds(one), self._since[one]), reverse=True)
        names = {one: json.dumps([*one, self._since[one]], ensure_ascii=False) for one in order}
        room = NAME_BYTES
        stored: dict[str, Acked] = {}
        for one, name in names.items():
            room -= len(name.encode())
            if room >= 0:
                stored[name] = self._known[one]
        most = max(2, RANGES // max(1, len(stored)))
        return {name: _fewer(ranges, most) for name, ranges in stored.items()}


def tell(stored: Stored) -> list[ToldRanges]:
    """What the file says: sinks, flows, and then what is gone, each by position."""
    found: list[ToldRanges] = []
    for name, positions in stored.items():
        what, who, more, since_ns = cast("tuple[str, str, str, int]", json.loads(name))
        if what in KINDS and (ranges := _ranges(positions)):
            found.append(ToldRanges(Statement(what, who, more), ranges, since_ns))
    return sorted(found, key=lambda one: (KINDS.index(one.statement.what), one.ranges, one.statement))


def _ranges(positions: Acked) -> Sequence[tuple[int, int]]:
    return [*([(1, positions.low)] if positions.low else []), *positions.ranges]


def _fewer(positions: Acked, most: int) -> Acked:
    """At most so many ranges, with all positions."""
    ranges = _ranges(positions)
    over = len(ranges) - most
    return positions if over <= 0 else Acked(0, [(ranges[0][0], ranges[over][1]), *ranges[over + 1 :]])
