"""A value much larger than its event: an error of that event, before anything writes or compares it."""

import json

import pytest

from tests.compile.world import call
from tests.nodes.world import Taker, World
from walflow.codecs import JSON
from walflow.compile.compiled import Compiled
from walflow.compile.compiler import compile_region
from walflow.diagnostics import Source, render_all
from walflow.event import Block, Frames, StreamId
from walflow.framing import LINES
from walflow.operators.select import Select
from walflow.plan.alone import load_query
from walflow.receipt import Receipt
from walflow_kernel.weight import HEAVIEST, MOST_USED, weigh, weight_of

TOO_LARGE = f"it would make something larger than {HEAVIEST:,} bytes"
FIELDS = {f"k{number}": number for number in range(30_000)}
EVENT = {"n": 1, "many": FIELDS, "text": "x" * 1000}
DOUBLED = "let x = event; " + "let x = [x, x]; " * 24
FN = "fn more(x, n) of case (x, 0) => x default => recur([x, x], n - 1) end;"


def compiled(script: str, before: str = "") -> Compiled:
    text = (
        f"use std::{{array, string}}; {before} define script s script {script} end; create script s; "
        "select event from in into s; select event from s into out;"
    )
    query, found = load_query(Source("growth", text), {})
    assert query is not None, render_all(found)
    (plan,) = query.assembly.pipelines
    (region,) = plan.regions
    return compile_region(region)


def refused(of: Compiled, *events: object) -> list[tuple[int, str]]:
    frames = Frames(LINES.join([JSON.encode(event) for event in events]), len(events), LINES)
    outcome = of.run(of.reader.decode(frames, JSON), call()._replace(positions=range(len(events))))
    return [(one.number, one.reason) for one in outcome.refused]


@pytest.mark.parametrize(
    ("script", "before"),
    [
        pytest.param(f"{DOUBLED} x", "", id="doubled"),
        pytest.param(f"{DOUBLED} x == x", "", id="compared"),
        pytest.param("let x = [event]; " + "let x = array::push(x, x); " * 24 + "x", "", id="function"),
        pytest.param("let x = event; " + 'let x = {"a": x, "b": x}; ' * 24 + "x", "", id="records"),
        pytest.param("more([event], 24)", FN, id="recur", marks=pytest.mark.nightly),
        pytest.param("for event.many of case (k, v) => event.many end", "", id="for"),
        pytest.param("for event.many of case (k, v) => event.many into [] end", "", id="into an array"),
        pytest.param(
            "for event.many of case (k, v) => {'#{k}': event.many} into {} end".replace("'", '"'),
            "",
            id="into a record",
        ),
        pytest.param('for event.many of case (k, v) => "#{k}#{event.text}" end', "", id="strings"),
        pytest.param("let event.all = for event.many of case (k, v) => event.text end; event", "", id="assigned"),
    ],
)
def test_what_grows_beyond_the_bound_is_an_error_of_that_event(script: str, before: str) -> None:
    of = compiled(script, before)
    assert of.weighs
    assert refused(of, EVENT) == [(0, TOO_LARGE)]


def test_the_events_beside_it_pass() -> None:
    of = compiled("for event.many of case (k, v) => event.many end")
    small = {"n": 2, "many": {"a": 1}}
    assert refused(of, small, EVENT, small) == [(1, TOO_LARGE)]


@pytest.mark.parametrize(
    "script",
    [
        '{"a": event.n, "b": event}',
        "let event.n = event.n + 1; event",
        "for event.many of case (k, v) => v end",
        'for event.many of case (k, v) when v > event.n => {"key": k, "value": v} end',
        'match event of case %{n == 1} => patch event of insert "seen" => true end default => drop end',
        "[event, event, [event, event]]",
    ],
)
def test_what_stays_small_is_not_weighed(script: str) -> None:
    of = compiled(script)
    assert not of.weighs
    assert "weigh" not in of.source


def test_many_results_of_one_block_are_made_in_parts() -> None:
    of = compiled("for event.many of case (k, v) => event.many end")
    event = {"many": {f"k{number}": number for number in range(300)}}
    line = JSON.encode(event) + b"\n"
    decoded = of.reader.decode(Frames(line * 100, 100, LINES), JSON)
    room = [4 << 20, None]
    outcome = of.run(decoded, call()._replace(positions=range(100)), None, room)
    end = room[1]
    assert end is not None
    assert 0 < end < 100
    assert list(outcome.rows["out"].numbers) == list(range(end))


def test_a_weight_is_that_of_the_value_written_out() -> None:
    shared = ["x" * 100, {"a": 1}]
    twice = [shared, shared]
    assert weight_of(twice) == weight_of(json.loads(json.dumps(twice)))
    weights: dict[int, tuple[object, int]] = {}
    assert weigh(twice, weights) == weigh(twice, weights) == weight_of(twice)


# what is read again and again


LISTS = {
    "c": list(range(10_000)),
    "a": [{"id": n, "tags": ["x"] * 8} for n in range(4000)],
    "b": list(range(20_000)),
    "text": "x" * 100_000,
}
TOO_MUCH = f"it would read more than {MOST_USED:,} bytes of what it has made and of the event"


@pytest.mark.parametrize(
    ("script", "before"),
    [
        pytest.param(
            "for event.b of case (i, n) => event.a == event.a end", "", id="compared", marks=pytest.mark.test
        ),
        pytest.param(
            "for event.b of case (i, n) when event.a != event.a => n end", "", id="a guard", marks=pytest.mark.nightly
        ),
        pytest.param(
            "for event.b of case (i, n) => for event.b of case (j, m) => m into 0 use + end end",
            "",
            id="turns",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "for event.b of case (i, n) => array::contains(event.b, -1) end",
            "",
            id="a function",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "for event.b of case (i, n) => string::contains(event.text, 'y') end".replace("'", '"'), "", id="text"
        ),
        pytest.param(
            "for event.b of case (i, n) => match event.a of case event.a => 1 default => 2 end end",
            "",
            id="match",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "same(event.a, 20000)",
            (
                "fn same(x, n) of case (x, 0) => 0 default => recur(x, "
                "match x == x of case true => n - 1 default => 0 end) end;"
            ),
            id="recur",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "let x = event.c; " + "let x = [x, x]; " * 7 + "x == x and " * 9 + "x == x",
            "",
            id="made",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_what_is_read_beyond_the_bound_is_an_error_of_that_event(script: str, before: str) -> None:
    of = compiled(script, before)
    assert of.weighs
    small = {"a": [1], "b": [1], "c": [1], "text": "x"}
    ((number, reason),) = refused(of, small, LISTS, small)
    assert (number, reason.partition("`: ")[2] or reason) == (1, TOO_MUCH)


def test_what_an_element_is_compared_with_is_read_no_further_than_the_element() -> None:
    assert not compiled("for event.a of case (i, e) when e == event.b => i end").weighs


@pytest.mark.parametrize("script", ["[event, event]", '{"all": [event, event]}'])
def test_scripts_in_a_row_make_no_more_than_one_may(script: str) -> None:
    """Each doubles what came, which costs nothing to weigh while it is small."""
    of = compiled(script)
    assert not of.weighs
    world, err = World(), Taker("f::err", ack=True)
    came = Frames(b'"' + b"x" * 10_000 + b'"\n', 1, LINES)
    for _ in range(40):
        taker = Taker(ack=True)
        select = Select(
            of, dict.fromkeys(of.exits, taker), world.err("f::p", err), world.metrics.counter("filtered_events_total")
        )
        select.accept(Block(StreamId("f::s", 1, 1), came, JSON, Receipt(lambda _: None, 1), ingest_ns=1, meta={}))
        if err.blocks:
            break
        (block,) = taker.blocks
        came = block.frames
    ((record,),) = [block.values for block in err.blocks]
    assert record["error"] == TOO_LARGE  # type: ignore[index]
    assert str(record["at"]).startswith("growth:1:")  # type: ignore[index]
    assert HEAVIEST // 4 < len(came.data) <= HEAVIEST + 64
