"""The state of a connector. From all states follows whether the daemon is ready."""

from collections.abc import Callable
from typing import Literal

State = Literal["starting", "up", "restarting", "finished", "stopped"]


def _nothing() -> None: ...
def _unexplained() -> str:
    return ""


class Health:
    """`up`: the current run takes or sends events, so its socket listens or its files are open. `restarting`: from a
    failure until the next run is up. `finished`: the run ended without an error, and no other run follows.
    `cannot_listen`: it is restarting because its address is in use, or cannot be listened on."""

    __slots__ = ("_explained", "cannot_listen", "on_change", "reason", "state")

    def __init__(self) -> None:
        self.state: State = "starting"
        self.reason = ""
        self.cannot_listen = False
        self._explained = _unexplained
        self.on_change: Callable[[], None] = _nothing

    def __repr__(self) -> str:
        return f"<Health {self.state}{': ' if self.reason else ''}{self.reason}>"

    @property
    def ready(self) -> bool:
        return self.state in ("up", "finished")

    @property
    def why(self) -> str:
        """The reason of the state; or what the run itself says that it waits for."""
        return self.reason or self._explained()

    def explain(self, tell: Callable[[], str]) -> None:
        self._explained = tell
        self.on_change()

    def up(self) -> None:
        if self.state != "up":
            self.becomes("up")

    def becomes(self, state: State, reason: str = "", *, cannot_listen: bool = False) -> None:
        self.state = state
        self.reason = reason
        self.cannot_listen = cannot_listen
        if state != "up":
            self._explained = _unexplained
        self.on_change()
