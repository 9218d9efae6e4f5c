"""While no sink takes anything, what a daemon holds of events stays within its windows, however much is sent."""

import asyncio
import gc
from typing import Final
from unittest.mock import patch

import pytest

from tests.simulation.flows import FAR, NEAR, Shape
from tests.simulation.story import Step, Story
from tests.simulation.teller import Teller
from walflow import Block
from walflow.delivery.source import WINDOWS
from walflow.nodes.window import WINDOW

PAD: Final = 40_000  # bytes by which each event is larger
EVENTS: Final = 1_000  # 40 MB of a client
ONCE_MORE: Final = 1 << 20  # bytes: an event that comes may be as large, and is taken while a window has room

ROOMY: Final = Shape(("apart",), "all", err=False, chunk=1 << 26, chunks=4)  # its logs do not fill
SHAPES: Final = {
    "no log": ROOMY._replace(between=()),
    "a log": ROOMY,
    "lanes together": ROOMY._replace(between=("together",), pipeline="odd", err=True),
    "two logs": ROOMY._replace(between=("apart", "apart")),
    "a buffer": ROOMY._replace(between=("memory",)),
    "requests": ROOMY._replace(pipeline="robin", door="http", exits=("http", "tcp")),
    "streams": ROOMY._replace(pipeline="batch", door="tcp", exits=("tcp", "tcp")),
    "files": ROOMY._replace(door="follow", exits=("http", "http")),
}


def held() -> int:
    """Bytes of events in all blocks that there are, each piece of memory once."""
    pieces = {id(one.frames.data): len(one.frames.data) for one in gc.get_objects() if isinstance(one, Block)}
    return sum(pieces.values())


class _Weighing(Teller):
    """`weights`: of what is held, after each wait."""

    weights: tuple[int, ...] = ()

    async def _do(self, step: Step) -> None:
        await super()._do(step)
        if step.what == "wait":
            self.weights += (held(),)

    async def _until_all_is_done(self) -> None:
        await asyncio.sleep(0)

    def _judge(self) -> None: ...


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_held_is_bounded(shape: str) -> None:
    before = held()
    silent = (Step("silent", 0.0, NEAR), Step("silent", 0.0, FAR))
    teller = _Weighing(Story(SHAPES[shape], (*silent, *[Step("wait", 10.0)] * 2), events=EVENTS, pad=PAD))
    teller.run()
    weights = [weight - before for weight in teller.weights]
    windows = SHAPES[shape].clients + WINDOWS * len(SHAPES[shape].between)
    assert 0 < max(weights) <= windows * (WINDOW + ONCE_MORE), weights


def test_a_window_without_an_end_is_noticed() -> None:
    wide = patch("walflow.nodes.window.WINDOW", 1 << 40), patch("walflow.wal.log.WINDOW", 1 << 40)
    with wide[0], wide[1], pytest.raises(AssertionError):
        test_what_is_held_is_bounded("a log")
