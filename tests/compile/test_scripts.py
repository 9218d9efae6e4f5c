"""Scripts: what leaves, by which port, and what they change. Each is run compiled and interpreted."""

import pytest

from tests.compile.world import KEPT, read_script, script

RUNS = [
    # what leaves
    ("event", {"a": 1}, ("out", KEPT)),
    ("event.a", {"a": 1}, ("out", 1)),
    ("emit event", {"a": 1}, ("out", KEPT)),
    ("emit", {"a": 1}, ("out", KEPT)),
    ('emit => "p"', {"a": 1}, ("p", KEPT)),
    ('emit {"b": event.a} => "p"', {"a": 1}, ("p", {"b": 1})),
    ("drop", {"a": 1}, None),
    ("drop; event", {"a": 1}, None),
    ("emit 1; emit 2", {}, ("out", 1)),
    ("event.b", {"a": 1}, "`event.b`: a record without `b`"),
    # let
    ("let x = event.a; x + 1", {"a": 1}, ("out", 2)),
    ("let x = 1; let x = x + 1; x", {}, ("out", 2)),
    ("let event = 1; event", {"a": 1}, ("out", 1)),
    ("let event.a = 2; event", {"a": 1}, ("out", {"a": 2})),
    ("let event.b = 2; event", {"a": 1}, ("out", {"a": 1, "b": 2})),
    ("let event.b.c.d = 2; event", {"a": 1}, ("out", {"a": 1, "b": {"c": {"d": 2}}})),
    ("let event.b.c = 2; event", {"b": {"a": 1}}, ("out", {"b": {"a": 1, "c": 2}})),
    ('let event["x y"] = 2; event', {}, ("out", {"x y": 2})),
    ("let event[event.k] = 2; event", {"k": "a"}, ("out", {"k": "a", "a": 2})),
    ("let event[event.k].b = 2; event", {"k": "a"}, ("out", {"k": "a", "a": {"b": 2}})),
    ("let event[event.k] = 2; event", {"k": 1}, "`event[event.k]`: `event.k` is a whole number, not a key"),
    ("let event.a.b = 2; event", {"a": 1}, "`event.a.b`: a whole number takes no member `b`"),
    ("let event.a = 2; event", [1], "`event.a`: an array takes no member `a`"),
    ("let x = {}; let x.a.b = 1; x", {}, ("out", {"a": {"b": 1}})),
    ("let x = 1", {}, ("out", 1)),
    ("let x = event.a; let x.b = 1; event", {"a": {}}, ("out", KEPT)),
    ("let x = 1; present x", {}, ("out", True)),
    ("let x = {}; [present x.a, absent x.a]", {}, ("out", [False, True])),
    # metadata
    ("let $.a = 1; $", {}, ("out", {"m": 7, "a": 1})),
    ("let $a = 1; $.a + $m", {}, ("out", 8)),
    ("$m", {}, ("out", 7)),
    # two names never see each other's changes
    ("let x = event; let x.a = 2; [event, x]", {"a": 1}, ("out", [{"a": 1}, {"a": 2}])),
    ("let x = event; let event.a = 2; [event, x]", {"a": 1}, ("out", [{"a": 2}, {"a": 1}])),
    ("let event.e = event; let event.e.a = 2; event", {"a": 1}, ("out", {"a": 1, "e": {"a": 2}})),
    ("let x = {}; let y = x; let y.a = 1; [x, y]", {}, ("out", [{}, {"a": 1}])),
    ('let x = {"r": {}}; let y = x.r; let y.a = 1; [x, y]', {}, ("out", [{"r": {}}, {"a": 1}])),
    ("let x = [event.r]; let event.r.a = 1; [x, event]", {"r": {}}, ("out", [[{}], {"r": {"a": 1}}])),
]


@pytest.mark.parametrize(("text", "event", "expected"), RUNS, ids=[run[0] for run in RUNS])
def test_a_script_ends_in(text: str, event: object, expected: object) -> None:
    assert script(text).run(event, meta={"m": 7}) == [expected]


def test_events_are_apart() -> None:
    """What one event changes is not there for the next, in constants neither."""
    made = script("const c = {}; let x = c; let x.a = event; let $.n = event; [x, $.n]")
    assert made.run(1, 2, meta={"n": 0}) == [("out", [{"a": 1}, 1]), ("out", [{"a": 2}, 2])]


MISTAKES = [
    ("x", "unknown constant `x`"),
    ("let number = 1; numbr", "unknown name `numbr`"),
    ("let x.a = 1; event", "unknown name `x`"),
    ("let args = 1; event", "`args` cannot be assigned to"),
    ("let args.a = 1; event", "`args` cannot be assigned to"),
    ("let $ = {}; event", "`let` takes a member of `$`, not all of it"),
    (
        "let event[0] = 1; event",
        "`let` assigns to a member of a record: an element of an array cannot be assigned to",
    ),
    (
        "let event[0:1] = 1; event",
        "`let` assigns to a member of a record: an element of an array cannot be assigned to",
    ),
    ('emit event => "#{event.a}"', "the name of a port has no `#{}`"),
    ("let string::len = 1; event", "this cannot be assigned to"),
    ("1 / 0", "division by zero"),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_a_mistake_is_said_when_the_file_is_read(text: str, said: str) -> None:
    found, messages = read_script(text)
    assert found is None
    assert [said] == messages


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("let event.a = 1", "what leaves is the value that this `let` assigns"),
        ("drop; event", "this is never reached"),
        ("emit 1; event", "this is never reached"),
    ],
)
def test_a_warning(text: str, said: str) -> None:
    found, messages = read_script(text)
    assert found is not None
    assert messages == [said]


def test_state_is_refused() -> None:
    for text in ("state.count", "let state.count = 1; event", "let state = {}; event"):
        found, messages = read_script(text)
        assert found is None
        assert messages[0].startswith("`state` is not supported yet: what a script keeps")
