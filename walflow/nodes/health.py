"""The state of a connector. From all states follows whether the daemon is ready."""

from collections.abc import Callable
from typing import Literal

State = Literal["starting", "up", "restarting", "finished", "stopped"]


def _nothing() -> None: ...


class Health:
    """`up`: the current run takes or sends events, so its socket listens or its files are open. `restarting`: from a
    failure until the next run is up. `finished`: the run ended without an error, and no other run follows."""

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
