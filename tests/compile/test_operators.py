import pytest
from hypothesis import given, strategies as st

from tests.compile.world import expression, interpreted, term
from walflow_kernel.errors import CannotApply, CannotEvaluate
from walflow_kernel.operators import binary, unary

WORKS = [
    (1, "+", 2, 3),
    (2**63, "+", 2**63 - 1, 2**64 - 1),
    (-(2**62), "*", 2, -(2**63)),
    (1.5, "-", 1, 0.5),
    (6, "/", 3, 2.0),
    (1, "/", 2, 0.5),
    (-7, "%", 3, -1),
    (7, "%", -3, 1),
    ("a", "+", "b", "ab"),
    ([1], "+", ["a"], [1, "a"]),
    ("a", "<", "b", True),
    (1, "<=", 1.0, True),
    (2, ">", 3, False),
    (3, ">=", 3, True),
    (1, "==", 1.0, True),
    (1, "==", True, False),
    ({"a": [1]}, "==", {"a": [1]}, True),
    (None, "!=", 0, True),
    (True, "and", False, False),
    (True, "or", False, True),
    (True, "xor", True, False),
    (6, "&", 3, 2),
    (6, "|", 1, 7),
    (6, "^", 3, 5),
    (1, "<<", 4, 16),
    (-16, ">>", 2, -4),
]
REFUSED = [
    (1, "+", "a", "`+` cannot be applied to a whole number and a string"),
    (True, "+", 1, "`+` cannot be applied to true and a whole number"),
    ("a", "*", 3, "`*` cannot be applied to a string and a whole number"),
    (1, "and", True, "`and` cannot be applied to a whole number and true"),
    ([1], "<", [2], "`<` cannot be applied to an array and an array"),
    (1.5, "&", 1, "`&` cannot be applied to a decimal number and a whole number"),
    (1, "/", 0, "division by zero"),
    (1, "%", 0, "division by zero"),
    (1, "<<", 64, "`<<` shifts by 0 to 63 bits, not by 64"),
    (1e308, "*", 10, "the result of `*` is out of range"),
    (2**63, "*", 2, "the result of `*` is out of range"),
    (-(2**63), "-", 1, "the result of `-` is out of range"),
    (2**64, "+", -1, "a number out of range: whole numbers reach from -2^63 to 2^64-1"),
    ("a" * 2**20, "+", "a", "`+` would make something longer than 1048576"),
]


@pytest.mark.parametrize(("left", "symbol", "right", "result"), WORKS)
def test_binary(left: object, symbol: str, right: object, result: object) -> None:
    found = binary(symbol, left, right)
    assert (found, type(found)) == (result, type(result))


@pytest.mark.parametrize(("left", "symbol", "right", "why"), REFUSED)
def test_what_cannot_be_applied(left: object, symbol: str, right: object, why: str) -> None:
    with pytest.raises(CannotApply) as refused:
        binary(symbol, left, right)
    assert str(refused.value) == why


values = st.sampled_from(
    [None, True, False, 0, 1, -1, 1.0, 1.5, -0.0, 2**63, 2**64, "", "a", "b", b"a", [1], [True], {}, {"a": 1}]
)
symbols = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "xor", "and", "or", ">>>"])


@given(values, symbols, values)
def test_the_quick_path_and_the_operator_in_full_say_the_same(left: object, symbol: str, right: object) -> None:
    event = {"l": left, "r": right}
    text = f"event.l {symbol} event.r"
    outcomes: list[str] = []
    for evaluate in (expression(text).evaluate, expression(text).interpret):
        try:
            found = evaluate(event)
            outcomes.append(f"{found!r} {type(found)}")
        except CannotEvaluate as refused:
            outcomes.append(str(refused))
    assert outcomes[0] == outcomes[1]


LITERALS = ["1", "-1", "1.5", '"a"', "true", "null", "[1]", "18446744073709551615"]


@given(values, symbols, st.sampled_from(LITERALS), st.booleans())
def test_beside_a_constant_too(value: object, symbol: str, literal: str, first: bool) -> None:
    text = f"{literal} {symbol} event" if first else f"event {symbol} {literal}"
    outcomes: list[str] = []
    for evaluate in (expression(text).evaluate, lambda event: interpreted(term(text), event)):
        try:
            found = evaluate(value)
            outcomes.append(f"{found!r} {type(found)}")
        except CannotEvaluate as refused:
            outcomes.append(str(refused))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("symbol", "value", "result"),
    [("-", 1, -1), ("+", 1.5, 1.5), ("not", True, False), ("!", 5, 2**64 - 6), ("!", -6, 5), ("!", True, False)],
)
def test_unary(symbol: str, value: object, result: object) -> None:
    assert unary(symbol, value) == result


@pytest.mark.parametrize(("symbol", "value"), [("-", "a"), ("-", True), ("not", 1), ("!", 1.5), ("!", None)])
def test_unary_refused(symbol: str, value: object) -> None:
    with pytest.raises(CannotApply):
        unary(symbol, value)
