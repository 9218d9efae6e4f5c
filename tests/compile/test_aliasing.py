"""What one select makes of an event no other select sees, however the two share what is in it."""

import copy
from collections.abc import Mapping
from random import Random

import pytest

from tests.compile.pipelines import Writing, event, script_of, term_of
from tests.compile.world import INGEST_NS, call, term
from tests.examples import sampled, shared
from walflow.codecs import JSON
from walflow.compile.compiled import BlockCall
from walflow.compile.compiler import compile_region
from walflow.compile.program import ScriptOf
from walflow.compile.reads import Decoded
from walflow.compile.region import Region, Rule
from walflow.event import Frames
from walflow.framing import LINES
from walflow_kernel import json
from walflow_kernel.moment import Moment

EVENT = {"a": {"b": {"c": 1}}, "l": [{"x": 1}]}

MAKES = [
    '{"a": event, "b": patch event of merge "a" => {"b": {"d": 2}} end}',
    'patch event of merge "a" => {"b": {"c": 2}}; upsert "self" => event end',
    'patch event of copy "a" => "z"; merge "z" => {"b": {"e": 1}} end',
    'merge event of {"a": {"b": null}} end',
    'patch event.a of merge => {"b": {"c": 9}} end',
    'patch event of default => {"a": {"b": {"q": 1}}} end',
    'event.a + {"b": 3}',
    "[event.l, event.l]",
]


@pytest.mark.parametrize("first", sampled(MAKES))
@pytest.mark.parametrize("second", MAKES)
def test_two_selects_of_one_event_never_see_each_others_changes(first: str, second: str) -> None:
    def made(*whats: str) -> list[object]:
        rules = [Rule(term(what), None, None, "out") for what in whats]
        outcome = compile_region(Region("test", "in", {"in": rules})).run(
            Decoded([0], [copy.deepcopy(EVENT)]), call()
        )
        assert not outcome.refused
        return list(outcome.rows["out"].values or ())

    assert made(first, second) == [*made(first), *made(second)]


def test_a_constant_is_the_same_for_every_event() -> None:
    what = term('patch {"r": {"a": 1}} of merge "r" => event end')
    compiled = compile_region(Region("test", "in", {"in": [Rule(what, None, None, "out")]}))
    outcome = compiled.run(Decoded([0, 1], [{"b": 2}, {"c": 3}]), call())
    assert outcome.rows["out"].values == [{"r": {"a": 1, "b": 2}}, {"r": {"a": 1, "c": 3}}]


def test_ways_that_meet_again_keep_the_order_of_the_events() -> None:
    ways = [
        Rule(None, None, None, "s"),
        Rule(term('{"n": event.n + 10}'), None, None, "s"),
        Rule(None, None, None, "t"),
    ]
    places = {"in": ways, "s": [Rule(None, None, None, "t")], "t": [Rule(term("event.n"), None, None, "out")]}
    outcome = compile_region(Region("test", "in", places)).run(Decoded([0, 1], [{"n": 1}, {"n": 2}]), call())
    assert outcome.rows["out"][:2] == ([0, 0, 0, 1, 1, 1], [1, 11, 1, 2, 12, 2])


@pytest.mark.parametrize("seed", shared(range(100)))
def test_what_leaves_by_a_branch_is_the_same_without_the_others(seed: int) -> None:
    chance = Random(seed)
    branches = {f"b{number}": branch(chance) for number in range(3)}
    verdict = JSON.validate(b"".join([event(chance).encode() + b"\n" for _ in range(40)]), LINES)
    assert verdict.good is not None

    refused: list[tuple[int, str]] = []
    beside, beside_refused = left_by(branches, verdict.good)
    for name, one in branches.items():
        alone, alone_refused = left_by({name: one}, verdict.good)
        refused += alone_refused
        assert beside[name] == alone[name]
    assert sorted(beside_refused) == sorted(refused)


def branch(chance: Random) -> Rule | ScriptOf:
    """Nothing in it is drawn by chance: what one branch draws, another does not."""
    written = Writing(chance)
    while True:
        text = f"let x = {written.value(0)}; {written.script()}" if chance.random() < 0.6 else written.value()
        if "random::" in text:
            continue
        if text.startswith("let "):
            found = script_of(text)
            if found is not None:
                return found
        elif (what := term_of(text)) is not None:
            return Rule(what, None, None, "")


def left_by(branches: Mapping[str, Rule | ScriptOf], frames: Frames) -> tuple[dict[str, str], list[tuple[int, str]]]:
    """Of each branch its values with their numbers and metadata; and the errors of all."""
    places: dict[str, list[Rule]] = {"in": []}
    scripts: dict[str, ScriptOf] = {}
    for name, one in branches.items():
        if isinstance(one, Rule):
            places["in"].append(one._replace(to=name))
            continue
        scripts[f"s{name}"] = one
        places["in"].append(Rule(None, None, None, f"s{name}"))
        places |= {f"s{name}/{port}": [Rule(None, None, None, name)] for port in one.ports}
    compiled = compile_region(Region("test", "in", places, scripts))
    metas = [{"m": number, "n": {"a": 1}} for number in range(frames.count)]
    came = BlockCall(Moment(INGEST_NS), range(frames.count), {}, metas, lambda number: number)
    outcome = compiled.run(compiled.reader.decode(frames, JSON), came)
    found = dict.fromkeys(branches, "[]")
    for name, (numbers, values, changed) in outcome.rows.items():
        kept = [metas[number] for number in numbers]
        if numbers:
            found[name] = repr(
                [*zip(numbers, map(as_json, values or numbers), map(as_json, changed or kept), strict=True)]
            )
    return found, [one[:2] for one in outcome.refused]


def as_json(value: object) -> object:
    """Or why it has no such form, which does not depend on how it was decoded."""
    return json.refusals([value])[0] or json.encoded(value)
