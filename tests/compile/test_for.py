"""`for`: comprehensions, and loops that do something. Each is run compiled and interpreted."""

import pytest

from tests.compile.world import KEPT, expression, read, read_script, script

LOOPS = [
    ("for event of case (i, e) => e + 1 end", [1, 2], [2, 3]),
    ("for event of case (i, e) => [i, e] end", ["a", "b"], [[0, "a"], [1, "b"]]),
    ("for event of case (k, v) => [k, v] end", {"a": 1, "b": 2}, [["a", 1], ["b", 2]]),
    ("for event of case (i, e) when e > 1 => e end", [1, 2, 3], [2, 3]),
    ('for event of case (i, e) when e > 2 => "large" case (i, e) when e > 1 => "small" end', [1, 2, 3], ["small", "large"]),
    ("for event of case (i, e) when i == 0 => e case (j, f) => -f end", [1, 2, 3], [1, -2, -3]),
    ("for event of case (i, e) => e end", [], []),
    ("for event of case (i, e) => e end", 7, []),
    ('for event of case (k, v) => {"#{k}": v} end', {"a": 1}, [{"a": 1}]),
    ("for event of case (i, e) => for e of case (j, f) => f end end", [[1, 2], [3]], [[1, 2], [3]]),
    ("for event.a of case (i, e) => e end", {}, "!`event.a`: a record without `a`"),
    ("for event of case (i, e) => e + 1 end", [1, "a"], "!`+` cannot be applied to a string and a whole number"),
    # into and use
    ("for event into 0 use + of case (i, e) => e end", [1, 2, 3], 6),
    ("for event into 0 of case (i, e) => e end", [1, 2, 3], 6),
    ("for event into 1 use * of case (i, e) => e end", [2, 3], 6),
    ("for event into [] use + of case (i, e) => [e, e] end", [1, 2], [1, 1, 2, 2]),
    ('for event into {} use + of case (k, v) => {"#{k}": v + 1} end', {"a": 1, "b": 2}, {"a": 2, "b": 3}),
    ("for event into false use or of case (i, e) => e > 2 end", [1, 2, 3], True),
    ("for event into true use and of case (i, e) => e > 2 end", [1, 2, 3], False),
    ("for event into 10 use - of case (i, e) when e > 1 => e end", [1, 2, 3], 5),
    ("for event into event use + of case (i, e) => [e] end", [1], [1, 1]),
    ("for event into 0 use + of case (i, e) => e end", [1, "a"], "!`+` cannot be applied to a whole number and a string"),
    ("for event into true use and of case (i, e) => e end", [1], "!`and` cannot be applied to a whole number"),
    # of what it reads
    ("for [1, 2] of case (i, e) => e * event end", 3, [3, 6]),
    ("match event of case x = %[] => for x of case (i, e) => 1 end default => 0 end", [1, 2], []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "event", "expected"), LOOPS, ids=[one[0] for one in LOOPS])
def test_a_loop_makes(text: str, event: object, expected: object) -> None:
    wanted = expected[1:] if isinstance(expected, str) and expected.startswith("!") else ("out", expected)
    assert script(text).run(event) == [wanted]
    if not isinstance(expected, str):
        assert expression(text).evaluate(event) == expected


def test_a_loop_may_do_something() -> None:
    made = script(
        """
        let sum = 0;
        for event.list of
          case (i, e) when e > 100 => emit {"large": e} => "large"
          case (i, e) when e < 0 => drop
          case (i, e) => let sum = sum + e
        end;
        let event.sum = sum;
        event
        """
    )
    events = [{"list": [1, 2]}, {"list": [1, 101, 2]}, {"list": [-1, 101]}, {"list": []}]
    assert made.run(*events) == [
        ("out", {"list": [1, 2], "sum": 3}),
        ("large", {"large": 101}),
        None,
        ("out", {"list": [], "sum": 0}),
    ]


def test_a_script_is_left_out_of_loops_within_loops() -> None:
    made = script(
        """
        for event of case (i, row) =>
          for row of
            case (j, e) when e == 0 => emit [i, j]
            case (j, e) => null
          end
        end;
        event
        """
    )
    assert made.run([[1, 2], [3, 0], [0]], [[1]]) == [("out", [1, 1]), ("out", KEPT)]


def test_what_is_gone_through_does_not_change_on_the_way() -> None:
    made = script('for event of case (k, v) => let event["#{k}#{k}"] = v end; event')
    assert made.run({"a": 1, "b": 2}) == [("out", {"a": 1, "b": 2, "aa": 1, "bb": 2})]


def test_an_element_out_of_range_is_an_error_where_it_is_read() -> None:
    made = script("for event of case (i, e) when i > 0 => e + 1 case (i, e) => 0 end")
    assert made.run([1 << 70, 1]) == [("out", [0, 2])]
    assert made.run([0, 1 << 70]) == ["a number out of range: whole numbers reach from -2^63 to 2^64-1"]


def test_names_of_a_case_are_known_in_it() -> None:
    found, said = read("for event of case (i, e) => i case (j, f) => e end")
    assert found is None
    assert said == ["unknown constant `e`"]
    found_script, said = read_script("let e = 5; for event of case (i, e) => e end; e")
    assert found_script is not None
    assert found_script.run([1]) == [("out", 5)]
