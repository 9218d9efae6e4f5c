"""std::path."""

import pytest

from tests.walflow_kernel.std.world import gives, mistakes, refuses


@pytest.mark.parametrize(
    ("base", "segments", "found"),
    [
        ({"a": {"b": 1}}, ["a", "b"], 1),
        ([0, ["x", "y"]], [1, 1], "y"),
        ([{"a": 1}], [0, "a"], 1),
        ({"a": None}, ["a"], None),
        ({"a": 1}, [], {"a": 1}),
        (None, [], "none"),
        (None, ["a"], "none"),
        ({"a": 1}, ["b"], "none"),
        ({"a": 1}, [0], "none"),
        ({"a": 1}, ["a", "b"], "none"),
        ([1], ["a"], "none"),
        ([1], [1], "none"),
        ([1], [-1], "none"),
        ([1], [True], "none"),
        ([1], [0.0], "none"),
        ([1], [2**80], "none"),
    ],
)
def test_what_it_gives(base: object, segments: object, found: object) -> None:
    assert gives('path::try_default(event.b, event.s, "none")', {"b": base, "s": segments}) == found


@pytest.mark.parametrize("base", [True, 1, 1.5, "a", b"a"])
def test_what_it_refuses(base: object) -> None:
    assert "`base` takes a record or an array or null, not " in refuses("path::try_default(event, [], 1)", base)
    assert "`segments` takes an array, not " in refuses("path::try_default({}, event, 1)", base)


def test_what_is_a_mistake_at_load() -> None:
    assert mistakes("path::try_default(event, 1, 2)") == [
        "`path::try_default`: `segments` takes an array, not a whole number"
    ]
