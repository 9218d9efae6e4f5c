"""std::float: numbers that come from anyone."""

import time

import pytest

from walflow_kernel.errors import CannotApply
from walflow_kernel.std.float import parse


@pytest.mark.alone
@pytest.mark.parametrize("text", ["1" * 3_999 + "x", "1" * 1_999 + "." + "1" * 1_999 + "x", "." + "1" * 3_998 + "x"])
def test_what_is_no_number_is_seen_at_once(text: str) -> None:
    began = time.perf_counter()
    for _ in range(10):
        with pytest.raises(CannotApply, match="this is no number"):
            parse(text)
    assert time.perf_counter() - began < 0.02


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1.0), ("1.", 1.0), (".5", 0.5), ("-1.5e3", -1500.0), ("+2E-1", 0.2), ("00.10", 0.1)]
)
def test_what_is_a_number(text: str, number: float) -> None:
    assert parse(text) == number


@pytest.mark.parametrize("text", ["", ".", "e1", "1e", "--1", "1 ", "1_0", "inf", "nan", "0x1", "\u0661"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(CannotApply, match="is no number"):
        parse(text)
