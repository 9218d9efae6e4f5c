"""`match`: which case an event fits, and what its pattern makes. What each construct gives is in `tests/language`."""

from random import Random

import pytest

from tests.compile.world import expression, read, read_script, script
from tests.examples import shared


def test_cases_may_do_something() -> None:
    made = script(
        """
        match event.a of
          case 1 => let event.b = 2; let event.c = 3; event
          case 2 => drop
          case x = _ when x > 10 => emit {"large": x} => "large"
          default => let n = event.a
        end
        """
    )
    found = made.run({"a": 1}, {"a": 2}, {"a": 11}, {"a": 3})
    assert found == [("out", {"a": 1, "b": 2, "c": 3}), None, ("large", {"large": 11}), ("out", 3)]


def test_what_stands_behind_a_match_comes_to_all_its_cases() -> None:
    made = script(
        "match event.a of case 1 => let event.b = 1 case 2 => drop default => 0 end; let event.c = 2; event"
    )
    assert made.run({"a": 1}, {"a": 2}, {"a": 3}) == [
        ("out", {"a": 1, "b": 1, "c": 2}),
        None,
        ("out", {"a": 3, "c": 2}),
    ]


def test_a_name_of_one_case_alone_may_have_no_value() -> None:
    made = script("match event.a of case 1 => let x = 5 default => null end; [present x, x]")
    assert made.run({"a": 1}, {"a": 2}) == [("out", [True, 5]), "`x` has no value yet"]


def test_a_name_of_a_pattern_is_known_in_its_case() -> None:
    found, said = read_script("match event of case x = %{present a} => x.a default => x end")
    assert found is None
    assert said == ["unknown constant `x`"]


def test_a_hundred_cases() -> None:
    cases = " ".join(f"case {number} => {number * 2}" for number in range(100))
    made = script(f"match event of {cases} default => null end")
    assert made.run(0, 57, 99, 100) == [("out", 0), ("out", 114), ("out", 198), ("out", None)]


def test_nesting_ends_where_python_would() -> None:
    def nested(depth: int) -> str:
        return "match event of case 1 => " * depth + "1" + " default => let event = 1; event end" * depth

    found, _ = read_script(nested(16))
    assert found is not None
    assert found.run(1, 2) == [("out", 1), ("out", 1)]
    found, said = read_script(nested(17))
    assert found is None
    assert "`match` and `for` nest at most 16 deep" in said


MISTAKES = [
    ("match event of case ~ jsn|| => 1 default => 2 end", "there is no extractor `jsn`"),
    ("match event of case %{a == nano::x} => 1 default => 2 end", "unknown module `nano`"),
    ("match event of case x = y = _ => 1 default => 2 end", "a name stands before a whole pattern only"),
    ("match event.a of case 1 => string::len() default => 2 end", "`string::len` takes 1 argument, not 0"),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_a_mistake_is_said_when_the_file_is_read(text: str, said: str) -> None:
    found, messages = read(text)
    assert found is None
    assert messages[0].startswith(said)


WARNINGS = [
    ("match event of case 1 => 1 end", "this `match` has no `default`"),
    ("match event of default => 1 case 1 => 2 end", "this case is never reached"),
    ("match event of case _ => 1 default => 2 end", "this case is never reached"),
    ("match event of case 1 => 1 case 1 => 2 default => 3 end", "this case is never reached"),
    ('match event of case "a" => 1 case "a" => 2 default => 3 end', "this case is never reached"),
    ("match event of case 1 when event > 1 => 1 case 1 => 2 default => 3 end", None),
    ("match event of case 1 => 1 case true => 2 case 1.0 => 3 default => 3 end", None),
]


@pytest.mark.parametrize(("text", "said"), WARNINGS)
def test_a_warning(text: str, said: str | None) -> None:
    found, messages = read(text)
    assert found is not None
    assert messages == ([] if said is None else [said])


@pytest.mark.parametrize("seed", shared(range(30)))
def test_a_match_is_the_chain_of_its_ifs(seed: int) -> None:
    """Its first case whose condition holds, asked one after the other."""
    chance = Random(seed)
    tests = [
        ("%{{present {k}}}", "present event.{k}"),
        ("%{{absent {k}}}", "absent event.{k}"),
        ("%{{{k} == {v}}}", "(present event.{k} and event.{k} == {v})"),
        ("%{{{k} != {v}}}", "(present event.{k} and event.{k} != {v})"),
        ("%{{{k} ~= %{{present {v}}}}}", "present event.{k}.{v}"),
        ("%{{{k} == {v}, present {w}}}", "(present event.{k} and event.{k} == {v} and present event.{w})"),
    ]
    pairs: list[tuple[str, str]] = []
    for _ in range(chance.randint(1, 5)):
        pattern, condition = chance.choice(tests)
        keys = {"k": chance.choice("abc"), "w": chance.choice("abc")}
        keys["v"] = (
            chance.choice("ab") if "%{{present {v}" in pattern else chance.choice(["1", '"x"', "true", "null"])
        )
        pairs.append((pattern.format(**keys), condition.format(**keys)))
    cases = " ".join(f"case {pattern} => {number}" for number, (pattern, _) in enumerate(pairs))
    match = expression(f"match event of {cases} default => -1 end")
    ifs = [expression(condition) for _, condition in pairs]
    for _ in range(60):
        event = {
            key: chance.choice([1, "x", True, None, {"a": 1}, {}, [1]]) for key in "abc" if chance.random() < 0.6
        }
        first = next((number for number, one in enumerate(ifs) if one.evaluate(event) is True), -1)
        assert match.evaluate(event) == match.interpret(event) == first
