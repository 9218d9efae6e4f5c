"""Every event has exactly one way out of each select: kept, dropped or rejected, whatever the cuts and failures."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st
from structlog.testing import capture_logs

from tests.compile.world import term
from tests.nodes.world import Taker, World
from walflow.codecs import JSON, JSON_SORTED, MSGPACK, STRING
from walflow.compile.compiler import compile_region
from walflow.compile.region import Region, Rule
from walflow.event import Block, Codec, Frames, Framing, Node, Origin, StreamId
from walflow.framing import LENGTH_PREFIXED, LINES, WHOLE, make
from walflow.nodes.rejects import BLOCK_BYTES, BLOCK_EVENTS
from walflow.operators.select import Select
from walflow.receipt import Receipt

Value = Mapping[str, object]
DROPPED, REJECTED = object(), object()


class Case(NamedTuple):
    """A select as it is written, and what it does to an event and its number, as a test would say it."""

    what: str
    where: str
    does: Callable[[Value, int], object]
    having: str = ""


def when(condition: object, result: object) -> object:
    return result if condition else DROPPED


def number(event: Value, key: str) -> int | None:
    value = event.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def above(event: Value, _: int) -> object:
    n = number(event, "n")
    return REJECTED if n is None else when(n > 2, event)


def doubled(event: Value, _: int) -> object:
    n = number(event, "n")
    return REJECTED if n is None else {"n": n * 2}


def doubled_few(event: Value, _: int) -> object:
    n = number(event, "n")
    return REJECTED if n is None else when(n * 2 < 5, {"n": n * 2})


def has_flag(event: Value, _: int) -> object:
    """What `having` takes is neither true nor false, or is not there."""
    return REJECTED if not isinstance(event.get("t"), bool) else when(event["t"], {"t": True})


def few_above(event: Value, _: int) -> object:
    n = number(event, "n")
    return REJECTED if n is None else when(2 < n < 5, event)


def flagged(event: Value, _: int) -> object:
    flag = event.get("t")
    return when(flag, event) if isinstance(flag, bool) else REJECTED


CASES = [
    Case("event", "", lambda event, _: event),
    Case("event", "event.n > 2", above),
    Case("event", "event.t", flagged),
    Case("event", "present event.t", lambda event, _: when("t" in event, event)),
    Case("event", "false", lambda event, _: DROPPED),
    Case('{"n": event.n * 2}', "", doubled),
    Case('{"i": $i}', "absent event.t", lambda event, i: when("t" not in event, {"i": i})),
    Case('["a", 1]', "event.t == true", lambda event,
    _: REJECTED if "t" not in event else when(event["t"] is True, ["a", 1])),
    Case('{"n": event.n * 2}', "", doubled_few, "event.n < 5"),
    Case('{"t": event.t}', "", has_flag, "event.t"),
    Case("event", "event.n > 2", few_above, "event.n < 5"),
    Case("event", "", flagged, "event.t"),
]  # fmt: skip

events = st.fixed_dictionaries(
    {}, optional={"n": st.one_of(st.integers(0, 5), st.booleans(), st.just("x")),
     "t": st.sampled_from([True, False, 1])}
)  # fmt: skip
programs = st.lists(st.tuples(st.sampled_from(CASES), st.sampled_from(["out", "other"])), min_size=1, max_size=4)


class Failing:
    """A sink that acks, or fails the rest of a block after some of its events, as it is told."""

    def __init__(self, name: str, orders: Callable[[int], int | None]) -> None:
        self.name = name
        self.blocks: list[Block] = []
        self.delivered: list[object] = []
        self._orders = orders

    def accept(self, block: Block) -> None:
        self.blocks.append(block)
        done = self._orders(block.frames.count)
        values = block.values
        self.delivered += values if done is None else values[:done]
        if done is None:
            block.receipt.ack(self.name)
        else:
            block.receipt.fail(ConnectionError("gone"), done, self.name)


def block_of(
    values: Sequence[Value], settled: list[Receipt], first: int = 0, codec: Codec = JSON, framing: Framing = LINES
) -> Block:
    payloads = [json.dumps(value).encode() for value in values]
    return Block(
        StreamId("f::s", 1, 1),
        Frames(framing.join(payloads), len(payloads), framing),
        codec,
        Receipt(settled.append, len(payloads)),
        ingest_ns=1,
        meta={"m": 1},
        event_metas=[{"i": number} for number in range(first, first + len(values))],
        origin=Origin("log", first, first + len(values) - 1, 0),
    )


def select(
    world: World, program: Sequence[tuple[Case, str]], targets: Mapping[str, Node], err: Node | None
) -> Select:
    rules = [rule(None if case.what == "event" else case.what, case.where, case.having, to) for case, to in program]
    return selecting(world, rules, targets, err)


def rule(what: str | None, where: str | None = None, having: str | None = None, to: str = "out") -> Rule:
    found = [term(text) if text else None for text in (what, where, having)]
    return Rule(found[0], found[1], found[2], to)


def selecting(world: World, rules: Sequence[Rule], targets: Mapping[str, Node], err: Node | None = None) -> Select:
    compiled = compile_region(Region("f::p/in", "in", {"in": rules}))
    return Select(compiled, targets, world.err("f::p", err), world.metrics.counter("filtered_events_total"))


def expected(program: Sequence[tuple[Case, str]], values: Sequence[Value], to: str) -> list[tuple[int, object]]:
    """What goes to one target, with the number of the event that it came of."""
    return [
        (i, result)
        for i, value in enumerate(values)
        for case, target in program
        if target == to and (result := case.does(value, i)) not in (DROPPED, REJECTED)
    ]


@given(program=programs, values=st.lists(events, max_size=12), data=st.data())
def test_one_way_out_whatever_the_cuts(
    program: list[tuple[Case, str]], values: list[Value], data: st.DataObject
) -> None:
    world, settled = World(), list[Receipt]()
    targets = {name: Taker(name, ack=True) for name in ("out", "other")}
    errors = Taker("err", ack=True)
    node = select(world, program, targets, errors)
    start = 0
    while start < len(values):
        size = data.draw(st.integers(1, len(values) - start))
        node.accept(block_of(values[start : start + size], settled, start))
        assert [receipt.cause for receipt in settled].count(None) == len(settled)
        start += size
    assert sum(receipt.count for receipt in settled) == len(values)
    taken: set[int] = set()
    for name, taker in targets.items():
        wanted = expected(program, values, name)
        assert [value for block in taker.blocks for value in block.values] == [value for _, value in wanted]
        metas = [meta["i"] for block in taker.blocks for meta in block.event_metas or ()]
        assert metas == [i for i, _ in wanted]
        taken |= {i for i, _ in wanted}
        check_origins(taker.blocks)
    rejected = [i for i, value in enumerate(values) for case, _ in program if case.does(value, i) is REJECTED]
    assert world.count("rejected_events_total") == len(rejected)
    assert sum(block.frames.count for block in errors.blocks) == len(rejected)
    assert world.count("filtered_events_total") == len(values) - len(taken | set(rejected))


def check_origins(blocks: Sequence[Block]) -> None:
    """Where a block has as many events as positions they are one for each, in order: sinks count on it."""
    for block in blocks:
        origin = block.origin
        if origin is not None and block.frames.count == origin.last - origin.first + 1:
            assert [meta["i"] for meta in block.event_metas or ()] == list(range(origin.first, origin.last + 1))


@given(
    program=programs,
    values=st.lists(events, min_size=1, max_size=10),
    outcomes=st.lists(st.one_of(st.none(), st.integers(0, 10)), min_size=3, max_size=3),
)
def test_what_counts_as_done_is_delivered_everywhere(
    program: list[tuple[Case, str]], values: list[Value], outcomes: list[int | None]
) -> None:
    coming = cycle(outcomes)

    def orders(count: int) -> int | None:
        done = next(coming)
        return None if done is None else min(done, count)

    world, settled = World(), list[Receipt]()
    sinks = {name: Failing(name, orders) for name in ("out", "other")}
    errors = Failing("err", orders)
    select(world, program, sinks, errors).accept(block_of(values, settled))
    [receipt] = settled
    for name, sink in sinks.items():
        wanted = expected(program, values, name)
        owed = [value for i, value in wanted if i < receipt.done]
        assert sink.delivered[: len(owed)] == owed
        lacked = receipt.outcome().failed
        assert all(value in sink.delivered for i, value in wanted if not lacked >> i & 1)
    rejected = [i for i, value in enumerate(values) for case, _ in program if case.does(value, i) is REJECTED]
    assert len(errors.delivered) >= sum(i < receipt.done for i in rejected)
    assert receipt.done == len(values) or receipt.cause is not None


def test_a_block_that_keeps_all_is_the_same_block() -> None:
    for case in (CASES[1], CASES[1]._replace(where="", having="event.n > 2")):
        world, settled, out = World(), list[Receipt](), Taker(ack=True)
        came = block_of([{"n": 3}, {"n": 4}], settled)
        select(world, [(case, "out")], {"out": out}, None).accept(came)
        assert out.blocks == [came]


@pytest.mark.parametrize(
    ("codec", "framing"),
    [(JSON, LINES), (JSON_SORTED, LINES), (STRING, LINES), (JSON, make([("separate", {"separator": "|"})]))],
)
def test_kept_events_are_the_bytes_they_came_in(codec: Codec, framing: Framing) -> None:
    world, settled, out = World(), list[Receipt](), Taker(ack=True)
    block = block_of([{"n": 1, "b": 1.50}, {"n": 2}, {"n": 3}], settled, codec=codec, framing=framing)
    selecting(world, [rule(None, "$i != 1")], {"out": out}).accept(block)
    [kept] = out.blocks
    assert (kept.codec, kept.frames.framing) == (codec, framing)
    assert kept.frames.payloads() == [block.frames.payloads()[0], block.frames.payloads()[2]]
    assert kept.origin == Origin("log", 0, 2, 0)
    assert kept.event_metas == [{"i": 0}, {"i": 2}]


def test_parts_of_a_filtered_block_have_the_positions_of_their_events() -> None:
    world, settled, out = World(), list[Receipt](), Taker()
    odd = selecting(world, [rule(None, "event.n % 2 == 1")], {"out": out})
    odd.accept(block_of([{"n": n} for n in range(9)], settled))
    [kept] = out.blocks
    assert list(kept.positions or ()) == [1, 3, 5, 7]
    parts = kept.split([1, 2, 1])
    assert [list(part.positions or ()) for part in parts] == [[1], [3, 5], [7]]
    assert [part.origin for part in parts] == [Origin("log", 1, 1, 0), Origin("log", 3, 5, 0), Origin("log", 7, 7, 0)]
    for part in parts:
        part.receipt.ack()
    assert len(settled) == 1


def test_as_many_events_as_positions_and_not_one_for_each() -> None:
    world, settled, out = World(), list[Receipt](), Taker(ack=True)
    twice = [(CASES[1], "out"), (CASES[1], "out")]
    select(world, twice, {"out": out}, None).accept(block_of([{"n": 3}, {"n": 1}], settled))
    [kept] = out.blocks
    assert kept.values == [{"n": 3}, {"n": 3}]
    assert kept.origin is None
    assert list(kept.positions or ()) == [0, 0]


def test_a_text_is_an_event_too() -> None:
    world, settled, out = World(), list[Receipt](), Taker(ack=True)
    frames = Frames(b"exit\nhello\n", 2, LINES)
    block = Block(StreamId("f::s", 1, 1), frames, STRING, Receipt(settled.append, 2), ingest_ns=1, meta={})
    rules = [rule(None, 'event != "exit"'), rule('{"is": event}')]
    selecting(world, rules, {"out": out}).accept(block)
    assert out.data == [b'{"is":"exit"}\n"hello"\n{"is":"hello"}\n']
    assert out.blocks[0].codec is JSON


def test_what_cannot_be_worked_with_is_rejected() -> None:
    """JSON that passes as it is and cannot be written anew, or nests deeper than Python recurses."""
    world, settled, out, errors = World(), list[Receipt](), Taker(ack=True), Taker(ack=True)
    deep = b"[" * 900 + b"]" * 900
    data = b'{"n":1e999}\n' + b'{"n":' + deep + b"}\n"
    block = Block(
        StreamId("f::s", 1, 1), Frames(data, 2, LINES), JSON, Receipt(settled.append, 2), ingest_ns=1, meta={}
    )
    selecting(world, [rule('[event.n, "#{event.n}"]', "event == event")], {"out": out}, errors).accept(block)
    assert settled
    assert world.count("rejected_events_total") + sum(taken.frames.count for taken in out.blocks) == 2
    assert errors.blocks


def test_a_single_event_and_no_framing() -> None:
    world, settled, out = World(), list[Receipt](), Taker(ack=True)
    block = block_of([{"n": 5}], settled, framing=WHOLE)
    select(world, [(CASES[1], "out"), (CASES[5], "out")], {"out": out}, None).accept(block)
    assert out.data == [b'{"n": 5}\n{"n":10}\n']


def test_made_events_keep_to_the_caps() -> None:
    world, settled, out = World(), list[Receipt](), Taker(ack=True)
    block = block_of([{"s": "x" * 50_000}] * 4, settled)
    selecting(world, [rule('"#{event.s}#{event.s}#{event.s}#{event.s}"')], {"out": out}).accept(block)
    assert [taken.frames.count for taken in out.blocks] == [1, 1, 1, 1]
    assert [taken.origin and taken.origin.first for taken in out.blocks] == [0, 1, 2, 3]
    assert len(settled) == 1


NESTED_510 = b"[" * 510 + b"]" * 510


@pytest.mark.parametrize(
    ("codec", "data", "told"),
    [
        (JSON, b'{"n":\r1,"n":1e400}', b',"event":{"n":\r1,"n":1e400}'),
        (MSGPACK, b"\x81\xa1n\x01", b',"event":{"n":1}'),
        (MSGPACK, b"\xc4\x01\xff", b',"bytes":"xAH/"'),  # binary data has no JSON form
        (JSON, b'{"n":%b}' % NESTED_510, b',"event":{"n":%b}' % NESTED_510),
        # in a record around it, one level too many
        (JSON, b'{"n":[%b]}' % NESTED_510, b',"text":"{\\"n\\":[%b]}"' % NESTED_510),
    ],
    ids=["as it came", "of another codec", "binary", "511 deep", "512 deep"],
)
def test_an_error_says_what_failed_and_of_which_event(codec: Codec, data: bytes, told: bytes) -> None:
    world, settled, errors = World(), list[Receipt](), Taker(ack=True)
    frames = Frames(LENGTH_PREFIXED.join([data]), 1, LENGTH_PREFIXED)
    block = Block(StreamId("f::s", 1, 1), frames, codec, Receipt(settled.append, 1), ingest_ns=1, meta={})
    selecting(world, [rule("event.no.way")], {"out": Taker()}, errors).accept(block)
    (line,) = errors.blocks[0].frames.payloads()
    head, found, rest = line.partition(b',"at":"main.troy:1:35"')
    assert found
    assert head.endswith(b'"source":"f::p","stream_id":1')
    assert rest == told + b"}"
    assert not JSON.validate(line + b"\n", LINES).bad


@pytest.mark.parametrize("sizes", [[100] * 6000, [1] * 9000, [300_000, *[10] * 3000, 300_000], [*range(0, 4000, 7)]])
def test_events_that_swell_leave_in_blocks_within_the_caps(sizes: list[int]) -> None:
    world, settled, out = World(), list[Receipt](), Taker(ack=True)
    values = [{"n": number, "x": "x" * size} for number, size in enumerate(sizes)]
    more = rule('patch event of insert "more" => "a member of some length" end')
    selecting(world, [more], {"out": out}).accept(block_of(values, settled))

    left = [json.loads(payload)["n"] for block in out.blocks for payload in block.frames.payloads()]
    assert left == [*range(len(sizes))]
    for block in out.blocks:
        assert block.frames.count == len(block.frames.payloads()) <= BLOCK_EVENTS
        assert len(block.frames.data) <= BLOCK_BYTES or block.frames.count == 1
    assert len(out.blocks) > 1
    assert [receipt.cause for receipt in settled] == [None]


def test_many_errors_of_large_events_keep_to_the_caps() -> None:
    world, settled, errors = World(), list[Receipt](), Taker(ack=True)
    block = block_of([{"n": "x" * 60_000}] * 10, settled)
    rules = [rule("event.no"), rule("event.none")]
    selecting(world, rules, {"out": Taker()}, errors).accept(block)
    assert sum(one.frames.count for one in errors.blocks) == 20
    assert max(len(one.frames.data) for one in errors.blocks) <= BLOCK_BYTES
    assert [receipt.cause for receipt in settled] == [None]


def test_an_error_that_no_link_takes_is_logged_with_its_place() -> None:
    world, settled = World(), list[Receipt]()
    with capture_logs() as lines:
        selecting(world, [rule("event.no")], {"out": Taker()}).accept(block_of([{"n": 1}], settled))
    assert [(line["event"], line["at"]) for line in lines] == [("rejected", "main.troy:1:35")]
    assert "n" not in lines[0].values()
