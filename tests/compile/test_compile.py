"""What an expression is for an event: a table of them, and of what they refuse."""

from collections.abc import Mapping

import pytest

from tests.compile.world import expression, read
from walflow_kernel.errors import CannotEvaluate
from walflow_kernel.values import OutOfRange

EVENT = {
    "n": 5,
    "x": 1.5,
    "t": True,
    "null": None,
    "text": "hé",
    "deep": {"list": [1, {"k": "v"}], "key": "list"},
    "at": 1,
    "large": 2**63,
    "one": [1],
    "big": 1e300,
    "huge": 2**64,
    "beyond": OutOfRange("1e400"),
}
HUGE = "a number out of range: whole numbers reach from -2^63 to 2^64-1"
META: Mapping[str, object] = {"tcp": {"peer": {"port": 80}}, "x": 1}


def value(text: str) -> object:
    return expression(text).evaluate(EVENT, META)


VALUES: list[tuple[str, object]] = [
    ("event", EVENT),
    ("event.n", 5),
    ('event["n"]', 5),
    ("event.deep.list[1].k", "v"),
    ("event.deep.list[event.at].k", "v"),
    ("event.deep[event.deep.key][0]", 1),
    ("$", META),
    ("$tcp.peer.port", 80),
    ("$.x", 1),
    ('{"a": event.n, "#{event.deep.key}": [event.x, 2], "c": {"d": null}}',
     {"a": 5, "list": [1.5, 2], "c": {"d": None}}),
    ("[event.n, [event.t]]", [5, [True]]),
    ('"a #{event.n} #{event.text} #{event.one} #{event.large} \\#{x}"', f"a 5 hé [1] {2**63} #{{x}}"),
    ("event.n + 1 - 2 * 3", 0),
    ("event.n % 3 + event.n / 2", 4.5),
    ("event.large - 1 + event.large", 2**64 - 1),
    ("present event.huge and present event.beyond", True),
    ("event.t or event.huge == 1", True),
    ("-event.n", -5),
    ("event.text + \"!\"", "hé!"),
    ("event.one + [2]", [1, 2]),
    ("event.large + 1", 2**63 + 1),
    ("event.n == 5.0", True),
    ("event.n != 5", False),
    ("event.t == 1", False),
    ("event.one == [true]", False),
    ('{"a": event.n} == {"a": 5}', True),
    ("event.text == 5", False),
    ("event.n < 5.5 and event.n >= 5", True),
    ("event.text > \"a\"", True),
    ("event.big > 1.5", True),
    ("event.n == 4 or event.n == 5", True),
    ("event.t xor true", False),
    ("not event.t", False),
    ("event.t & false", False),
    ("event.n & 4", 4),
    ("present event.n", True),
    ("present event.null", True),
    ("present event.deep.list[1].k", True),
    ("absent event.no.way", True),
    ("present event.n.k", False),
    ("present event.one[7]", False),
    ("present $tcp.no", False),
    ("present event", True),
    ("present args.x", False),
    ("present event.no and event.no > 3", False),  # decided by the first
    ("absent event.no or event.no > 3", True),
    ("1 + 2", 3),
    ('"a" == event', False),
]  # fmt: skip

REFUSED = [
    ("event.no", "`event.no`: a record without `no`"),
    ("event.n.k", "`event.n.k`: a whole number without `k`"),
    ("event.one[1]", "`event.one[1]`: an array without `1`"),
    ("event.one.k", "`event.one.k`: an array without `k`"),
    ("event.text[0]", "`event.text[0]`: a string without `0`"),
    ("event.deep[event.text]", "`event.deep[event.text]`: a record without `event.text`"),
    ("event.deep[event.null]", "`event.deep[event.null]`: `event.null` is null, neither a key nor an index"),
    ("event.one[event.t]", "`event.one[event.t]`: `event.t` is true, neither a key nor an index"),
    ("$tcp.no", "`$tcp.no`: a record without `no`"),
    ("event.n + event.text", "`+` cannot be applied to a whole number and a string"),
    ("event.n < event.text", "`<` cannot be applied to a whole number and a string"),
    ("event.null < 1", "`<` cannot be applied to null and a whole number"),
    ("event.huge", HUGE),
    ("event.huge == 1", HUGE),
    ("-event.huge", HUGE),
    ("[event.huge]", HUGE),
    ("event.beyond < 1", HUGE),
    ('"#{event.beyond}"', HUGE),
    ("event.large * 2", "the result of `*` is out of range"),
    ("0 - event.large - 1", "the result of `-` is out of range"),
    ("event.n / 0", "division by zero"),
    ("event.n and true", "`and` cannot be applied to a whole number"),
    ("false or event.text", "`or` cannot be applied to a string"),
    ("not event.n", "`not` cannot be applied to a whole number"),
    (" * ".join(["event.big"] * 15), "the result of `*` is out of range"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), VALUES, ids=[text for text, _ in VALUES])
def test_values(text: str, expected: object) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_what_has_no_value(text: str, why: str) -> None:
    with pytest.raises(CannotEvaluate) as refused:
        value(text)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("event.a + 1 / 0", "division by zero"),
        ("event[1.5]", "a key is a string, an index a whole number from 0 on"),
        ("state", "`state` is a script's: a select has none"),
        ("event + word", "unknown constant `word`"),
        ("present 1", "`present` takes a path"),
        ("present (event.a + 1)", "`present` takes a path"),
        ("args.x == event", "unknown arg `x`"),
        ("event.a[1:-2]", "where a slice begins and ends is a whole number from 0 on"),
    ],
)
def test_mistakes_are_seen_at_load(text: str, said: str) -> None:
    found, messages = read(text)
    assert found is None
    assert messages == [said]


def test_what_needs_no_event_is_a_constant() -> None:
    constant = expression('{"a": 1 + 1}').constant
    assert constant is not None
    assert constant.value == {"a": 2}
    assert expression("event").constant is None


@pytest.mark.test
def test_a_long_chain_does_not_nest() -> None:
    assert value(" + ".join(["event.n"] * 5000)) == 25000
    assert value(" and ".join(["event.t"] * 5000)) is True
