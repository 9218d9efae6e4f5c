"""What a sink has failed last, for how long, and how often in a row."""

from typing import Final

MAKE_ROOM: Final = "make room: it goes on by itself"
NO_ROOM: Final = ("No space left", "Disk quota exceeded")
QUIET: Final = (
    60.0  # seconds without a failure after which the next one is new trouble; waits between tries are shorter
)


def advice_on(cause: str) -> str:
    """What to do about a disk, or a log, that is full. "": it is neither."""
    if any(one in cause for one in NO_ROOM):
        return MAKE_ROOM
    if cause.startswith("the log is full"):
        return "its sinks do not take its events: `walflow status` says why"
    return ""


class SinkFailures:
    """`row`: failed tries since the sink has taken something. 0: it has taken something since the last one.
    `position`: of the event in its log, 0 if it has none. `began`: when the present trouble began. `last`: the last
    failure. Both by the scheduler's clock."""

    __slots__ = ("began", "cause", "last", "position", "row", "total")

    def __init__(self) -> None:
        self.total = 0
        self.row = 0
        self.cause = ""
        self.position = 0
        self.began = 0.0
        self.last = 0.0

    def __repr__(self) -> str:
        return f"<SinkFailures {self.total}, {self.row} in a row: {self.cause}>"

    def note(self, cause: str, position: int, now: float) -> None:
        if not self.row and (not self.total or now - self.last > QUIET):
            self.began = now
        self.total += 1
        self.row += 1
        self.cause = cause
        self.position = position
        self.last = now

    def took(self) -> None:
        """The sink has taken something, or can."""
        self.row = 0

    def seconds(self, now: float) -> float:
        """How long the trouble has lasted. 0: there is none now."""
        return now - self.began if self.total and (self.row or now - self.last <= QUIET) else 0.0
