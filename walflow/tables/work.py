"""What goes into one transaction: rows, and the frontier of each log that they came from."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from walflow.codecs import JSON
from walflow.contract import Counter, Inlet, Timer
from walflow.delivery import came_from
from walflow.errors import CannotDecode
from walflow.event import Block, PositionLog
from walflow.families import Families, Family
from walflow.frontier import RENEWED, Frontier, FrontierBatch, FrontierRefused, LogView, NotReadable, Rest
from walflow.receipt import Receipt
from walflow.sinks import JobEnd, JobSink, NotDelivered, SinkWork
from walflow.tables.columns import NotARow
from walflow.tables.poison import PoisonSearch
from walflow.tables.store import CannotUse, RowEnds, RowRefusal, TableStore
from walflow.tables.writers import LogWriters
from walflow.world import monotonic

BATCH_BYTES: Final = 1 << 20
BATCH_EVENTS: Final = 10_000
NO_ROW: Final = "none"  # the code of an event that is no row
CODES: Final = 64  # that are counted apart: a trigger may make up its own
LOOK_AGAIN: Final = 1.0  # seconds, at an error record that events of one log wait for, while others go on

TABLE_FAMILIES: Final[Families] = {
    "rows_total": Family("counter", "Rows that were stored in the table."),
    "commits_total": Family("counter", "Transactions that stored rows."),
    "refused_rows_total": Family(
        "counter",
        "Rows that the table refused, by SQLSTATE or the database's own name of the reason. `none`: the event has no "
        "form that the table can store; `poison`: see `poison_after`.",
        ("code",),
    ),
    "superseded_rows_total": Family(
        "counter",
        "Events that left no row: with `key`, a later one of the same transaction replaced or deleted it, or the "
        "row has a higher `version`.",
    ),
    "lost_rows_total": Family(
        "counter",
        "Positions that the table had confirmed and lost again, and that the log did not send again.",
    ),
    "frontier_position": Family("gauge", "The highest position of the log that the table has.", ("log",)),
    "frontier_lag_events": Family(
        "gauge", "Positions of the log above the highest one that the table has or has refused.", ("log",)
    ),
    "known_events_total": Family(
        "counter",
        "Events that were sent again and that the table had already: they were acked and not stored again.",
    ),
}

R = TypeVar("R")


class LogAndTerm(NamedTuple):
    log: str
    term: int


class Barrier(NamedTuple):
    """The event at `position` was refused, and is a gap of the frontier until its error record is delivered: a crash
    would try it again. Where rows have an order, no later one passes it. The record is delivered when `receipt` is
    settled; None: when the log says so."""

    place: LogAndTerm
    held: PositionLog
    position: int
    receipt: Receipt | None

    @property
    def is_delivered(self) -> bool:
        return self.receipt is not None and not self.receipt.pending and self.receipt.cause is None

    @property
    def holds(self) -> bool:
        """Later rows wait, and nothing is to be done about it."""
        return self.held.low < self.position and not self.is_delivered and not self.has_failed

    @property
    def has_failed(self) -> bool:
        return self.receipt is not None and not self.receipt.pending and self.receipt.cause is not None


class LogOpening(NamedTuple):
    """Of a log's frontier. `directory`: the log's."""

    log: str
    view: LogView
    directory: str
    held: PositionLog


@dataclass(slots=True)
class TableJob:
    """A transaction; or, with `opens`, the opening of a log's frontier. `rest`: it waits for another writer.
    `renews`: logs whose frontier gets a sign of life. `settled`: by log, the position up to which all events have an
    outcome. `refused`: by number of the event, why it is no row. `tried`: the frontiers of a commit whose end is not
    known, by log; it had `trying` events. `behind`: the position of an error record that must be delivered before a
    later row is stored. `passed`: those that are. `chokes`: how often the table failed while it took the rows, for no
    fault of theirs; the first time at `choked_at`. `poison`: by number of the event, why it is taken for the cause of
    that."""

    blocks: list[Block] = field(default_factory=list[Block])
    opens: LogOpening | None = None
    rest: Rest | None = None
    renews: Sequence[str] = ()
    settled: dict[str, int] = field(default_factory=dict[str, int])
    done: int = 0  # events of the blocks, the first ones, that have an outcome
    trying: int = 0
    refused: dict[int, RowRefusal] = field(default_factory=dict[int, RowRefusal])
    tried: Mapping[str, Frontier] = field(default_factory=dict[str, Frontier])
    no_room: bool = False
    behind: int | None = None
    passed: Sequence[Barrier] = ()
    superseded: int = 0
    size: int = 0
    events: int = 0
    chokes: int = 0
    choked_at: float = 0.0
    poison: dict[int, RowRefusal] = field(default_factory=dict[int, RowRefusal])


async def run_table(inlet: Inlet, store: TableStore[R], *, poison_after: float | None = None) -> None:
    """All that a connector with a table does. `poison_after`: seconds, see `PoisonKey`."""
    work = TableWork(inlet, store, PoisonSearch(store, poison_after))
    try:
        await JobSink(inlet, work).run()
    finally:
        work.end()


class TableWork(SinkWork[TableJob], Generic[R]):
    """Stores the events of blocks. Each log has a writer of its own."""

    def __init__(self, inlet: Inlet, store: TableStore[R], poison: PoisonSearch[R]) -> None:
        self._inlet = inlet
        self._store = store
        self._poison = poison
        self._writers = LogWriters(store, inlet.name)
        self._resting: set[str] = set()  # logs that wait for another writer, while others go on
        self._behind: set[str] = set()  # logs that wait for an error record, while others go on
        self._straight = inlet.upstream.straight
        self._barriers: list[Barrier] = []
        self._timers: dict[str, Timer] = {}  # by log, and "" of the signs of life
        self._due = False  # a sign of life
        self._later("", RENEWED, self._renew)
        self._rows = inlet.counter("rows_total")
        self._commits = inlet.counter("commits_total")
        self._known = inlet.counter("known_events_total")
        self._lost = inlet.counter("lost_rows_total")
        self._superseded = inlet.counter("superseded_rows_total")
        self._codes: set[str] = set()

    # on the loop

    def _renew(self) -> None:
        self._due = True
        self._later("", RENEWED, self._renew)
        self.sink.retry()

    def _later(self, log: str, seconds: float, call: Callable[[], None]) -> None:
        self._timers[log] = self._inlet.scheduler.call_later(seconds, call)

    def end(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def take(self, waiting: deque[Block]) -> TableJob | None:
        job = TableJob()
        if self._due:
            self._due = False
            job.renews = list(self._writers)
        aside: list[Block] = []
        while waiting and job.size < BATCH_BYTES and job.events < BATCH_EVENTS:
            block = waiting.popleft()
            place = self._place(block)
            if place is not None and (place.log in self._resting or place.log in self._behind):
                aside.append(block)
                continue
            if place is not None and place.log not in self._writers:
                waiting.appendleft(block)
                if not job.blocks and not job.renews:
                    job.opens = _opening(block, place.log)
                break
            for part in self._fresh(block, place):
                job.blocks.append(part)
                job.size += len(part.frames.data)
                job.events += part.frames.count
        waiting.extendleft(reversed(aside))
        return job if job.blocks or job.renews or job.opens else None

    def begins(self, job: TableJob) -> None:
        """What is settled by now closes gaps."""
        for block in job.blocks:
            if block.origin is not None and block.origin.held_by is not None:
                job.settled[block.origin.log] = block.origin.held_by.low
        left = [one for one in self._barriers if one.held.low < one.position]
        if not job.tried and (self._store.orders or job.no_room):
            left = [self._handed_back(job, one) if one.has_failed else one for one in left]
        self._barriers = left
        job.passed = [one for one in left if one.is_delivered]
        held = [one for one in left if not one.is_delivered] if self._store.orders else []
        if self._inlet.upstream.sources > 1 and not job.tried:
            for one in held:
                self._put_aside(job, one)
        of = {block.origin.log for block in job.blocks if block.origin is not None}
        job.behind = next((one.position for one in held if one.place.log in of), None)

    def _put_aside(self, job: TableJob, barrier: Barrier) -> None:
        """Events of this log wait; those of other logs do not."""
        log = barrier.place.log
        back, kept = _parted(job.blocks, log)
        if back:
            job.blocks = kept
            job.trying, job.poison = 0, {}  # both count the job's events
            self.sink.waiting.extendleft(reversed(back))
        if log not in self._behind:
            self._behind.add(log)
            self._look_again(log)

    def _look_again(self, log: str) -> None:
        held = next((one for one in self._barriers if one.place.log == log and one.holds), None)
        if held is None:
            self._behind.discard(log)
            self.sink.retry()
        else:
            self._inlet.failed_try(_waits_for(held.position))
            self._later(f"behind {log}", LOOK_AGAIN, lambda: self._look_again(log))

    def _handed_back(self, job: TableJob, barrier: Barrier) -> Barrier:
        """The error record has failed. The log gives it again once the whole block has an outcome, and its other
        events are held here: so all events of this log go back."""
        log = barrier.place.log
        back, job.blocks = _parted(job.blocks, log)
        waiting, kept = _parted(self.sink.waiting, log)
        self.sink.waiting.clear()
        self.sink.waiting.extend(kept)
        job.trying, job.poison = 0, {}  # both count the job's events
        for block in (*back, *waiting):
            self.sink.fail(block, NotDelivered(f"the error record of position {barrier.position} was not delivered"))
        return barrier._replace(receipt=None)

    def _place(self, block: Block) -> LogAndTerm | None:
        """None: its positions are not known, or would not say enough.
        Then it is stored, and nothing is remembered."""
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
        runs = self._writers[place.log].frontier.has(place.term, positions[0], positions[-1])
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
            self._inlet.log.error("refuses to write", reason=str(error))  # the breaker may be triggered already
            return JobEnd(lost=str(error))
        if error is not None:
            return JobEnd(trouble=self.explain(error))
        if job.rest is not None:
            return self._rests(job, job.rest)
        if job.opens is not None:
            self._opened(job.opens)
        if job.done:  # the frontiers that were written have these now
            written = {block.origin.log for block in job.blocks if block.origin is not None}
            passed = {one for one in job.passed if one.place.log in written}
            self._barriers = [one for one in self._barriers if one not in passed]
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
                    self._watch(part)
                else:
                    acked.append(part)
            number += todo
        for refusal in job.refused.values():
            self._refused(refusal.code).value += 1
        stored = job.done - len(job.refused)
        self._rows.value += stored - job.superseded
        self._superseded.value += job.superseded
        self._commits.value += stored > 0
        job.poison = {number - job.done: why for number, why in job.poison.items() if number >= job.done}
        job.blocks, job.done, job.refused, job.superseded = rest, 0, {}, 0
        return JobEnd(acked, rejected)

    def _opened(self, opening: LogOpening) -> None:
        writer = self._writers[opening.log]
        self._lost.value += writer.lost

        def lag() -> int:  # refused events behind the last row have their outcome
            return max(0, opening.held.next - 1 - max(writer.frontier.highest, opening.held.low))

        self._inlet.gauge("frontier_position", lambda: writer.frontier.highest, log=opening.directory)
        self._inlet.gauge("frontier_lag_events", lag, log=opening.directory)

    def _rests(self, job: TableJob, rest: Rest) -> JobEnd:
        """Another process writes the events of a log. If other sources come here, they go on."""
        assert job.opens is not None
        log = job.opens.log
        job.rest = None
        if len(self._resting) + 1 >= self._inlet.upstream.sources:
            return JobEnd(trouble=rest.why)
        self._resting.add(log)
        self._inlet.failed_try(rest.why)

        def again() -> None:
            self._resting.discard(log)
            self.sink.retry()

        self._later(log, rest.seconds, again)
        return JobEnd()

    def _watch(self, rejected: Block) -> None:
        """Until its error record is delivered. If later rows may replace earlier ones, none passes it before: after a
        crash it would be tried again, and could win. Otherwise the frontier has one gap less, also while the log
        waits for the other events of the block: if that has many gaps, they need the room."""
        place, positions = self._place(rejected), rejected.positions
        if place is not None and positions is not None:
            assert rejected.origin is not None
            assert rejected.origin.held_by is not None
            self._barriers.append(Barrier(place, rejected.origin.held_by, positions[-1], rejected.receipt))

    def _refused(self, code: str) -> Counter:
        if code not in self._codes and len(self._codes) >= CODES:
            code = "other"
        self._codes.add(code)
        return self._inlet.counter("refused_rows_total", code=code)

    def _apart(self, block: Block, number: int, refused: Mapping[int, RowRefusal]) -> Iterator[tuple[Block, str]]:
        """Its parts, each with the reason why it is no row."""
        if not refused:
            yield block, ""
            return
        sizes: list[int] = []
        reasons: list[str] = []
        for at in range(number, number + block.frames.count):
            reason = refused[at].reason if at in refused else ""
            if sizes and not reason and not reasons[-1]:
                sizes[-1] += 1
            else:
                sizes.append(1)
                reasons.append(reason)
        yield from zip(block.split(sizes), reasons, strict=True)

    # on the thread

    def do(self, job: TableJob) -> None:
        self._store.open()
        if job.opens is not None:
            opening = job.opens
            job.rest = self._writers.open(opening.log, opening.view, opening.directory)
            return
        if job.renews:
            self._writers.renew(job.renews)
        if job.blocks and job.behind is not None:
            raise CannotUse(_waits_for(job.behind))
        if job.blocks:
            self._store_rows(job)

    def _store_rows(self, job: TableJob) -> None:
        rows, refused = self._made(job.blocks)
        if self._poison.is_due(job.chokes, monotonic() - job.choked_at):
            job.poison |= self._poison.find(rows, job.poison, job.chokes)
            job.chokes = 0
        for number, why in job.poison.items():
            rows[number], refused[number] = None, why
        events = job.trying or len(rows)
        apart = False
        while True:
            try:
                done = self._try(job, rows[:events], refused, apart=apart)
            except RowEnds as error:
                apart = True
                if error.number is not None:
                    rows[error.number], refused[error.number] = None, error.refusal
                continue
            if done == events:
                job.done, job.trying, job.no_room = done, 0, False
                self._writers.told()
                return
            job.no_room = not done
            if not done:
                raise CannotUse(
                    "too many rejected events wait for their error record: "
                    "the table's frontier has no room for more gaps"
                )
            events = done

    def _made(self, blocks: Sequence[Block]) -> tuple[list[R | None], dict[int, RowRefusal]]:
        rows: list[R | None] = []
        refused: dict[int, RowRefusal] = {}
        for block in blocks:
            made = self._store.json_rows(block) if block.codec is JSON else None
            if made is not None:
                rows += made
                continue
            decode = block.timed_codec.decode
            for number, payload in enumerate(block.frames.payloads()):
                try:
                    rows.append(self._store.row(decode(payload), block.event_meta(number)))
                except (NotARow, CannotDecode) as error:
                    refused[len(rows)] = RowRefusal(str(error), NO_ROW)
                    rows.append(None)
        return rows, refused

    def _try(self, job: TableJob, rows: Sequence[R | None], refused: Mapping[int, RowRefusal], *, apart: bool) -> int:
        """One transaction. Returns how many events have an outcome by it.
        If that is not all, nothing is stored, and so many may be."""
        if job.tried and self._was_stored(job):
            return len(rows)
        with self._store.transaction() as undo:
            logs = {place.log for block in job.blocks if (place := self._place(block)) is not None}
            before = {log: self._writers.mine(log) for log in logs}
            try:
                found = self._store.insert(rows, apart=apart)
            except RowEnds:
                raise
            except Exception:
                job.choked_at = job.choked_at if job.chokes else monotonic()
                job.chokes += 1
                raise
            job.refused = {**{n: why for n, why in refused.items() if n < len(rows)}, **found}
            if logs and self._store.orders and job.refused and min(job.refused) + 1 < len(rows):
                undo()
                return min(job.refused) + 1
            after = self._grown(job, before, len(rows))
            if after is None:
                undo()
                return len(rows) // 2
            for log, frontier in after.items():
                self._store.write(log, self._inlet.name, frontier)
            job.tried, job.trying = after, len(rows)
        job.tried = {}
        job.superseded = self._store.superseded
        self._writers.stored(after)
        return len(rows)

    def _was_stored(self, job: TableJob) -> bool:
        """Whether the commit without an answer did it."""
        now = {log: self._writers.look_again(log) for log in job.tried}
        tried, job.tried = job.tried, {}
        return all(_same(now[log], frontier) for log, frontier in tried.items())

    def _grown(self, job: TableJob, before: Mapping[str, Frontier], events: int) -> Mapping[str, Frontier] | None:
        """The frontiers with the first `events` of the job. None: one would be too large."""
        after = dict(before)
        for log, batch in self._batches(job, events):
            after[log] = after[log].with_batch(batch)
        for barrier in job.passed:
            (log, term), position = barrier.place, barrier.position
            if log in after:  # else a crash would bring it again
                after[log] = after[log].with_batch(FrontierBatch(term, position, position))
        for log, frontier in after.items():
            bounded = frontier.within_bounds(job.settled.get(log, 0) + 1)
            if bounded is None:
                return None
            after[log] = bounded.renewed()
        return after

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
                for at in range(count + 1) if job.refused else (count,):
                    if at == count or number + at in job.refused:
                        if at > start:
                            yield (
                                place.log,
                                FrontierBatch(place.term, positions[start], positions[at - 1], settled, below),
                            )
                        start = at + 1
            number += block.frames.count

    def close(self) -> None:
        self._writers.close()
        self._store.close()


def _parted(blocks: Iterable[Block], log: str) -> tuple[list[Block], list[Block]]:
    """Those of the log, and the others."""
    of: list[Block] = []
    others: list[Block] = []
    for block in blocks:
        (of if block.origin is not None and block.origin.log == log else others).append(block)
    return of, others


def _waits_for(position: int) -> str:
    return f"waits until the error record of position {position} is delivered: no later row may pass it"


def _opening(block: Block, log: str) -> LogOpening:
    assert block.origin is not None
    held = block.origin.held_by
    assert held is not None
    return LogOpening(log, LogView.of(held), held.path, held)


def _same(one: Frontier, other: Frontier) -> bool:
    """But for who shows signs of life."""
    return (one.highest, one.forgotten, one.ranges) == (other.highest, other.forgotten, other.ranges)
