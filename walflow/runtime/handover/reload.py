"""What is known of a reload: who asked for it, how far it is, and how it ended."""

from typing import Final, Literal

import msgspec

from walflow.world import dice, wall_seconds

WATCH_SECONDS: Final = 5.0

Phase = Literal["checking", "checked", "switching", "serving", "failed"]


class Reload(msgspec.Struct):
    """`number`: of this one, at random. `by`: who asked. `asked`: seconds since 1970. `dry`: nothing is to change.
    `lose`: sinks and logs whose events may be lost. `begin`: of sinks that are new behind a log, the first position
    that they get; None: the next one. `watch`: seconds for which the old process stays, once the new
    one serves, to go on if that ends. `errors`: if more events fail or are rejected in them, the new one ends.
    `lines`: what was found. `code`: as the command that failed would end with. `flows`: a hash of the flow files,
    once they are checked. `pid`: of the next process."""

    number: str
    by: str
    asked: float
    dry: bool = False
    lose: list[str] = []
    begin: dict[str, int | None] = {}
    watch: float = WATCH_SECONDS
    errors: int | None = None
    phase: Phase = "checking"
    lines: list[str] = []
    code: int = 0
    flows: str = ""
    pid: int = 0

    @classmethod
    def new(cls, by: str) -> "Reload":
        return cls(f"{dice().getrandbits(32):08x}", by, wall_seconds())

    @property
    def over(self) -> bool:
        return self.phase in ("checked", "serving", "failed")
