"""How many images were judged, of which stories and which kinds of cut."""

from collections import Counter
from typing import Final

import msgspec

DEPTHS: Final = ("at work", "in recovery", "in recovery after that", "and in the one after that")


class Row(msgspec.Struct):
    """`images` came, `distinct` of them by hash, `judged` of them: a distinct one is judged again where something
    else is to be expected of it. `cuts`: operations before which the power was cut. `kinds` and `depths`, of the
    distinct ones."""

    runs: int = 0
    operations: int = 0
    cuts: int = 0
    images: int = 0
    distinct: int = 0
    judged: int = 0
    kinds: dict[str, int] = {}
    depths: dict[str, int] = {}

    def add(self, other: "Row") -> None:
        self.runs += other.runs
        self.operations += other.operations
        self.cuts += other.cuts
        self.images += other.images
        self.distinct += other.distinct
        self.judged += other.judged
        self.kinds = dict(Counter(self.kinds) + Counter(other.kinds))
        self.depths = dict(Counter(self.depths) + Counter(other.depths))
