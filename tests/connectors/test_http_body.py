"""A small body whose events are all good is judged at once, and the same is said of it as event by event."""

from collections.abc import Generator, Iterator

import pytest
from hypothesis import given, strategies as st

from connectors.http.body import BLOCK_BYTES, BodyLimits, Judged, Kind, judge, judged_at_once
from tests.nodes.world import Taker, World
from walflow import Codec
from walflow.codecs import JSON, STRING
from walflow.framing import LINES, MESSAGES, Incoming

LIMITS = BodyLimits(body=1000, event=12, events=5)
lines = st.sampled_from([b"1", b'{"a": 2}', b"", b"{", b"\xff", b'"longer than its limit"', b"1\r", b"[1,\n2]", b"x"])


def joined(found: list[bytes], end: bytes) -> bytes:
    return b"\n".join(found) + end


bodies = st.builds(joined, st.lists(lines, max_size=7), st.sampled_from([b"", b"\n"]))


@given(bodies, st.sampled_from(["one", "lines"]), st.sampled_from([JSON, STRING]), st.booleans())
def test_at_once_it_is_said_what_is_said_event_by_event(
    body: bytes, kind: Kind, codec: Codec, all_or_none: bool
) -> None:
    quick = judged_at_once(body, kind, codec, LIMITS)
    if quick is None:
        return
    out = World().source(Taker(), codec=codec, framing=Incoming((), MESSAGES))
    judging = judge(body, kind, out, out.codec, LIMITS, all_or_none=all_or_none)
    assert said(quick) == said(_result(judging))


def said(judged: Judged) -> object:
    return [frames.payloads() for frames in judged.frames], list(judged.refused)


def _result(judging: Iterator[None]) -> Judged:
    while True:
        try:
            next(judging)
        except StopIteration as end:
            judged: Judged = end.value
            return judged


class _Turns:
    """Of a judge, and then what it says."""

    def __init__(self, judging: Generator[None, None, Judged]) -> None:
        self._judging = judging
        self.judged: Judged | None = None

    def __iter__(self) -> Iterator[None]:
        self.judged = yield from self._judging


@pytest.mark.parametrize("kind", ["lines", "array", "framed"])
def test_a_turn_has_so_many_bytes_too(kind: Kind) -> None:
    """Three events of half a megabyte are three turns: before, they were one."""
    event = b'"' + b"x" * (BLOCK_BYTES * 2) + b'"'
    body = b"[" + b",".join([event] * 3) + b"]" if kind == "array" else (event + b"\n") * 3
    framing = Incoming((), MESSAGES) if kind != "framed" else Incoming((), LINES)
    out = World().source(Taker(), codec=JSON, framing=framing)
    limits = BodyLimits(body=1 << 23, event=1 << 20, events=5)
    judging = judge(body, kind, out, out.codec, limits, all_or_none=True)
    turns = len(list(judging_turns := _Turns(judging)))
    assert judging_turns.judged is not None
    assert sum(frames.count for frames in judging_turns.judged.frames) == 3
    assert turns == 2  # between the three


def test_most_bodies_are_judged_at_once() -> None:
    for body, kind in ((b'{"a": 1}', "one"), (b"1\n2\n", "lines"), (b"1\n2", "lines")):
        assert judged_at_once(body, kind, JSON, LIMITS) is not None  # type: ignore[arg-type]
    for body, kind in ((b"", "one"), (b"1\n\n2", "lines"), (b"1\n" * 6, "lines"), (b"[1]", "array")):
        assert judged_at_once(body, kind, JSON, LIMITS) is None  # type: ignore[arg-type]
