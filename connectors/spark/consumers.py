"""How far each consumer is. The log is acked up to the slowest of them, and never before the file says so too.

`<path>/consumers` says so (`walflow.wal.ConsumerFile`).

A scan is one checkpoint's way through the log: its name is in that checkpoint's offsets. The last one that committed
has the consumer, and another is refused until it says that it knows: it has not seen what was committed before it.

A file that is damaged or missing costs repetition and no event: every consumer begins at the floor, which is where
the log itself knows that all before was committed.
"""

import asyncio
import datetime
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from connectors.spark.serial_tasks import SerialTasks, on_log_thread
from pyspark_walflow.wire import Code, RequestRefused
from walflow import DiskFull, Half, ReadFailed, Unusable
from walflow.wal import CONSUMERS, ConsumerFile, Log
from walflow.world import wall_ns

UNUSED_SECONDS: Final = 600.0  # a query that was refused, or read nothing, comes back within them or is another one
KEPT: Final = 50  # times within the timeout, it is written how long each consumer has been away
PLAIN: Final = "(socket)"  # the plain listener's own position; no name that HELLO could have declared


class Cursor(NamedTuple):
    """`position`: the next position to read. `time_ns`, `peer`, `scan`: of the last commit; 0 and empty if there was
    none, or the client did not say. `silent`: about how many seconds it has been away although there were events for
    it; while walflow did not run does not count."""

    position: int
    time_ns: int = 0
    peer: str = ""
    scan: str = ""
    silent: int = 0


class Admission(NamedTuple):
    """Consumers that the flow does not name: how many may be known, and after how many seconds one is forgotten that
    does not come although there are events for it."""

    most: int
    seconds: float


class Consumers:
    """`acked` is called when more of the log was acked. Without `admission` only consumers with one of `names` are
    known. Belongs to the loop."""

    def __init__(
        self,
        log: Log,
        names: Sequence[str],
        half: Half,
        acked: Callable[[], None],
        admission: Admission | None = None,
    ) -> None:
        self._log = log
        self._half = half
        self._acked = acked
        self._file = ConsumerFile(log.directory, log.uuid)
        self._turns = SerialTasks()
        self._closed = False
        self._served: dict[str, int] = {}
        self._held_until = 0.0
        self._commits = half.counter("spark_commits_total")
        self._admission = admission
        self._silent: dict[str, float] = {}  # since when a consumer with a lag has been away
        self._connected: set[str] = set()
        self._unused: set[str] = set()  # admitted in this run, and nothing was planned or read for them
        self._forgetting: asyncio.Task[None] | None = None
        self._declared = tuple(names)
        self._cursors = self._load()
        now = half.scheduler.time()
        self._silent = {name: now - cursor.silent for name, cursor in self._cursors.items() if cursor.silent}
        for name in self.names:
            self._measure(name)
        self._ack()

    def __repr__(self) -> str:
        return f"<Consumers {', '.join(f'{name} at {self.committed(name)}' for name in self.names)}>"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._cursors)

    @property
    def floor(self) -> int:
        """The first position that some consumer has not committed."""
        return min((cursor.position for cursor in self._cursors.values()), default=self._log.low + 1)

    @property
    def oldest(self) -> int:
        """The first position that can be read: below the floor there is what the log keeps (`retain`)."""
        kept = self._log.chunks[0].first if self._log.chunks and self._log.history.keeps else self.floor
        return min(kept, self.floor)

    def committed(self, name: str) -> int:
        """The next position that the consumer needs. Raises RequestRefused."""
        return self._cursor(name).position

    def scan(self, name: str) -> str:
        """The one that committed last; empty if none did. Raises RequestRefused."""
        return self._cursor(name).scan

    def check_scan(self, name: str, scan: str) -> None:
        """Raises RequestRefused if another scan has committed."""
        cursor = self._cursor(name)
        if cursor.time_ns and cursor.scan != scan:
            raise RequestRefused(
                Code.NEW_CHECKPOINT,
                f"consumer {name!r} belongs to another checkpoint, which committed all below {cursor.position} "
                f"{_when(cursor)}",
            )

    def check_known(self, name: str) -> None:
        """Of a client. Raises RequestRefused."""
        if name == PLAIN or name not in self._cursors:
            raise self._unknown(name)

    async def admit(self, name: str) -> None:
        """A query begins under this name. If the flow lets it, it is a consumer from here on, durably, and begins at
        the floor. Raises RequestRefused."""
        if self._admission is None or name == PLAIN:
            self.check_known(name)
        elif name not in self._cursors:
            await self._turns.take(lambda: self._admit(name))

    def came(self, name: str) -> None:
        """Its query is connected."""
        self._connected.add(name)
        self._silent.pop(name, None)

    def left(self, name: str) -> None:
        self._connected.discard(name)

    def forget_silent(self) -> None:
        """Call it now and then. What is forgotten is forgotten durably, somewhat later; and now and then it is kept
        how long each has been away."""
        if self._admission is None or (self._forgetting is not None and not self._forgetting.done()):
            return
        now = self._half.scheduler.time()
        self._silent = {
            name: self._silent.get(name, now)
            for name in self._cursors
            if name not in self._declared and name not in self._connected and (self.lag(name) or name in self._unused)
        }
        gone = [name for name, since in self._silent.items() if now - since >= self._patience(name)]
        if gone:
            self._begin(lambda: self._forget(gone, now))
        elif any(abs(was - is_) >= self._admission.seconds / KEPT for was, is_ in self._silences(now)):
            self._begin(lambda: self._keep_silences(now))

    def used(self, name: str) -> None:
        """Its query has asked for events: from now on they may be in its checkpoint."""
        self._unused.discard(name)

    def _patience(self, name: str) -> float:
        """In seconds."""
        assert self._admission is not None
        seconds = self._admission.seconds
        return min(seconds, UNUSED_SECONDS) if name in self._unused else seconds

    def _begin(self, change: Callable[[], Coroutine[object, object, None]]) -> None:
        self._forgetting = asyncio.get_running_loop().create_task(self._turns.take(change))

    def _silences(self, now: float) -> Iterator[tuple[int, int]]:
        """In seconds, as the file has them and as they are."""
        for name, cursor in self._cursors.items():
            yield cursor.silent, self.away(name)

    async def _keep_silences(self, now: float) -> None:
        """If the disk is full, the next look tries it again."""
        if self._closed:
            return
        silent = self._silent
        with suppress(RequestRefused):
            await self._replace(
                {
                    name: cursor._replace(silent=int(now - silent.get(name, now)))
                    for name, cursor in self._cursors.items()
                }
            )

    async def commit(self, name: str, position: int, peer: str = "", scan: str = "") -> int:
        """The consumer has processed all positions below `position`. This is durable when the call returns. A
        position below an earlier commit changes nothing. Raises RequestRefused."""
        self._check(name, position)
        self._silent.pop(name, None)  # it is not silent, also if the disk has no room
        self.used(name)
        if position > self.committed(name):
            await self._turns.take(lambda: self._commit(name, position, peer, scan))
        return self.committed(name)

    async def close(self) -> None:
        """Waits for the write that is running. No commit is accepted any more."""
        await self._turns.take(self._close)

    def served(self, name: str, end: int) -> None:
        """The consumer has been sent the positions below `end`."""
        self._served[name] = max(end, self._served.get(name, 0))

    def lag(self, name: str) -> int:
        return max(0, self._log.durable + 1 - self._cursors[name].position)

    def away(self, name: str) -> int:
        """Seconds."""
        now = self._half.scheduler.time()
        return int(now - self._silent.get(name, now))

    def owed(self, name: str) -> int:
        return max(0, self._served.get(name, 0) - self._cursors[name].position)

    def below_floor(self, position: int) -> RequestRefused:
        """Names the process that committed last."""
        name, cursor = max(self._cursors.items(), key=lambda one: one[1].time_ns, default=("", Cursor(0)))
        who = f"consumer {name!r} committed all below {cursor.position} {_when(cursor)}"
        return RequestRefused(
            Code.BELOW_FLOOR,
            f"position {position} is gone, the first that can be read is {self.oldest}: "
            f"{who if cursor.time_ns else 'what lies before it was committed earlier'}",
        )

    def tell(self, *, full: bool) -> None:
        """Logs how much each consumer holds, at most once a minute."""
        now = self._half.scheduler.time()
        if now < self._held_until or not self._cursors:
            return
        slowest = [name for name in self.names if self._cursors[name].position == self.floor]
        name = slowest[0]
        if not self.lag(name):
            return
        self._held_until = now + 60.0
        say = self._half.log.warning if full else self._half.log.info
        say(
            "log held by a consumer",
            consumer=", ".join(slowest),
            events=self.lag(name),
            committed=self._cursors[name].position,
            last_commit=_when(self._cursors[name]),
            fill=round(self._log.fill, 2),
        )

    def _cursor(self, name: str) -> Cursor:
        cursor = self._cursors.get(name)
        if cursor is None:
            raise self._unknown(name)
        return cursor

    def _unknown(self, name: str) -> RequestRefused:
        names = ", ".join(one for one in self.names if one != PLAIN) or "none"
        if self._admission is None:
            return RequestRefused(Code.UNDECLARED, f"no consumer {name!r} is declared in the flow; declared: {names}")
        return RequestRefused(
            Code.UNDECLARED,
            f"no consumer {name!r} is known; known: {names}. One is known from its query's start on, and forgotten "
            f"when it is not connected for {self._admission.seconds:,.0f} s (`consumer_timeout`) while events wait "
            "for it",
        )

    def _check(self, name: str, position: int) -> None:
        self._cursor(name)
        after = self._log.durable + 1
        if position > after:
            raise RequestRefused(Code.BEYOND_HEAD, f"{name} cannot commit {position}: the log ends before {after}")

    async def _commit(self, name: str, position: int, peer: str, scan: str) -> None:
        if self._closed:
            raise RequestRefused(Code.STOPPING, "walflow is stopping")
        if position <= self.committed(name):
            return
        cursor = Cursor(position, wall_ns(), peer, scan or self._cursor(name).scan)
        await self._replace({**self._cursors, name: cursor})
        self._commits.value += 1
        self._ack()

    async def _admit(self, name: str) -> None:
        if self._closed:
            raise RequestRefused(Code.STOPPING, "walflow is stopping")
        if name in self._cursors:
            return
        assert self._admission is not None
        others = [one for one in self._cursors if one != PLAIN]
        if len(others) >= self._admission.most:
            raise RequestRefused(
                Code.UNDECLARED,
                f"no consumer {name!r} is known, and there are {len(others)} already (`max_consumers`): "
                f"{', '.join(others)}. `walflow wal consumers` says how far each is, and `walflow wal forget` "
                "lets go of one",
            )
        floor = self.floor
        await self._replace({**self._cursors, name: Cursor(floor)})
        self._unused.add(name)
        self._measure(name)
        self._half.log.info("consumer new", consumer=name, starts_at=floor)

    async def _forget(self, names: Sequence[str], now: float) -> None:
        cursors = self._cursors
        gone = {name: self._silent[name] for name in names if name in self._silent}  # else it has come meanwhile
        if self._closed or not gone:
            return
        lags = {name: self.lag(name) for name in gone}
        try:
            await self._replace({name: cursor for name, cursor in cursors.items() if name not in gone})
        except RequestRefused as error:  # the disk is full; the next look tries again
            self._half.log.error("consumers not forgotten", consumer=", ".join(gone), error=str(error))
            return
        for name, since in gone.items():
            self._served.pop(name, None)
            self._unused.discard(name)
            self._half.log.warning(
                "consumer forgotten",
                consumer=name,
                events=lags[name],
                committed=cursors[name].position,
                last_commit=_when(cursors[name]),
                seconds=round(now - since),
            )
        self._ack()

    async def _replace(self, cursors: dict[str, Cursor]) -> None:
        """They are those of the file before they are ours. Raises RequestRefused."""
        fields = _fields(cursors)
        if not self._file.fits(fields):
            raise RequestRefused(Code.TOO_LARGE, f"the positions of {len(cursors)} consumers do not fit their file")
        try:
            await on_log_thread(self._half, lambda: self._file.write(fields))
        except DiskFull as error:
            raise RequestRefused(Code.NO_SPACE, str(error)) from error
        self._cursors = cursors

    async def _close(self) -> None:
        now = self._half.scheduler.time()
        if not self._closed and any(was != is_ for was, is_ in self._silences(now)):
            await self._keep_silences(now)
        self._closed = True
        self._file.close()

    def _ack(self) -> None:
        """Acks the log, after the file is written: events that a crash would repeat must still be there."""
        if self._cursors and self.floor - 1 > self._log.low:
            self._log.ack(1, self.floor - 1)
            self._acked()

    def _load(self) -> dict[str, Cursor]:
        log, floor, after = self._half.log, self._log.low + 1, self._log.durable + 1
        try:
            known = self._read()
        except ValueError as error:
            log.error(
                "consumers not read", file=self._log.directory.file(CONSUMERS), error=str(error), starts_at=floor
            )
            known = {}
        names = self._declared
        if self._admission is not None:
            names += tuple(name for name in known if name not in names and name != PLAIN)
        for name in sorted(set(known) - set(names)):
            log.warning("consumer dropped", consumer=name, committed=known[name].position)
        found: dict[str, Cursor] = {}
        for name in names:
            cursor = known.get(name)
            if cursor is None:
                log.info("consumer new", consumer=name, starts_at=floor)
                cursor = Cursor(floor)
            elif cursor.position > after:
                log.error("consumer beyond the log", consumer=name, committed=cursor.position, starts_at=after)
                cursor = cursor._replace(position=after)
            found[name] = cursor
        # written now: the log acks what it has lost, and a consumer that has not committed it must know
        if found != known:
            self._file.write(_fields(found))
        else:
            self._file.make_slots(_fields(found))
        return found

    def _read(self) -> dict[str, Cursor]:
        """Raises ValueError, DiskFull, FailStop."""
        try:
            known = self._file.read()
        except ReadFailed as error:  # the next start may read it; this one would begin at the floor
            raise Unusable(str(error)) from error
        return {name: Cursor(**cursor) for name, cursor in known.items()}  # type: ignore[arg-type]

    def _measure(self, name: str) -> None:
        self._half.gauge("spark_lag_events", lambda: self.lag(name), consumer=name)
        self._half.gauge("spark_owed_events", lambda: self.owed(name), consumer=name)
        self._half.gauge("consumer_position", lambda: self.committed(name), consumer=name)
        self._half.gauge("consumer_away_seconds", lambda: self.away(name), consumer=name)


def _fields(cursors: Mapping[str, Cursor]) -> dict[str, dict[str, object]]:
    return {name: cursor._asdict() for name, cursor in cursors.items()}


def _when(cursor: Cursor) -> str:
    if not cursor.time_ns:
        return "never"
    at = datetime.datetime.fromtimestamp(cursor.time_ns // 1_000_000_000, datetime.UTC)
    return f"at {at:%Y-%m-%dT%H:%M:%SZ}" + (f" from {cursor.peer}" if cursor.peer else "")
