"""What is read from a log and waits to be sent."""

from collections import deque
from collections.abc import Callable
from typing import Final

from walflow.backoff import Backoff
from walflow.contract import Outlet
from walflow.delivery.in_flight import InFlight
from walflow.delivery.log_events import LogEvents
from walflow.errors import DiskFull, FailStop, ReadFailed, WalflowError
from walflow.wal import Fetch, Log, Mark

READ_BYTES: Final = 1 << 20  # asked of the log at a time
NOTED_EVERY_NS: Final = 1_000_000_000  # the age of what a lane lacks is known to the second
NO_DESCRIPTOR_DELAY: Final = 1.0  # seconds until a file is tried again that could not be opened
LONGEST_RETRY: Final = 30.0  # seconds, of a disk that fails to read
SLOW_READ: Final = 1.0  # seconds from which on the operator is told of a read
SAID_EVERY: Final = 60.0  # seconds


class ReadAhead:
    """`parts`: the next ones to be sent, in order; it adds to them when there are none. `found_gaps`: called after
    each read, which may have found damage. `again`: called when the log may be read again that could not be, and when
    something was read.

    A read that would wait for the disk waits on a thread of its own, where it holds up nothing but its own lane."""

    def __init__(
        self,
        log: Log,
        mark: Mark,
        out: Outlet,
        parts: deque[InFlight[LogEvents]],
        found_gaps: Callable[[], None],
        again: Callable[[], None],
    ) -> None:
        self.parts = parts
        self.first_ingest_ns = 0  # when what was read first had been received
        self._mark = mark
        self._out = out
        self._found_gaps = found_gaps
        self._again = again
        self._records = log.reader(mark.low + 1)
        self._received: deque[tuple[int, int]] = deque()  # from that position on: when it had been received
        self._reads_later = False
        self._failing = Backoff(NO_DESCRIPTOR_DELAY, LONGEST_RETRY, 2.0)
        self._failures = out.counter("wal_read_failures_total")
        self._fetching: float | None = None  # since when
        self._fetch_now: Fetch | None = None
        self._file = ""  # of which it does so
        self._unreadable = ""  # why the log cannot be read now
        self._quiet_until = 0.0
        self._last_fetch = 0, 0.0  # the position of the next read then, and when it ended
        self._stopped = False

    def fill(self) -> bool:
        """Reads if nothing waits. False: there is nothing to send now."""
        idle = (
            not self.parts and self._fetching is None and not self._stopped and not (self.fails and self._reads_later)
        )
        if idle and (self._is_fetched() or not self._fetch()):
            self._read()
            if self.parts:
                self._fetch()  # what comes behind them is fetched while they are sent
        return bool(self.parts)

    def stop(self) -> None:
        """Reads no more: the log is going to be closed."""
        self._stopped = True

    @property
    def fails(self) -> bool:
        """The disk fails to read what comes next. It is tried again."""
        return self._failing.failures > 0

    def waits_for(self) -> str:
        """Why there is nothing to send now; "": for no reason."""
        if self.parts:
            return ""
        if self._fetching is not None:
            return f"a read of {self._file}, for {self._out.scheduler.time() - self._fetching:.0f} s"
        return f"its log, which cannot be read now: {self._unreadable}" if self._reads_later else ""

    def received_ns(self) -> int:
        """When the oldest event that is not acked had been received. 0: it was not read yet."""
        received, first = self._received, self._mark.low + 1
        while len(received) > 1 and received[1][0] <= first:
            received.popleft()
        return received[0][1] if received else 0

    def _fetch(self) -> bool:
        """Whether the next read would wait for the disk. Then a thread does so, beginning now."""
        cold = self._records.cold(READ_BYTES, failing=self.fails)
        if cold is None:
            return False
        self._fetch_now = cold
        scheduler = self._out.scheduler
        self._fetching, self._file = scheduler.time(), cold.spans[0].path
        scheduler.fetch(cold.run, self._fetched, of=self._out.name)
        return True

    def _is_fetched(self) -> bool:
        """Whether that was done just now for the next read. It is not done twice: if the system keeps nothing in its
        cache, the lane goes on all the same."""
        position, at = self._last_fetch
        return position == self._records.position and self._out.scheduler.time() - at < SLOW_READ

    def _fetched(self, error: BaseException | None) -> None:
        now = self._out.scheduler.time()
        assert self._fetching is not None
        assert self._fetch_now is not None
        self._records.fetched(self._fetch_now)
        seconds = now - self._fetching
        self._fetching = None
        self._last_fetch = self._records.position, now
        if seconds >= SLOW_READ and now >= self._quiet_until:
            self._quiet_until = now + SAID_EVERY
            self._out.log.warning("slow read", seconds=round(seconds, 1), position=self._records.position)
        if error is not None:
            self._out.fatal(error if isinstance(error, WalflowError) else WalflowError(repr(error)))
        self._again()

    def _read(self) -> None:
        try:
            records = self._records.read(READ_BYTES)
        except DiskFull as error:
            self._read_later(error, NO_DESCRIPTOR_DELAY)
            return
        except ReadFailed as error:
            self._failures.value += 1
            self._found_gaps()
            self._read_later(error, self._failing.next())
            return
        except FailStop as error:
            self._out.fatal(error)
        self._failing.reset()
        self._found_gaps()
        self.received_ns()  # forgets what is acked
        if records and not self.first_ingest_ns:
            self.first_ingest_ns = records[0].ingest_ns
        for record in records:
            if not self._received or record.ingest_ns - self._received[-1][1] >= NOTED_EVERY_NS:
                self._received.append((record.position, record.ingest_ns))
            last = record.position + record.count - 1
            self.parts.extend(InFlight(low, high, record) for low, high in self._mark.unacked(record.position, last))

    def _read_later(self, error: DiskFull | ReadFailed, delay: float) -> None:
        """Others ask meanwhile; one timer is enough."""
        if not self._reads_later:
            self._reads_later, self._unreadable = True, str(error)
            self._out.log.warning("log not read", reason=str(error), position=self._records.position, again_in=delay)
            self._out.scheduler.call_later(delay, self._due)

    def _due(self) -> None:
        self._reads_later = False
        self._again()
