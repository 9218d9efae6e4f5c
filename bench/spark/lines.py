"""Numbered lines of JSON of an exact size, no two alike in any field.

What repeats flatters a reader of parquet twice, by its dictionaries and by its compression: so text is cut from a
pool of random characters that is larger than what either looks back on.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

SCHEMA: Final = "id long, user string, amount double, text string"
POOL: Final = 8 << 20  # characters
STRIDE: Final = 1_000_003  # of the pool, from line to line: a prime
SHORTEST: Final = 80
AT_ONCE: Final = 10_000  # lines


class Data(NamedTuple):
    """Files of `rows` lines each, every line of `size` bytes with its newline; ids run on from 0."""

    size: int
    rows: int
    files: tuple[Path, ...]

    @property
    def total(self) -> int:
        return self.rows * len(self.files)

    @property
    def directory(self) -> Path:
        return self.files[0].parent


class Lines:
    def __init__(self, size: int) -> None:
        if size < SHORTEST:
            raise ValueError(f"a line of {size} bytes has no room for its fields")
        self._size = size
        self._pool = random.Random(size).randbytes(POOL // 2).hex()

    def line(self, number: int) -> str:
        """With its newline."""
        user, cents = number * 7919 % 1_000_000_007, number * 6101 % 10_000_019
        start = f'{{"id":{number},"user":"u{user}","amount":{cents / 100:.2f},"text":"'
        length = self._size - len(start) - len('"}\n')
        at = number * STRIDE % (POOL - self._size)
        return f'{start}{self._pool[at : at + length]}"}}\n'

    def some(self, first: int, count: int) -> Iterator[bytes]:
        for low in range(first, first + count, AT_ONCE):
            high = min(low + AT_ONCE, first + count)
            yield "".join(map(self.line, range(low, high))).encode()


def write(directory: Path, size: int, rows: int, files: int) -> Data:
    directory.mkdir()
    lines = Lines(size)
    paths = tuple(directory / f"{number:03}.json" for number in range(files))
    for number, path in enumerate(paths):
        with path.open("wb") as file:
            file.writelines(lines.some(number * rows, rows))
    return Data(size, rows, paths)
