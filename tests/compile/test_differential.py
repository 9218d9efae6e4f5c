"""The answer never depends on the path: what is compiled, projected or whole, a block or a payload at a time, says
what a plain interpreter says of each event.

`python -m tests.compile.test_differential PIPELINES EVENTS SEED` runs as long as one likes.
"""

import pickle
import sys
from collections.abc import Iterator, Sequence
from random import Random
from time import monotonic

import pytest

from tests.compile.pipelines import Ran, event, interpret, region
from tests.examples import shared
from walflow.codecs import JSON, MSGPACK
from walflow.codecs.json import JSON_SORTED
from walflow.compile.compiled import Compiled
from walflow.compile.compiler import compile_region
from walflow.compile.region import Region
from walflow.event import Block, Codec, Frames, Framing, StreamId
from walflow.framing import LENGTH_PREFIXED, LINES, make
from walflow.operators.select import Select
from walflow.receipt import Receipt
from walflow_kernel import json
from walflow_kernel.state import State

PIPED = make([("separate", {"separator": "\x1e"})])


class Taker:
    def __init__(self) -> None:
        self.blocks: list[Block] = []

    def accept(self, block: Block) -> None:
        self.blocks.append(block)
        block.receipt.ack()


class Errors:
    def __init__(self) -> None:
        self.found: list[tuple[int, str]] = []

    def take(self, block: Block, reasons: Sequence[str], details: object = None) -> None:
        assert block.event_metas is not None
        numbers = [meta["i"] for meta in block.event_metas]
        self.found += zip(numbers, reasons, strict=True)  # type: ignore[arg-type]
        block.receipt.ack()


class Counting:
    value = 0


class Whole:
    """A reader that never projects."""

    def __init__(self, compiled: Compiled) -> None:
        self._reader = compiled.reader

    def decode(self, frames: Frames, codec: Codec) -> object:
        return self._reader.decode(frames, codec, project=False)


def run(
    compiled: Compiled,
    payloads: list[bytes],
    codec: Codec,
    framing: Framing,
    state: State | None = None,
    first: int = 0,
) -> Ran:
    """One block. `first`: the position of its first event."""
    takers = {exit: Taker() for exit in compiled.exits}
    errors, filtered, settled = Errors(), Counting(), list[Receipt]()
    count = len(payloads)
    frames = Frames(framing.join(payloads), count, framing)
    receipt = Receipt(settled.append, count)
    metas = metas_of(count, first)
    block = Block(
        StreamId("f::s", 1, 1),
        frames,
        codec,
        receipt,
        ingest_ns=7,
        meta={"m": 1},
        event_metas=metas,
        positions=range(first, first + count),
    )
    Select(compiled, takers, errors, filtered, 3, compiled.new_state() if state is None else state).accept(block)
    assert [one.cause for one in settled] == [None]
    out: dict[str, list[tuple[int, object]]] = {}
    for exit, taker in takers.items():
        out[exit] = []
        for one in taker.blocks:
            assert one.event_metas is not None
            numbers = [number for meta in one.event_metas if isinstance(number := meta["i"], int)]
            assert list(one.positions or ()) == numbers
            out[exit] += zip(numbers, one.frames.payloads(), strict=True)
    return Ran(out, errors.found, filtered.value)


def metas_of(count: int, first: int = 0) -> list[dict[str, object]]:
    return [{"i": number, "n": {"a": number % 3}} for number in range(first, first + count)]


def compare(of: Region, payloads: list[bytes]) -> None:
    compiled = compile_region(of)
    metas = [{"m": 1, **meta} for meta in metas_of(len(payloads))]
    expected = interpret(of, payloads, metas, compiled.made)
    for name, ran in ways(compiled, payloads):
        why = f"{name}\n{compiled.listing}"
        assert ran.dropped == expected.dropped, why
        assert sorted(ran.refused) == sorted(expected.refused), why
        for exit, found in ran.out.items():
            wanted = expected.out[exit]
            assert [number for number, _ in found] == [number for number, _ in wanted], why
            for (_, one), (_, other) in zip(found, wanted, strict=True):
                assert one == other or value(one) == value(other), why


def value(payload: object) -> str:
    """-0.0 is not 0.0, and 1 is not 1.0."""
    assert isinstance(payload, bytes)
    return repr(json.value(payload))


def ways(compiled: Compiled, payloads: list[bytes]) -> Iterator[tuple[str, Ran]]:
    yield "projected", run(compiled, payloads, JSON, LINES)
    yield "by payload", run(compiled, payloads, JSON, PIPED)
    yield "behind lengths, sorted", run(compiled, payloads, JSON_SORTED, LENGTH_PREFIXED)
    yield "event by event, from a snapshot each", by_event(compiled, payloads)
    object.__setattr__(compiled, "reader", Whole(compiled))
    yield "whole", run(compiled, payloads, JSON, LINES)


def by_event(compiled: Compiled, payloads: list[bytes]) -> Ran:
    """What the state is goes through bytes between any two events."""
    kept = pickle.dumps(compiled.new_state())
    ran = Ran({exit: [] for exit in compiled.exits}, [], 0)
    for first, payload in enumerate(payloads):
        state: State = pickle.loads(kept)
        one = run(compiled, [payload], JSON, LINES, state, first)
        kept = pickle.dumps(state)
        for exit, found in one.out.items():
            ran.out[exit] += found
        ran.refused += one.refused
        ran.dropped += one.dropped
    return ran


def once(seed: int, events: int) -> None:
    chance = Random(seed)
    payloads = [event(chance).encode() for _ in range(events)]
    verdict = JSON.validate(LINES.join(payloads), LINES)
    assert verdict.good is not None
    compare(region(chance), verdict.good.payloads())


@pytest.mark.parametrize("seed", shared(range(60)))
def test_every_way_says_the_same(seed: int) -> None:
    once(seed, 120)


@pytest.mark.parametrize("seed", shared(range(12)))
def test_msgpack_says_what_json_says(seed: int) -> None:
    chance = Random(seed)
    of = region(chance)
    values = [json.value(event(chance).encode()) for _ in range(100)]
    values = [one for one in values if json.refusals([one])[0] is None]
    values = [one for one in values if json.encoded(one).count(b"{") < 200]  # msgpack nests less deep
    compiled = compile_region(of)
    as_json = run(compiled, [json.encoded(one) for one in values], JSON, PIPED)
    as_msgpack = run(compiled, [MSGPACK.encode(one) for one in values], MSGPACK, LENGTH_PREFIXED)
    assert as_msgpack.refused == as_json.refused
    assert as_msgpack.dropped == as_json.dropped
    for exit in compiled.exits:
        assert [number for number, _ in as_msgpack.out[exit]] == [number for number, _ in as_json.out[exit]]
        if exit in compiled.made:
            assert list(map(_told, as_msgpack.out[exit])) == list(map(_told, as_json.out[exit]))


def _told(one: tuple[int, object]) -> str:
    return value(one[1])


if __name__ == "__main__":
    pipelines, events, first = (int(argument) for argument in sys.argv[1:4])
    started = monotonic()
    for seed in range(first, first + pipelines):
        try:
            once(seed, events)
        except Exception:
            print(f"seed {seed}", file=sys.stderr)
            raise
        done = seed - first + 1
        if done % 100 == 0:
            print(
                f"{done} of {pipelines} pipelines agree, {monotonic() - started:.0f} s", file=sys.stderr, flush=True
            )
    print(f"{pipelines} pipelines x {events} events agree")
