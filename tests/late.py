"""The rows of a table that `make nightly` runs; the first ones are enough for each push."""

from collections.abc import Iterator

import pytest


def late(*rows: object) -> Iterator[object]:
    """Each of `rows`, a tuple for a test of several parameters, as one of nightly's."""
    for row in rows:
        yield pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.nightly)
