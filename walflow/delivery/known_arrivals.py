"""What a log has already of the logs and followed files upstream, and does not append again.
See walflow.wal.arrivals."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from walflow.contract import Counter, Outlet, Upstream
from walflow.delivery.tag import arrived, provenance
from walflow.errors import FailStop
from walflow.event import Block, Origin, ReadPlace
from walflow.offsets import EventEnds
from walflow.wal import Commit, Log
from walflow.wal.arrivals import MOST_LOGS, Provenance, UpstreamPositions
from walflow.wal.range_reader import RangeReader, RecordSlice
from walflow_kernel.log_records import RECORD_START, TAG_SIZE_AT, TAG_SIZES, record_offsets

MAY_COME_TWICE: Final = "what came from logs and files upstream may come twice"
FILE_TERM: Final = 0  # a file has another name instead
READ_BYTES: Final = 64 << 20  # of the newest records, at most: the file covers all but 16 MiB, if it is there


class Receiver(Protocol):
    """Who appends to the log: an Inlet."""

    @property
    def upstream(self) -> Upstream: ...
    def counter(self, name: str, **labels: str) -> Counter: ...
    def ack(self, block: Block) -> None: ...


class Arriving:
    """The events of this log by their positions upstream. Make it before anything is appended. `open` blocks."""

    def __init__(self, log: Log, inlet: Receiver) -> None:
        self._log = log
        self._inlet = inlet
        self._arrivals: UpstreamPositions = log.remember_arrivals()
        self._known = inlet.counter("wal_known_events_total")
        self._from_logs = inlet.upstream.straight
        self._from_files = inlet.upstream.straight_files
        self._places: dict[str, ReadPlace] = {}  # by name; the file that sent last at the end
        self._arrivals.before_save = self._settle_files

    def __repr__(self) -> str:
        return f"<Arriving {self._arrivals!r}>"

    @property
    def positions(self) -> int:
        """How many positions upstream it knows that may come again."""
        return self._arrivals.total

    def open(self) -> None:
        """Reads what the records say. Raises DiskFull, if there is no room for the file, and FailStop."""
        if self._log.gaps:
            self._arrivals.forget()
        for came in said(self._log, self._arrivals.covered):
            self._arrivals.add(came)
        self._arrivals.make()
        if self._log.unsafe_from is not None:  # nor may the next start take them for safe
            self._arrivals.cover(self._log.durable)

    def tell(self, out: Outlet, error: BaseException | None) -> None:
        """Logs the result of `open`. A disk that has failed ends the process."""
        if isinstance(error, FailStop):
            out.fatal(error)
        if error is not None:
            out.log.warning(MAY_COME_TWICE, reason=str(error))
        if self._log.unsafe_from is not None:
            out.log.warning(
                MAY_COME_TWICE,
                reason="the disk had no room to write the last records again, so a power cut could still take them",
                positions_from=self._log.unsafe_from,
            )
        out.log.info("knows what it has of logs and files upstream", positions=self.positions)

    def fresh(self, block: Block) -> Iterator[Block]:
        """The block, or the parts of it that this log does not have; the others are acked."""
        came = self._came(block)
        if came is None:
            yield block
            return
        arrivals, origin, positions = self._arrivals, origin_of(block), block.positions
        assert origin is not None
        assert positions is not None
        if origin.place is not None:
            self._places.pop(came.log, None)
            self._places[came.log] = origin.place
        arrivals.forget_below(came.log, origin.acked_below)
        arrivals.settled(came.log, came.term, min(origin.settled, came.first - 1))
        runs = arrivals.runs(came)
        if len(runs) == 1 and not runs[0].known:
            yield block
            return
        sizes: list[int] = []
        known: list[bool] = []
        at, position = 0, came.first
        for run in runs:
            position += run.length
            end = bisect_left(positions, position, at)
            if end > at:
                sizes.append(end - at)
                known.append(run.known)
            at = end
        for part, is_known in zip(block.split(sizes), known, strict=True):
            if is_known:
                self._known.value += part.frames.count
                self._inlet.ack(part)
            else:
                yield part

    def tag(self, tag: bytes, block: Block) -> bytes:
        """The tag of the block, with where it came from."""
        came = self._came(block)
        return tag if came is None else arrived(tag, came)

    def committed(self, commit: Commit, blocks: Sequence[object]) -> None:
        """To be called before the next checkpoint begins."""
        self._arrivals.grown(commit.size)
        for block in blocks:
            assert isinstance(block, Block)
            came = self._came(block)
            if came is not None:
                self._arrivals.add(came)

    def _settle_files(self) -> None:
        """A file may send all that it has before the first of it is acked. So it is asked again, before ranges that
        do not fit are left out."""
        for name, place in list(self._places.items()):
            now = place.origin()
            if now.log == name:
                self._arrivals.forget_below(name, now.acked_below)
                self._arrivals.settled(name, FILE_TERM, now.settled)
            if now.log != name or len(self._places) > MOST_LOGS:
                del self._places[name]

    def _came(self, block: Block) -> Provenance | None:
        wanted = self._from_files if block.origin is None else self._from_logs
        return came_from(block) if wanted else None


def origin_of(block: Block) -> Origin | None:
    return block.read_from if block.origin is None else block.origin


def came_from(block: Block) -> Provenance | None:
    """None: it came from no log and no file, or which event has which position is not known, or two have the same
    one. Then it is appended, and nothing is remembered."""
    origin, positions = origin_of(block), block.positions
    if origin is None or origin.term is None or positions is None or len(positions) != block.frames.count:
        return None
    if isinstance(positions, EventEnds):  # all its bytes: so what follows each other in the file is one range here
        return Provenance(origin.log, origin.term, positions.begin + 1, positions.end)
    first, last = positions[0], positions[-1]
    return Provenance(origin.log, origin.term, first, last) if last - first >= len(positions) - 1 else None


def said(log: Log, covered: int) -> Iterator[Provenance]:
    """What the tags of the records above position `covered` say; those that cannot be read, or that a power cut may
    take, are left out, so that their events may come again. Raises DiskFull and FailStop."""
    size, first = READ_BYTES, covered + 1
    for chunk in reversed(log.chunks):
        size -= chunk.end
        if size <= 0:
            first = max(first, chunk.first)
            break
    scan = RangeReader(log).begin(first, log.durable + 1 if log.unsafe_from is None else log.unsafe_from)
    try:
        while (found := scan.next()) is not None:
            if isinstance(found, RecordSlice):
                yield from _said_in(found.data)
    finally:
        scan.close()


def _said_in(data: bytes) -> Iterator[Provenance]:
    for at in record_offsets(data)[0]:
        (tag_size,) = TAG_SIZES.unpack_from(data, at + TAG_SIZE_AT)
        came = provenance(data[at + RECORD_START : at + RECORD_START + tag_size])
        if came is not None:
            yield came
