"""Says how far a log's time is ahead of the wall clock: one line when it gets ahead, one when it is no more."""

from typing import Final

from walflow.contract import Half
from walflow.wal import Log

SAID: Final = 1_000_000_000  # nanoseconds: NTP sets a clock back by less without anybody's being surprised
LONG: Final = 3600 * 1_000_000_000


class Lead:
    def __init__(self, log: Log, half: Half) -> None:
        self._time = log.time
        self._log = half.log
        self._said = self._warned = False
        self.look()

    def seconds(self) -> float:
        self._time.look()
        return self._time.lead_ns / 1e9

    def look(self) -> None:
        """To be called with each commit, before which the log has looked at the clocks."""
        lead = self._time.lead_ns
        if lead >= LONG and not self._warned:
            self._said = self._warned = True
            self._log.warning(
                "log time is more than an hour ahead of the clock",
                lead_seconds=round(lead / 1e9, 1),
                hint="events get stamps that are as far ahead; windows and ages are right. Only a new directory "
                "begins with the clock's time",
            )
        elif lead >= SAID and not self._said:
            self._said = True
            self._log.info("log time is ahead of the clock, which was set back", lead_seconds=round(lead / 1e9, 1))
        elif lead < SAID and self._said:
            self._said = self._warned = False
            self._log.info("log time is the clock's again")
