"""std::binary."""

import pytest
from hypothesis import given, strategies as st

from tests.walflow_kernel.std.world import gives, refuses


@given(st.binary(max_size=100))
def test_bytes_and_back(data: bytes) -> None:
    assert gives("binary::into_bytes(event)", data) == list(data)
    assert gives("binary::from_bytes(binary::into_bytes(event)) == event", data) is True
    assert gives("binary::len(event)", data) == len(data)


@pytest.mark.parametrize(
    ("text", "event", "why"),
    [
        ("binary::from_bytes(event)", [256], "it takes an array of numbers from 0 to 255, and one element is 256"),
        ("binary::from_bytes(event)", [-1], "and one element is -1"),
        ("binary::from_bytes(event)", [10**40], "and one element is a number out of range"),
        ("binary::from_bytes(event)", ["a"], "and one element is a string"),
        ("binary::from_bytes(event)", [True], "and one element is true"),
        ("binary::from_bytes(event)", b"", "it takes an array, not binary data"),
        ("binary::len(event)", "a", "it takes binary data, not a string"),
        ("binary::into_bytes(event)", [1], "it takes binary data, not an array"),
        ("binary::into_bytes(event)", bytes((1 << 20) + 1), "something longer than 1048576"),
    ],
)
def test_what_it_refuses(text: str, event: object, why: str) -> None:
    assert why in refuses(text, event)
