"""Where the tests of a part are: `make unit ARGS=walflow/wal` runs `tests/wal`.

The tests mirror the tree: `walflow/` is left out, each other name is kept. What has no directory has files:
`connectors/http` is `tests/connectors/test_http*.py`, `walflow/receipt.py` is `tests/test_receipt.py`, and of a part
without files of that name it is the room around it. What follows is pytest's: `ARGS="walflow/wal -k name"`.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


class NoTests(Exception):
    """The text says of what."""


def tests_of(part: str, root: Path) -> list[Path]:
    """Directories and files for pytest, below `root`. Raises NoTests."""
    path = root / part
    if not path.exists():
        raise NoTests(f"{part} does not exist")
    names = list(Path(part).with_suffix("").parts)
    if names[0] == "tests":
        return [Path(part)]
    if names[0] == "walflow":
        del names[0]
    for candidate in _candidates(root, names):
        if candidate:
            return [one.relative_to(root) for one in candidate]
    raise NoTests(f"{part} has no tests of its own")


def _candidates(root: Path, names: Sequence[str]) -> Iterator[list[Path]]:
    """From the nearest on."""
    while names:
        room = root.joinpath("tests", *names)
        yield [room] if room.is_dir() else []
        yield sorted([*room.parent.glob(f"test_{room.name}.py"), *room.parent.glob(f"test_{room.name}_*.py")])
        names = names[:-1]


def main(words: Sequence[str]) -> int:
    parts = list(takewhile(lambda word: not word.startswith("-"), words))
    if not parts:
        sys.exit("which part? make unit ARGS=walflow/wal")
    try:
        found = [str(path) for part in parts for path in tests_of(part.rstrip("/"), ROOT)]
    except NoTests as error:
        sys.exit(str(error))
    both = ["-n", "2"] if any((ROOT / one).is_dir() for one in found) else []  # a second process costs a second
    command = [sys.executable, "-m", "pytest", "--tier", "quick", *both, *dict.fromkeys(found), *words[len(parts) :]]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
