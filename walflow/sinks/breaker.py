"""Why the sources of a sink are stopped. There may be several reasons at a time; the breaker is restored with the
last."""

from enum import Enum
from typing import Final

from walflow.contract import Inlet


class StopReason(Enum):
    """The kinds of reasons. The first one that there is, is shown."""

    TROUBLE = "nothing can be delivered now"
    FULL = "enough waits"


class SinkBreaker:
    """The breaker of one inlet. Several engines may share it, each with a `key`: a sink that writes to two
    streams."""

    def __init__(self, inlet: Inlet) -> None:
        self.reason = ""  # that is shown; "": the sources may send
        self.half_open = False  # the sources may send until the next block comes
        self._inlet = inlet
        self._reasons: dict[tuple[StopReason, str], str] = {}

    def __repr__(self) -> str:
        return f"<SinkBreaker {self.reason or 'open'}>"

    def trigger(self, kind: StopReason, reason: str, key: str = "") -> None:
        if self._reasons.get((kind, key)) != reason:
            self._reasons[kind, key] = reason
            self._show()

    def restore(self, kind: StopReason, key: str = "") -> None:
        if self._reasons.pop((kind, key), None) is not None:
            self._show()

    def ask(self) -> None:
        """All that the sink has in hand has failed, perhaps by its own fault: the next block is to show it. The
        reason stays."""
        self.half_open = True
        self._inlet.half_open()

    def answered(self) -> None:
        """It came."""
        if self.half_open:
            self.half_open = False
            self._inlet.trigger(self.reason)

    def _show(self) -> None:
        before, self.reason = self.reason, self._first()
        if self.reason and self.reason != before:
            self._inlet.trigger(self.reason)
            if self.half_open:
                self._inlet.half_open()
        elif before and not self.reason:
            self.half_open = False
            self._inlet.restore()

    def _first(self) -> str:
        for kind in ORDER:
            for (of, _), reason in self._reasons.items():
                if of is kind:
                    return reason
        return ""


ORDER: Final = tuple(StopReason)
