"""How far each consumer is. The log is acked up to the slowest of them, and never before the file says so too.

`<path>/consumers` is one line of JSON and one with its checksum, written anew at each commit:

    {"log": "…", "consumers": {"spark": {"position": 120, "time_ns": …, "peer": "127.0.0.1:4000", "scan": "…"}}}
    crc32 1a2b3c4d

A scan is one checkpoint's way through the log: its name is in that checkpoint's offsets. The last one that committed
has the consumer, and another is refused until it says that it knows: it has not seen what was committed before it.

A file that is damaged or missing costs repetition and no event: every consumer begins at the floor, which is where
the log itself knows that all before was committed.
"""

import datetime
import json
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from connectors.spark.serial_tasks import SerialTasks, on_log_thread
from pyspark_walflow.wire import Code, RequestRefused
from walflow import DiskFull, Half
from walflow.durable import replace
from walflow.wal import Log

FILE: Final = "consumers"
LARGEST: Final = 1 << 20
PLAIN: Final = "(socket)"  # the plain listener's own position; no name that HELLO could have declared


class Cursor(NamedTuple):
    """`position`: the next position to read. `time_ns`, `peer`, `scan`: of the last commit; 0 and empty if there was
    none, or the client did not say."""

    position: int
    time_ns: int = 0
    peer: str = ""
    scan: str = ""


class Consumers:
    """`acked` is called when more of the log was acked. Belongs to the loop."""

    def __init__(self, log: Log, names: Sequence[str], half: Half, acked: Callable[[], None]) -> None:
        self._log = log
        self._half = half
        self._acked = acked
        self._directory = log.directory
        self._turns = SerialTasks()
        self._closed = False
        self._served: dict[str, int] = {}
        self._held_until = 0.0
        self._commits = half.counter("spark_commits_total")
        self.names = tuple(names)
        self._cursors = self._load()
        for name in self.names:
            self._measure(name)
        self._ack()

    def __repr__(self) -> str:
        return f"<Consumers {', '.join(f'{name} at {self.committed(name)}' for name in self.names)}>"

    @property
    def floor(self) -> int:
        """The first position that some consumer has not committed. Below it nothing can be read."""
        return min((cursor.position for cursor in self._cursors.values()), default=self._log.low + 1)

    def committed(self, name: str) -> int:
        """The next position that the consumer needs. Raises RequestRefused."""
        return self._cursor(name).position

    def check_scan(self, name: str, scan: str) -> None:
        """Raises RequestRefused if another scan has committed."""
        cursor = self._cursor(name)
        if cursor.time_ns and cursor.scan != scan:
            raise RequestRefused(
                Code.NEW_CHECKPOINT,
                f"consumer {name!r} belongs to another checkpoint, which committed all below {cursor.position} "
                f"{_when(cursor)}",
            )

    async def commit(self, name: str, position: int, peer: str = "", scan: str = "") -> int:
        """The consumer has processed all positions below `position`. This is durable when the call returns. A position
        below an earlier commit changes nothing. Raises RequestRefused."""
        self._check(name, position)
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

    def owed(self, name: str) -> int:
        return max(0, self._served.get(name, 0) - self._cursors[name].position)

    def below_floor(self, position: int) -> RequestRefused:
        """Names the process that committed last."""
        name, cursor = max(self._cursors.items(), key=lambda one: one[1].time_ns, default=("", Cursor(0)))
        who = f"consumer {name!r} committed all below {cursor.position} {_when(cursor)}"
        return RequestRefused(
            Code.BELOW_FLOOR,
            f"position {position} is gone, the first that can be read is {self.floor}: "
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
            declared = ", ".join(self.names) or "none"
            raise RequestRefused(
                Code.UNDECLARED, f"no consumer {name!r} is declared in the flow; declared: {declared}"
            )
        return cursor

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
        cursor = Cursor(position, time.time_ns(), peer, scan or self._cursor(name).scan)
        cursors = {**self._cursors, name: cursor}
        text = self._text(cursors)
        try:
            await on_log_thread(self._half, lambda: self._write(text))
        except DiskFull as error:
            raise RequestRefused(Code.NO_SPACE, str(error)) from error
        self._cursors = cursors
        self._commits.value += 1
        self._ack()

    async def _close(self) -> None:
        self._closed = True

    def _ack(self) -> None:
        """Acks the log, after the file is written: events that a crash would repeat must still be there."""
        if self._cursors and self.floor - 1 > self._log.low:
            self._log.ack(1, self.floor - 1)
            self._acked()

    def _text(self, cursors: dict[str, Cursor]) -> bytes:
        consumers = {name: cursor._asdict() for name, cursor in cursors.items()}
        line = json.dumps({"log": self._log.uuid, "consumers": consumers}).encode() + b"\n"
        return line + b"crc32 %08x\n" % zlib.crc32(line)

    def _write(self, text: bytes) -> None:
        replace(self._directory, FILE, [text])

    def _load(self) -> dict[str, Cursor]:
        log, floor, after = self._half.log, self._log.low + 1, self._log.durable + 1
        try:
            known = self._read()
        except ValueError as error:
            log.error("consumers not read", file=self._directory.file(FILE), error=str(error), starts_at=floor)
            known = {}
        for name in sorted(set(known) - set(self.names)):
            log.warning("consumer dropped", consumer=name, committed=known[name].position)
        found: dict[str, Cursor] = {}
        for name in self.names:
            cursor = known.get(name)
            if cursor is None:
                log.info("consumer new", consumer=name, starts_at=floor)
                cursor = Cursor(floor)
            elif cursor.position > after:
                log.error("consumer beyond the log", consumer=name, committed=cursor.position, starts_at=after)
                cursor = cursor._replace(position=after)
            found[name] = cursor
        if (
            found != known
        ):  # written now: the log acks what it has lost, and a consumer that has not committed it must know
            self._write(self._text(found))
        return found

    def _read(self) -> dict[str, Cursor]:
        """Raises ValueError."""
        disk, path = self._directory.disk, self._directory.file(FILE)
        if FILE not in disk.names(self._directory.path):
            return {}
        try:
            fd = disk.open(path)
            try:
                data = disk.read(fd, LARGEST, 0)
            finally:
                disk.close(fd)
        except OSError as error:
            raise ValueError(error.strerror) from error
        line, _, checksum = data.partition(b"\n")
        if checksum != b"crc32 %08x\n" % zlib.crc32(line + b"\n"):
            raise ValueError("damaged: its checksum is wrong")
        fields = json.loads(line)
        if fields["log"] != self._log.uuid:
            raise ValueError("of another log")
        return {str(name): Cursor(**cursor) for name, cursor in fields["consumers"].items()}

    def _measure(self, name: str) -> None:
        self._half.gauge("spark_lag_events", lambda: self.lag(name), consumer=name)
        self._half.gauge("spark_owed_events", lambda: self.owed(name), consumer=name)


def _when(cursor: Cursor) -> str:
    if not cursor.time_ns:
        return "never"
    at = datetime.datetime.fromtimestamp(cursor.time_ns // 1_000_000_000, datetime.UTC)
    return f"at {at:%Y-%m-%dT%H:%M:%SZ}" + (f" from {cursor.peer}" if cursor.peer else "")
