"""A value much larger than its event: an error of that event, before anything writes or compares it."""

import json

import pytest

from tests.compile.world import call
from walflow.codecs import JSON
from walflow.compile.compiled import Compiled
from walflow.compile.compiling import compile_region
from walflow.diagnostics import Source, render_all
from walflow.event import Frames
from walflow.framing import LINES
from walflow.plan.alone import load_query
from walflow_kernel.weight import HEAVIEST, weigh, weight_of

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
        pytest.param("more([event], 24)", FN, id="recur"),
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
