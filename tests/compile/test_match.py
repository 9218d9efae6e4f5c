"""`match`: which case an event fits, and what its pattern makes. Each is run compiled and interpreted."""

from random import Random

import pytest

from tests.compile.world import expression, read, read_script, script

NO_CASE = "no case of this `match` fits"

MATCHES = [
    # values
    ('match event of case 1 => "one" case "1" => "text" default => "other" end', [(1, "one"), ("1", "text"), (2, "other")]),
    ('match event.a of case 1 => "one" default => "other" end', [({"a": 1.0}, "one"), ({"a": True}, "other")]),
    ("match event of case null => 0 case true => 1 case false => 2 default => 3 end", [(None, 0), (True, 1), (False, 2), (0, 3)]),
    ("match event of case [1, 2] => 1 case {} => 2 default => 3 end", [([1, 2], 1), ({}, 2), ([1], 3)]),
    ("match event.a of case event.b => 1 default => 2 end", [({"a": 3, "b": 3}, 1), ({"a": 3, "b": 4}, 2)]),
    ("match event.a of case _ => 1 end", [({"a": 3}, 1), ({}, "!`event.a`: a record without `a`")]),
    ("match event of case 1 => 1 end", [(1, 1), (2, f"!{NO_CASE}")]),
    ("match event of case x = _ => [x] end", [(1, [1]), ({"a": 1}, [{"a": 1}])]),
    ("match event of case 1.5 => 1 case 1 => 2 default => 3 end", [(1.5, 1), (1, 2), (1.0, 2)]),
    # records
    ("match event of case %{} => 1 default => 2 end", [({}, 1), ({"a": 1}, 1), ([], 2), (1, 2)]),
    ("match event of case %{present a} => 1 default => 2 end", [({"a": None}, 1), ({}, 2), ([], 2), ("a", 2)]),
    ("match event of case %{absent a} => 1 default => 2 end", [({"a": None}, 2), ({}, 1), ([], 2)]),
    ("match event of case %{a == 1} => 1 default => 2 end", [({"a": 1}, 1), ({"a": 2}, 2), ({}, 2), ([], 2), ({"a": "1"}, 2)]),
    ('match event of case %{a == "x"} => 1 default => 2 end', [({"a": "x"}, 1), ({"a": 2}, 2), ({}, 2)]),
    ("match event of case %{a == true, b == null} => 1 default => 2 end", [({"a": True, "b": None}, 1), ({"a": 1, "b": None}, 2), ({"a": True}, 2)]),
    ("match event of case %{a != 1} => 1 default => 2 end", [({"a": 1}, 2), ({"a": 2}, 1), ({}, 2)]),
    ("match event of case %{a > 1, a < 5} => 1 default => 2 end", [({"a": 2}, 1), ({"a": 5}, 2), ({"a": 1.5}, 1), ({}, 2)]),
    ("match event of case %{a >= 1} => 1 default => 2 end", [({"a": "x"}, "!`>=` cannot be applied to a string and a whole number")]),
    ("match event of case %{a == event.b} => 1 default => 2 end", [({"a": 1, "b": 1}, 1), ({"a": 1, "b": 2}, 2)]),
    ("match event of case %{a ~= %{b == 1}} => 1 case %{a ~= %{absent b}} => 2 default => 3 end",
     [({"a": {"b": 1}}, 1), ({"a": {}}, 2), ({"a": {"b": 2}}, 3), ({"a": 1}, 3), ({}, 3)]),
    ("match event of case %{a ~= %{}} => 1 default => 2 end", [({"a": {}}, 1), ({"a": []}, 2), ({}, 2)]),
    ("match event.r of case r = %{a == 1, present b, absent c} => r default => 2 end", [({"r": {"a": 1, "b": 2, "d": 3}}, {"a": 1, "b": 2})]),
    ("match event of case r = %{a ~= %{b == 1}, c ~= %[]} => r default => 2 end", [({"a": {"b": 1, "x": 2}, "c": [1]}, {"a": {"b": 1}, "c": []})]),
    ("match event of case %{present a} when event.a > 1 => 1 default => 2 end", [({"a": 2}, 1), ({"a": 1}, 2), ({}, 2)]),
    ('match event of case %{`x y` == 1, present `"` } => 1 default => 2 end', [({"x y": 1, '"': 1}, 1), ({"x y": 1}, 2)]),
    # arrays
    ("match event of case %[] => 1 default => 2 end", [([], 1), ([1], 1), ({}, 2)]),
    ("match event of case %[1, 2] => 1 default => 2 end", [([2, 3, 1], 1), ([1], 2), (1, 2)]),
    ("match event of case %[_] => 1 default => 2 end", [([], 2), ([1], 1)]),
    ("match event of case x = %[1] => x default => 2 end", [([1, 2, 1], [[0, 1], [2, 1]]), ([], 2)]),
    ("match event of case x = %[%{a == 1}] => x default => 2 end", [([{"a": 1, "b": 2}, {}], [[0, {"a": 1}]])]),
    # tuples
    ("match event of case %(1, _, 3) => 1 default => 2 end", [([1, 2, 3], 1), ([1, 2], 2), ([1, 2, 3, 4], 2)]),
    ("match event of case %(1, ...) => 1 case %() => 0 case %(...) => 2 default => 3 end", [([1, 2, 3], 1), ([], 0), ([2], 2), (1, 3)]),
    ("match event of case x = %(1, _, %{present a}) => x default => 2 end", [([1, 2, {"a": 1, "b": 2}], [1, 2, {"a": 1}])]),
    # extractors
    ("match event of case x = ~ json|| => x default => 2 end", [('{"a": 1}', {"a": 1}), ("{", 2), (1, 2)]),
    ("match event of case r = %{a ~= json||} => r.a.b default => 2 end", [({"a": '{"b": 1}'}, 1), ({"a": "{"}, 2), ({}, 2)]),
    ("match event of case r = %{n = a ~= json||} => r default => 2 end", [({"a": "1"}, {"n": 1})]),
    ("match event of case x = %[~ json||] => x default => 2 end", [(["{", "1"], [[1, 1]])]),
    ("match event of case x = %(~ json||, 2) => x default => 2 end", [(["1", 2], [1, 2]), (["{", 2], 2)]),
    # guards, in order
    ("match event.a of case x = _ when x > 10 => 1 case x = _ when x > 5 => 2 case 5 => 3 default => 4 end",
     [({"a": 11}, 1), ({"a": 6}, 2), ({"a": 5}, 3), ({"a": 4}, 4)]),
    ("match event.a of case _ when event.a => 1 default => 2 end", [({"a": True}, 1), ({"a": False}, 2), ({"a": 1}, "!`when` cannot be applied to a whole number")]),
    ("match event.a of case _ when true => 1 end", [({"a": True}, 1)]),
    # within others
    ("match event.a of case 1 => match event.b of case 1 => 11 default => 12 end default => 2 end",
     [({"a": 1, "b": 1}, 11), ({"a": 1, "b": 2}, 12), ({"a": 2}, 2)]),
    ("(match event of case 1 => 1 default => 2 end) + 1", [(1, 2), (5, 3)]),
    ('{"a": match event of case 1 => 1 default => 2 end, "b": [match event of case 1 => 3 default => 4 end]}', [(1, {"a": 1, "b": [3]}), (2, {"a": 2, "b": [4]})]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "runs"), MATCHES, ids=[one[0] for one in MATCHES])
def test_a_match_is(text: str, runs: list[tuple[object, object]]) -> None:
    for event, expected in runs:
        (found,) = script(text).run(event)
        wanted = expected[1:] if isinstance(expected, str) and expected.startswith("!") else ("out", expected)
        assert found == wanted


@pytest.mark.parametrize(("text", "runs"), MATCHES, ids=[one[0] for one in MATCHES])
def test_a_select_may_have_one(text: str, runs: list[tuple[object, object]]) -> None:
    made = expression(text)
    for event, expected in runs:
        if not isinstance(expected, str) or not expected.startswith("!"):
            assert made.evaluate(event) == expected


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


@pytest.mark.parametrize("seed", range(30))
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
