"""The state of a connector, for the question whether the daemon is ready."""

from collections.abc import Callable
from typing import Literal

State = Literal["starting", "up", "restarting", "finished", "stopped"]


def _nothing() -> None: ...


class Health:
    """`up`: the present run has begun to take or to give, so it listens, or its files are open. `restarting` lasts
    from a failure until the next run is up. `finished`: it has nothing more to say, which is no trouble."""

    __slots__ = ("on_change", "reason", "state")

    def __init__(self) -> None:
        self.state: State = "starting"
        self.reason = ""
        self.on_change: Callable[[], None] = _nothing

    def __repr__(self) -> str:
        return f"<Health {self.state}{': ' if self.reason else ''}{self.reason}>"

    @property
    def ready(self) -> bool:
        return self.state in ("up", "finished")

    def up(self) -> None:
        if self.state != "up":
            self.becomes("up")

    def becomes(self, state: State, reason: str = "") -> None:
        self.state = state
        self.reason = reason
        self.on_change()
