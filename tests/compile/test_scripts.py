"""Scripts: what leaves, by which port, and what they change. What each construct gives is in `tests/language`."""

import pytest

from tests.compile.world import read_script, script


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
