"""Functions in the language. Each is run compiled and interpreted."""

import pytest

from tests.compile.world import read_script, script

FUNCTIONS = [
    ("fn twice(x) with x * 2 end;", "twice(event)", [(2, 4)]),
    ("fn f() with 7 end;", "f()", [(2, 7)]),
    ("fn f(x) with let y = x + 1; let y = y * 2; y end;", "f(event)", [(2, 6)]),
    ("fn f(x) with let x.a = 1; x end;", "[f(event), event]", [({}, [{"a": 1}, {}])]),
    ("fn f(x) with match x of case 1 => 10 default => x end end;", "f(event)", [(1, 10), (2, 2)]),
    ("fn f(x) with for x of case (i, e) => e * 2 end end;", "f(event)", [([1, 2], [2, 4])]),
    ("fn g(x) with x + 1 end; fn f(x) with g(g(x)) end;", "f(event)", [(1, 3)]),
    ("fn f(x) with g(x) end; fn g(x) with x + 1 end;", "f(event)", [(1, 2)]),
    ("const c = 5; fn f(x) with x + c end;", "f(event)", [(1, 6)]),
    ("fn f(x) with string::len(x) end;", "f(event)", [("ab", 2), (1, "!`string::len`: it takes a string, not a whole number")]),
    # cases
    ("fn f(a, b) of case (0, _) => b case (a, 1) => a default => a + b end;", "f(event.a, event.b)",
     [({"a": 0, "b": 5}, 5), ({"a": 7, "b": 1}, 7), ({"a": 7, "b": 2}, 9)]),
    ("fn f(x) of case (%{present a}) => x.a case (~ json||) => 1 default => 2 end;", "f(event)", [({"a": 9}, 9), ("{}", 1), ("{", 2)]),
    ("fn f(x) of case (_) when x > 5 => 1 default => 2 end;", "f(event)", [(6, 1), (5, 2)]),
    # recur
    ("fn sum(n, acc) of case (0, _) => acc default => recur(n - 1, acc + n) end;", "sum(event, 0)", [(3, 6), (10_000, 50_005_000)]),
    ("fn fib(a, b, n) of case (a, b, n) when n > 0 => recur(b, a + b, n - 1) default => a end;", "fib(0, 1, event)", [(20, 6765)]),
    ("fn f(n) with match n of case 0 => 0 default => recur(n - 1) end end;", "f(event)", [(5, 0)]),
    ("fn f(n) with recur(n + 1) end;", "f(event)", [(0, "!`f`: more than 65536 times `recur`")]),
]  # fmt: skip


@pytest.mark.parametrize(("functions", "text", "runs"), FUNCTIONS, ids=[one[0] for one in FUNCTIONS])
def test_a_function_is(functions: str, text: str, runs: list[tuple[object, object]]) -> None:
    made = script(text, functions)
    within = script(f"{functions} {text}")
    for event, expected in runs:
        wanted = expected[1:] if isinstance(expected, str) and expected.startswith("!") else ("out", expected)
        assert made.run(event) == [wanted]
        assert within.run(event) == [wanted]


MISTAKES = [
    ("", "f(1)", "unknown function `f`"),
    ("fn twice(x) with x end;", "twic(1)", "unknown function `twic`"),
    ("fn f(x) with x end;", "f(1, 2)", "`f` takes 1 argument, not 2"),
    ("fn f(x) with y end;", "f(1)", "unknown constant `y`"),
    ("fn f(x) with event end;", "f(1)", "a function sees its parameters alone, not `event`"),
    ("fn f(x) with emit x end;", "f(1)", "`emit` ends a script: it stands in none here"),
    ("fn f(x) with drop end;", "f(1)", "`drop` ends a script: it stands in none here"),
    ("fn f(x) with f(x) end;", "f(1)", "these functions call each other: f -> f"),
    ("fn f(x) with g(x) end; fn g(x) with f(x) end;", "f(1)", "these functions call each other: f -> g -> f"),
    ("fn f(x) with recur(x, 1) end;", "f(1)", "this function takes 1 argument, not 2"),
    ("fn f(x) with recur(x); 1 end;", "f(1)", "`recur` stands the last of a function only"),
    ("", "recur(1)", "`recur` stands in a function only"),
    ("fn f(x, x) with x end;", "f(1, 2)", "parameter `x` stands twice here"),
]


@pytest.mark.parametrize(("functions", "text", "said"), MISTAKES)
def test_a_mistake_is_said_when_the_file_is_read(functions: str, text: str, said: str) -> None:
    _, messages = read_script(text, functions)
    assert said in messages
