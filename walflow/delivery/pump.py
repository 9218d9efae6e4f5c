"""A function that is called when there may be something to do, and never inside itself."""

from collections.abc import Callable

from walflow.contract import Scheduler


class Pump:
    """What `work` sends may settle at once, and then asks for more work. `now` during a run means one more run after
    it. `soon` means a run in the loop's next turn, once for all that asked; during a run it means nothing, because
    the run goes on anyway."""

    def __init__(self, scheduler: Scheduler, work: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._work = work
        self._running = self._again = self._planned = self._rests = False

    def now(self) -> None:
        if self._running:
            self._again = True
            return
        self._running = True
        try:
            self._work()
            while self._again and not self._rests:
                self._again = False
                self._work()
        finally:
            self._running = self._again = self._rests = False

    def soon(self) -> None:
        if not self._running and not self._planned:
            self._planned = True
            self._scheduler.call_soon(self._due)

    def later(self) -> None:
        """In the loop's next turn, also during a run: the rest of this turn is for others."""
        self._rests = self._running
        if not self._planned:
            self._planned = True
            self._scheduler.call_soon(self._due)

    def _due(self) -> None:
        self._planned = False
        self.now()
