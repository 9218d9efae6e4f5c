"""The reasons why a source may not read. Each reason has a key, so a sink can remove only its own reason."""

from collections.abc import Callable, Sequence


def _nothing() -> None: ...


class ReasonGate:
    """Open while it has no reason. `on_shut` and `on_open` are called only when it changes."""

    __slots__ = ("on_open", "on_shut", "reasons")

    def __init__(self, on_shut: Callable[[], None] = _nothing, on_open: Callable[[], None] = _nothing) -> None:
        self.reasons: dict[str, str] = {}
        self.on_shut = on_shut
        self.on_open = on_open

    def __repr__(self) -> str:
        return f"<ReasonGate shut by {', '.join(sorted(self.reasons))}>" if self.reasons else "<ReasonGate open>"

    def watch(self, on_shut: Callable[[], None], on_open: Callable[[], None]) -> None:
        self.on_shut = on_shut
        self.on_open = on_open

    @property
    def shut(self) -> bool:
        return bool(self.reasons)

    def trigger(self, key: str, reason: str) -> None:
        was_open = not self.reasons
        self.reasons[key] = reason
        if was_open:
            self.on_shut()

    def restore(self, key: str) -> None:
        if self.reasons.pop(key, None) is not None and not self.reasons:
            self.on_open()


class AllGates(ReasonGate):
    """Of a source whose lanes have gates of their own: it is shut together with all of them."""

    __slots__ = ("_gates",)

    def __init__(self, gates: Sequence[ReasonGate]) -> None:
        super().__init__()
        self._gates = gates

    def trigger(self, key: str, reason: str) -> None:
        super().trigger(key, reason)
        for gate in self._gates:
            gate.trigger(key, reason)

    def restore(self, key: str) -> None:
        super().restore(key)
        for gate in self._gates:
            gate.restore(key)
