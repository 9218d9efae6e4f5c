"""What one select makes of an event no other select sees, however the two share what is in it."""

import copy

import pytest

from tests.compile.world import call, term
from walflow.compile.reads import Decoded
from walflow.compile.region import Region, Rule, compile_region

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


@pytest.mark.parametrize("first", MAKES)
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
