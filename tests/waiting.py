"""How a test waits for what no event tells it: it looks again and again, until a file has grown, or a process ended.

A test that passes only because it looks often fails on a starved machine. `make test LOOK=0.15` finds it: each test
then looks again after 0.15 s at the earliest.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from typing import Final

PATIENCE: Final = 100.0  # seconds until what must come is missing; nothing passes by being quick
LOOK: Final = float(os.environ.get("LOOK", "0"))
What = str | Callable[[], object]


def wait_until(true: Callable[[], object], what: What = "", *, patience: float = PATIENCE) -> None:
    """A file that `true` reads need not be there yet. `what` is missing otherwise, in words."""
    for _ in _looks(true, what, patience):
        time.sleep(max(0.01, LOOK))


async def until(true: Callable[[], object], what: What = "", *, patience: float = PATIENCE) -> None:
    """The same, for what happens in the kernel, on a thread or in another process while the loop runs."""
    for _ in _looks(true, what, patience):
        await asyncio.sleep(max(0.001, LOOK))


def _looks(true: Callable[[], object], what: What, patience: float) -> Iterator[None]:
    deadline = time.monotonic() + patience
    while not _holds(true):
        assert time.monotonic() < deadline, what() if callable(what) else what
        yield


def _holds(true: Callable[[], object]) -> object:
    try:
        return true()
    except FileNotFoundError:
        return False
