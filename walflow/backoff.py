"""How long to wait before the next attempt."""

from collections.abc import Callable
from typing import Final

GROWTH: Final = 1.5


class Backoff:
    """`first` seconds after one failure, each time `growth` times as long, up to `longest`. `draw`, if there is one,
    takes a wait between the one before and the full one, so that many who failed together do not come back together.
    `most`: failures in a row before it gives up; None: never."""

    def __init__(
        self,
        first: float,
        longest: float,
        growth: float = GROWTH,
        *,
        draw: Callable[[float, float], float] | None = None,
        most: int | None = None,
    ) -> None:
        self.failures = 0  # in a row
        self._first = first
        self._longest = longest
        self._growth = growth
        self._draw = draw
        self._most = most

    def __repr__(self) -> str:
        return f"<Backoff {self.failures} failures, next {self.after(self.failures + 1):.2f} s>"

    @property
    def gave_up(self) -> bool:
        """The last failure was one too many."""
        return self._most is not None and self.failures > self._most

    def after(self, failures: int) -> float:
        """Seconds to wait after so many in a row, without `draw`."""
        try:
            return min(self._longest, self._first * self._growth ** (failures - 1))
        except OverflowError:
            return self._longest

    def next(self) -> float:
        """Seconds to wait after one more failure."""
        self.failures += 1
        wait = self.after(self.failures)
        if self._draw is None or self.failures == 1:
            return wait
        return self._draw(self.after(self.failures - 1), wait)

    def reset(self) -> None:
        """It has worked: the next failure is the first again."""
        self.failures = 0
