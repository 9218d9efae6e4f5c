"""What goes into one transaction: rows, and the frontier of each log that they came from."""

import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from connectors.sqlite.rows import WHOLE, Cell, Column, NotARow, row_of
from connectors.sqlite.table import CannotUse, RowEnds, SqliteTable
from walflow import Block, CannotDecode, Inlet, JobEnd, SinkWork
from walflow.codecs import JSON
from walflow.delivery import came_from
from walflow.files import RealDisk
from walflow.frontier import (
    RENEWED,
    Begin,
    Frontier,
    FrontierBatch,
    FrontierRefused,
    FrontierTaken,
    Keep,
    KeptFrontiers,
    LogView,
    NotReadable,
    Put,
    ReadFrontier,
    Rest,
    Step,
    Take,
    WriterKeys,
    after_lost_token,
    opening,
)

BATCH_BYTES: Final = 1 << 20
BATCH_EVENTS: Final = 10_000
TOLD: Final = 1.0  # seconds between two writes of what the receiver has confirmed

Opening = Generator[Step, Frontier | None, object]


class LogAndTerm(NamedTuple):
    log: str
    term: int


@dataclass(slots=True)
class LogWriter:
    """Of one log. `writing`: its opening, while it lasts; `step`: that is not answered."""

    kept: KeptFrontiers
    keys: WriterKeys
    frontier: Frontier = field(default_factory=Frontier)
    writing: Opening | None = None
    step: Step | None = None
    told_at: float = 0.0
    renewed_at: float = 0.0


@dataclass(slots=True)
class TableJob:
    """A transaction; or, with `opens`, the opening of a log's frontier: the log, how it is now, its directory. `renews`: logs whose
    frontier gets a sign of life. `settled`: by log, the position up to which all events have an outcome. `refused`: by number of the event,
    why it is no row. `tried`: the frontiers of a commit whose end is not known, by log; it had `trying` events."""

    blocks: list[Block] = field(default_factory=list[Block])
    opens: tuple[str, LogView, str] | None = None
    renews: Sequence[str] = ()
    settled: dict[str, int] = field(default_factory=dict[str, int])
    done: int = 0  # events of the blocks, the first ones, that have an outcome
    trying: int = 0
    refused: dict[int, str] = field(default_factory=dict[int, str])
    tried: dict[str, Frontier] = field(default_factory=dict[str, Frontier])
    size: int = 0
    events: int = 0


class TableWork(SinkWork[TableJob]):
    """The writers of the logs are changed on the thread alone, and read on the loop between two jobs."""

    def __init__(self, inlet: Inlet, table: SqliteTable, columns: Sequence[Column]) -> None:
        self._inlet = inlet
        self._table = table
        self._columns = columns
        self._logs: dict[str, LogWriter] = {}
        self._straight = inlet.upstream.straight
        self._due = False  # a sign of life
        self._rows = inlet.counter("rows_total")
        self._known = inlet.counter("known_events_total")

    # on the loop

    def renew(self) -> None:
        self._due = True
        self.sink.retry()

    def take(self, waiting: deque[Block]) -> TableJob | None:
        job = TableJob()
        if self._due:
            self._due = False
            job.renews = [log for log, writer in self._logs.items() if writer.writing is None]
        while waiting and job.size < BATCH_BYTES and job.events < BATCH_EVENTS:
            place = self._place(waiting[0])
            if place is not None and self._is_new(place.log):
                if job.blocks or job.renews:
                    break
                held = waiting[0].origin.held_by  # type: ignore[union-attr]  # `_place` has looked
                assert held is not None
                return TableJob(opens=(place.log, LogView.of(held), held.path))
            for part in self._fresh(waiting.popleft(), place):
                job.blocks.append(part)
                job.size += len(part.frames.data)
                job.events += part.frames.count
        return job if job.blocks or job.renews else None

    def begins(self, job: TableJob) -> None:
        """What is settled by now closes gaps."""
        for block in job.blocks:
            if block.origin is not None and block.origin.held_by is not None:
                job.settled[block.origin.log] = block.origin.held_by.low

    def _is_new(self, log: str) -> bool:
        writer = self._logs.get(log)
        return writer is None or writer.writing is not None

    def _place(self, block: Block) -> LogAndTerm | None:
        """None: its positions are not known, or would not say enough. Then it is stored, and nothing is remembered."""
        if not self._straight or block.origin is None or block.origin.held_by is None:
            return None
        came = came_from(block)
        return None if came is None else LogAndTerm(came.log, came.term)

    def _fresh(self, block: Block, place: LogAndTerm | None) -> Iterator[Block]:
        """The block, or the parts of it that the table has not; the others are acked."""
        if place is None:
            yield block
            return
        positions = block.positions
        assert positions is not None
        runs = self._logs[place.log].frontier.has(place.term, positions[0], positions[-1])
        sizes: list[int] = []
        known: list[bool] = []
        for first, last, has in runs:
            count = sum(first <= position <= last for position in positions) if len(runs) > 1 else len(positions)
            if count:
                sizes.append(count)
                known.append(has)
        for part, has in zip(block.split(sizes), known, strict=True):
            if has:
                self._known.value += part.frames.count
                self.sink.ack(part)
            else:
                yield part

    def outcomes(self, job: TableJob, error: BaseException | None) -> JobEnd:
        if isinstance(error, (FrontierRefused, NotReadable)):
            return JobEnd(lost=str(error))
        if error is not None:
            return JobEnd(trouble=self.explain(error))
        acked: list[Block] = []
        rejected: list[tuple[Block, str]] = []
        rest: list[Block] = []
        number = 0
        for block in job.blocks:
            todo = max(0, min(block.frames.count, job.done - number))
            if todo < block.frames.count:
                parts = block.split([todo, block.frames.count - todo]) if todo else [block]
                rest.append(parts[-1])
                if not todo:
                    continue
                block = parts[0]  # what of it is done
            for part, reason in self._apart(block, number, job.refused):
                if reason:
                    rejected.append((part, reason))
                else:
                    acked.append(part)
            number += todo
        self._rows.value += job.done - len(job.refused)
        job.blocks, job.done, job.refused = rest, 0, {}
        return JobEnd(acked, rejected)

    def _apart(self, block: Block, number: int, refused: Mapping[int, str]) -> Iterator[tuple[Block, str]]:
        """Its parts, each with the reason why it is no row."""
        sizes: list[int] = []
        reasons: list[str] = []
        for at in range(number, number + block.frames.count):
            reason = refused.get(at, "")
            if sizes and not reason and not reasons[-1]:
                sizes[-1] += 1
            else:
                sizes.append(1)
                reasons.append(reason)
        yield from zip(block.split(sizes), reasons, strict=True)

    # on the thread

    def do(self, job: TableJob) -> None:
        if job.opens is not None:
            self._open(*job.opens)
            return
        if job.renews:
            self._renew(job.renews)
        if job.blocks:
            self._store(job)

    def _open(self, log: str, view: LogView, directory: str) -> None:
        writer = self._logs.get(log)
        if writer is None:
            kept = KeptFrontiers(RealDisk(), directory)
            writer = LogWriter(kept, kept.read(self._inlet.name))
            writer.writing = opening(writer.keys, view, time.monotonic)
            writer.step = next(writer.writing)
            self._logs[log] = writer
        assert writer.writing is not None
        while True:
            step = writer.step
            answer: Frontier | None = None
            match step:
                case ReadFrontier():
                    answer = self._table.look(log, self._inlet.name)
                case Keep(keys):
                    writer.kept.write(self._inlet.name, keys)
                case Begin():
                    answer = self._table.begin(log, self._inlet.name, step)
                case Take():
                    answer = self._table.take(log, self._inlet.name, step)
                case Put():
                    answer = self._table.put(log, self._inlet.name, step)
                case _:
                    pass
            try:
                writer.step = writer.writing.send(answer)
            except StopIteration as stop:
                taken = stop.value
                if not isinstance(taken, FrontierTaken):
                    del self._logs[log]
                    raise FrontierRefused(taken) from None
                writer.writing = writer.step = None
                writer.frontier, writer.keys = taken.frontier, taken.keys
                return
            if isinstance(writer.step, Rest):
                raise CannotUse(writer.step.why)

    def _renew(self, logs: Sequence[str]) -> None:
        now = time.monotonic()
        for log in logs:
            writer = self._logs[log]
            if now - writer.renewed_at < RENEWED / 2:
                continue
            with self._table.transaction():
                found = self._mine(log, writer)
                self._table.write(log, self._inlet.name, found.renewed())
            writer.frontier = found.renewed()
            writer.renewed_at = now

    def _mine(self, log: str, writer: LogWriter) -> Frontier:
        """In a transaction: the frontier, which has our token. Raises FrontierRefused."""
        found = self._table.read(log, self._inlet.name)
        if found is None or found.token != writer.frontier.token:
            raise FrontierRefused(after_lost_token(found, writer.keys))
        if found.lacks(writer.keys.confirmed):
            raise FrontierRefused(after_lost_token(None, writer.keys))
        return found

    def _store(self, job: TableJob) -> None:
        rows, refused = self._made(job.blocks)
        events = job.trying or len(rows)
        apart = False
        while True:
            try:
                done = self._try(job, rows[:events], refused, apart=apart)
            except RowEnds as error:
                apart = True
                if error.number is not None:
                    rows[error.number], refused[error.number] = None, str(error)
                continue
            if done:
                job.done, job.trying = events, 0
                self._told()
                return
            if events == 1:
                raise CannotUse(
                    "too many rejected events wait for their error record: the table's frontier has no room for more gaps"
                )
            events //= 2

    def _made(self, blocks: Sequence[Block]) -> tuple[list[tuple[Cell, ...] | None], dict[int, str]]:
        rows: list[tuple[Cell, ...] | None] = []
        refused: dict[int, str] = {}
        for block in blocks:
            if self._columns is WHOLE and block.codec is JSON:
                rows += [(payload.decode(),) for payload in block.frames.payloads()]
                continue
            decode = block.timed_codec.decode
            for payload in block.frames.payloads():
                try:
                    rows.append(row_of(decode(payload), self._columns))
                except (NotARow, CannotDecode) as error:
                    refused[len(rows)] = str(error)
                    rows.append(None)
        return rows, refused

    def _try(
        self, job: TableJob, rows: Sequence[tuple[Cell, ...] | None], refused: dict[int, str], *, apart: bool
    ) -> bool:
        """One transaction. False: the frontier would be too large, and nothing is stored."""
        sink = self._inlet.name
        with self._table.transaction() as undo:
            logs = {place.log for block in job.blocks if (place := self._place(block)) is not None}
            before = {log: self._mine(log, self._logs[log]) for log in logs}
            if job.tried and all(_same(before[log], frontier) for log, frontier in job.tried.items()):
                self._stored(job, before)  # the COMMIT without an answer did it
                return True
            job.tried = {}
            job.refused = {
                **{n: why for n, why in refused.items() if n < len(rows)},
                **self._table.insert(rows, apart=apart),
            }
            after = dict(before)
            for log, batch in self._batches(job, len(rows)):
                after[log] = after[log].with_batch(batch)
            for log, frontier in after.items():
                bounded = frontier.within_bounds(job.settled.get(log, 0) + 1)
                if bounded is None:
                    undo()
                    return False
                after[log] = bounded.renewed()
                self._table.write(log, sink, after[log])
            job.tried, job.trying = after, len(rows)
        self._stored(job, after)
        return True

    def _stored(self, job: TableJob, frontiers: Mapping[str, Frontier]) -> None:
        job.tried = {}
        for log, frontier in frontiers.items():
            writer = self._logs[log]
            writer.frontier = frontier
            writer.renewed_at = time.monotonic()

    def _batches(self, job: TableJob, events: int) -> Iterator[tuple[str, FrontierBatch]]:
        """Of the events that are rows. One that is refused is a gap: only its error record settles it."""
        number = 0
        for block in job.blocks:
            place, positions = self._place(block), block.positions
            count = min(block.frames.count, events - number)
            if place is not None and positions is not None and count > 0:
                assert block.origin is not None
                settled = max(job.settled.get(place.log, 0), block.origin.settled)
                below = block.origin.acked_below
                start = 0
                for at in range(count + 1):
                    if at == count or number + at in job.refused:
                        if at > start:
                            yield (
                                place.log,
                                FrontierBatch(place.term, positions[start], positions[at - 1], settled, below),
                            )
                        start = at + 1
            number += block.frames.count

    def _told(self) -> None:
        """What the receiver has confirmed. If it cannot be written, a receiver that goes back is noticed by less."""
        now = time.monotonic()
        for writer in self._logs.values():
            writer.keys = writer.keys.told(writer.frontier)
            if now - writer.told_at >= TOLD:
                writer.told_at = now
                with suppress(OSError):
                    writer.kept.write(self._inlet.name, writer.keys)

    def close(self) -> None:
        for writer in self._logs.values():
            if writer.writing is None:
                with suppress(OSError):
                    writer.kept.write(self._inlet.name, writer.keys)
        self._table.close()


def _same(one: Frontier, other: Frontier) -> bool:
    """But for who shows signs of life."""
    return (one.highest, one.forgotten, one.ranges) == (other.highest, other.forgotten, other.ranges)
