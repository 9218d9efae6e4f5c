"""A state as bytes: plain values come back as they were, and nothing else goes in or comes out."""

import pickle
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

from walflow_kernel.kept import HEAD, NotAState, NotPlain, pack, unpack

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=20)
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(plain)
def test_there_and_back(value: Any) -> None:
    assert repr(unpack(pack(value))) == repr(value)


@pytest.mark.parametrize("value", [Fraction(1, 2), {"a": [object()]}, int, len, {"a": Fraction}])
def test_what_is_not_plain_is_refused_where_it_is_written(value: object) -> None:
    with pytest.raises(NotPlain, match="is no plain value"):
        pack(value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it begins with b''"),
        (b"walflow state 2\n", "a state of this version with b'walflow state 1"),
        (pickle.dumps([1]), "it begins with"),
        (HEAD, "it is damaged"),
        (pack([1, "x"])[:-3], "it is damaged"),
        (HEAD + pickle.dumps(Fraction(1, 2)), "it names fractions.Fraction, and a state names nothing"),
        (HEAD + pickle.dumps(print), "it names builtins.print"),
    ],
)
def test_what_is_no_state_is_refused_where_it_is_read(data: bytes, reason: str) -> None:
    with pytest.raises(NotAState, match=reason):
        unpack(data)
