"""Functions in the language. What each construct gives is in `tests/language`."""

import pytest

from tests.compile.world import read_script

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
