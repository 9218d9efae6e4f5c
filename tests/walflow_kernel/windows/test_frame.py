"""What is counted over the frames of all groups is what a walk over each chain finds."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, strategies as st

from walflow_kernel.windows.frame import COUNT, FILL, Frame, chain, open_frames, opened_at

INTERVALS = st.lists(st.none() | st.integers(1, 50), min_size=1, max_size=4)
FRAME = st.tuples(st.integers(0, 2), st.integers(50, 200))  # events, and when it is due


def chained(frames: Sequence[tuple[int, int]]) -> Frame:
    first: Frame | None = None
    for count, fill in reversed(frames):
        first = [["group"], first, count, fill]
    assert first is not None
    return first


@given(st.data(), INTERVALS)
def test_open_frames_and_the_oldest(data: st.DataObject, intervals: Sequence[int | None]) -> None:
    size = len(intervals)
    groups = data.draw(st.lists(st.lists(FRAME, min_size=size, max_size=size), max_size=5))
    windows: dict[str, Any] = {"groups": {str(at): chained(frames) for at, frames in enumerate(groups)}}
    found = [
        (frame, interval)
        for first in windows["groups"].values()
        for frame, interval in zip(chain(first), intervals, strict=True)
        if frame[COUNT]
    ]
    assert sorted(map(id, open_frames(windows))) == sorted(id(frame) for frame, _ in found)
    opened = [frame[FILL] - interval for frame, interval in found if interval is not None]
    assert opened_at(windows, intervals) == min(opened, default=None)
