"""std::test."""

import pytest

from tests.walflow_kernel.std.world import gives, refuses


@pytest.mark.parametrize(("expected", "got"), [(1, 1.0), ("a", b"a"), ({"a": [1]}, {"a": [1]}), (None, None)])
def test_what_is_equal(expected: object, got: object) -> None:
    assert gives('test::assert("name", event.e, event.g)', {"e": expected, "g": got}) is True


@pytest.mark.parametrize(
    ("expected", "got", "why"),
    [
        (1, 2, "name: expected 1, got 2"),
        ("1", 1, 'name: expected "1", got 1'),
        ({"a": 1}, [True, None], 'name: expected {"a":1}, got [true,null]'),
        (b"a", b"b", "name: expected what JSON cannot hold, got what JSON cannot hold"),
        ("x" * 300, 1, f'name: expected "{"x" * 199}…, got 1'),
        (2**80, 1, "a number out of range"),
    ],
)
def test_what_is_not(expected: object, got: object, why: str) -> None:
    assert why in refuses('test::assert("name", event.e, event.g)', {"e": expected, "g": got})


def test_a_suite_fails_with_its_assertion() -> None:
    text = 'test::suite({"name": "s", "tests": [test::test({"name": "t", "test": test::assert("t", 1, event)})]})'
    assert gives(text, 1) is None
    assert "t: expected 1, got 2" in refuses(text, 2)


def test_a_name_is_a_string() -> None:
    assert "`name` takes a string, not a whole number" in refuses("test::assert(event, 1, 1)", 1)
