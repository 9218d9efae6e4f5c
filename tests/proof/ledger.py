"""What was proved so far: how many images were judged, of which stories, cuts and depths.
It is a file between runs."""

import os
from collections import Counter
from typing import Final, Self

import msgspec
from rich.table import Table

DEPTHS: Final = ("at work", "in recovery", "in the recovery after that", "in the one after that")


class Row(msgspec.Struct):
    """Of one kind of story. `cuts`: operations before which the power was cut. `images` came of that, `distinct` of
    them by hash; `judged`: a distinct one is judged again where something else is to be expected of it. Of the
    distinct ones: `kinds`, what the cut did, and `depths`, where it was. `seconds` of CPU time."""

    runs: int = 0
    operations: int = 0
    cuts: int = 0
    images: int = 0
    distinct: int = 0
    judged: int = 0
    seconds: float = 0.0
    kinds: dict[str, int] = {}
    depths: dict[str, int] = {}

    def add(self, other: "Row") -> None:
        self.runs += other.runs
        self.operations += other.operations
        self.cuts += other.cuts
        self.images += other.images
        self.distinct += other.distinct
        self.judged += other.judged
        self.seconds += other.seconds
        self.kinds = dict(Counter(self.kinds) + Counter(other.kinds))
        self.depths = dict(Counter(self.depths) + Counter(other.depths))


class Ledger(msgspec.Struct):
    """`next`: by source of stories, the seed of the next one; none is ever told twice. `broken`: a line each."""

    seconds: float = 0.0
    next: dict[str, int] = {}
    rows: dict[str, Row] = {}
    broken: list[str] = []

    @classmethod
    def load(cls, path: str) -> Self:
        """An empty one where there is no file. Raises OSError, or msgspec.DecodeError: it is something else."""
        try:
            with open(path, "rb") as file:
                return msgspec.json.decode(file.read(), type=cls)
        except FileNotFoundError:
            return cls()

    def save(self, path: str) -> None:
        with open(f"{path}.tmp", "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(self)))
        os.replace(f"{path}.tmp", path)

    def take(self, source: str) -> int:
        seed = self.next.get(source, 0)
        self.next[source] = seed + 1
        return seed

    def add(self, name: str, row: Row) -> None:
        self.rows.setdefault(name, Row()).add(row)

    @property
    def total(self) -> Row:
        total = Row()
        for row in self.rows.values():
            total.add(row)
        return total

    def table(self) -> Table:
        table = Table(title=f"{self.seconds / 60:.1f} minutes, {len(self.broken)} promises broken")
        table.add_column("stories")
        for column in ("runs", "operations", "cuts", "images", "distinct", "judged", "per CPU s"):
            table.add_column(column, justify="right")
        for name, row in sorted(self.rows.items()):
            table.add_row(name, *_figures(row))
        table.add_section()
        table.add_row("all", *_figures(self.total))
        return table

    def shares(self) -> Table:
        """Of the distinct images."""
        table = Table(title="distinct images by what the power cut left of what was not synced, and when it came")
        for _ in range(2):
            table.add_column()
            table.add_column(justify="right")
        total = self.total
        kinds = [(kind, f"{count:,}") for kind, count in sorted(total.kinds.items())]
        depths = [(depth, f"{total.depths.get(depth, 0):,}") for depth in DEPTHS]
        for number in range(max(len(kinds), len(depths))):
            left = kinds[number] if number < len(kinds) else ("", "")
            right = depths[number] if number < len(depths) else ("", "")
            table.add_row(*left, *right)
        return table


def _figures(row: Row) -> list[str]:
    counts = (row.runs, row.operations, row.cuts, row.images, row.distinct, row.judged)
    rate = row.judged / row.seconds if row.seconds else 0
    return [f"{count:,}" for count in (*counts, round(rate))]
