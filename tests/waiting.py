"""Waiting for what nobody announces: a file that grows, a process that ends, a thread that has come so far.

A test that only passes where it looks often tells on chance. `LOOK=0.15 make test` finds such tests: they look again
after so many seconds at the earliest.
"""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 100.0  # seconds until what must come is missing; nothing passes by being quick
LOOK: Final = float(os.environ.get("LOOK", "0"))


def wait_until(
    true: Callable[[], object], what: str | Callable[[], object] = "", *, patience: float = PATIENCE
) -> None:
    """A file that `true` reads need not be there yet. `what` is missing otherwise, in words."""
    deadline = time.monotonic() + patience
    while not _holds(true):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(max(0.01, LOOK))


async def until(true: Callable[[], object]) -> None:
    """For what happens in the kernel, on a thread or in another process."""
    async with asyncio.timeout(PATIENCE):
        while not _holds(true):  # noqa: ASYNC110  # nothing tells the loop of it
            await asyncio.sleep(max(0.001, LOOK))


def _holds(true: Callable[[], object]) -> object:
    try:
        return true()
    except FileNotFoundError:
        return False
