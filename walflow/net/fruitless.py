"""Whether one event may be what ends each connection to a peer."""

from typing import Final

from walflow.contract import Inlet
from walflow.errors import HandedBack, OneOfMany

FRUITLESS: Final = (
    3  # connections in a row that ended with events on them, and none delivered; then the log gets them back
)


class EndsEach(HandedBack, OneOfMany):
    """Several connections, one after the other, ended with events on them, and none was delivered:
    one of them may be what ends them."""


class FruitlessConnections:
    """Which event it is, is decided by a log behind it, which sends others first and divides what was sent together
    (decision 0047)."""

    def __init__(self, inlet: Inlet) -> None:
        self._behind_log = inlet.upstream.behind_log
        self._row = 0

    def ended(self, sent: int, unanswered: int) -> bool:
        """A connection has ended, on which so many events were sent.
        True: give those that are held back to the log."""
        if sent > unanswered:
            self._row = 0
        elif sent:
            self._row += 1
        return self._behind_log and self._row > FRUITLESS
