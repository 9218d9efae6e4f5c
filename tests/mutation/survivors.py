"""The mutants that no test can tell from the log as it is, each with the reason."""

import tomllib
from pathlib import Path

from tests.mutation.rows import Row


def explained() -> dict[str, str]:
    """The reason, by the key of the row."""
    with open(Path(__file__).with_name("survivors.toml"), "rb") as file:
        return {f"{name} {key}": why for name, keys in tomllib.load(file).items() for key, why in keys.items()}


def stale(rows: list[Row]) -> list[str]:
    """What is explained and stands in no table any more."""
    known = {row.key for row in rows if not row.reason}
    return [key for key in explained() if key not in known]
