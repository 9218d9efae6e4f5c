"""A life is killed at its n-th call of one kind."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.faults.lives import Nursery, Script
from tests.faults.strace import begun, options, was_killed_in

Point = tuple[str, int]


def kill(lives: Nursery, script: Script, point: Point, log: Path) -> Counter[str]:
    """What came after it. Asserts that it died where it was to."""
    name, number = point
    said = lives.live(script.begin(), log, options(f"{name}:signal=SIGKILL:when={number}"))
    assert said.code == -9, f"it ended with {said.code}"
    assert was_killed_in(log, name)
    assert begun(log)[name] == number
    return script.still_there(said)


def sweep(lives: Nursery, script: Script, at: Iterable[Point], log: Path) -> Iterator[Counter[str]]:
    """One of each after the other."""
    for point in at:
        try:
            came = kill(lives, script, point, log)
        except AssertionError as error:
            raise AssertionError(f"killed at {point[0]} {point[1]}: {error}") from error
        yield came + Counter(kills=1)
