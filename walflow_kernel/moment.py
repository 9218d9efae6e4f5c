"""The time and the position of an event: everything that functions without arguments can depend on."""

from typing import Final

_MASK: Final = (1 << 64) - 1
_STEP: Final = 0x9E3779B97F4A7C15  # the three constants are those of SplitMix64


class Moment:
    """`ingest_ns`: when the event came in. Random numbers depend on `salt` and on the position of the event. So the
    same event, sent again, gets the same numbers."""

    __slots__ = ("_state", "ingest_ns", "salt")

    def __init__(self, ingest_ns: int = 0, salt: int = 0) -> None:
        self.ingest_ns = ingest_ns
        self.salt = salt
        self._state = 0

    def seed(self, position: int) -> None:
        self._state = _mixed((self.salt + _mixed(position & _MASK)) & _MASK)

    def draw(self) -> int:
        """64 bits."""
        self._state = self._state + _STEP & _MASK
        return _mixed(self._state)

    def random(self) -> float:
        """A number, at least 0 and less than 1."""
        return (self.draw() >> 11) * 2.0**-53

    def below(self, bound: int) -> int:
        """At least 0 and less than `bound`, all with the same probability. `bound` is positive."""
        bits = bound.bit_length()
        while True:
            number, have = self.draw(), 64
            while have < bits:
                number, have = number << 64 | self.draw(), have + 64
            number >>= have - bits
            if number < bound:
                return number


def _mixed(value: int) -> int:
    value = (value + _STEP) & _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31
