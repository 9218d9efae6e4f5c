"""std::size and std::time::nanos: numbers in units."""

import pytest
from hypothesis import given, strategies as st

from tests.walflow_kernel.std.world import gives, refuses
from walflow_kernel.std.nanos import _UNITS

SIZES = ["kiB", "MiB", "GiB", "TiB", "PiB", "EiB"]


def test_sizes_are_powers_of_1024() -> None:
    assert [gives(f"size::{name}(1)") for name in SIZES] == [1024**power for power in range(1, 7)]


@pytest.mark.parametrize("name", SIZES)
def test_what_sizes_refuse(name: str) -> None:
    assert "the result is out of range" in refuses(f"size::{name}(event)", 2**63)
    assert "it takes a number, not a string" in refuses(f"size::{name}(event)", "1")
    assert gives(f"size::{name}(event) == 1.5 * size::{name}(1)", 1.5) is True


@given(st.sampled_from(sorted(_UNITS)), st.integers(-(2**62), 2**64 - 1))
def test_what_is_truncated_is_the_last_full_unit(name: str, nanos: int) -> None:
    found = gives(f"nanos::truncate_{name}(event)", nanos)
    assert isinstance(found, int)
    assert found % _UNITS[name] == 0
    assert found <= nanos < found + _UNITS[name]


@pytest.mark.parametrize("name", sorted(_UNITS))
def test_what_nanos_refuse(name: str) -> None:
    assert "it takes a whole number, not a string" in refuses(f"nanos::truncate_{name}(event)", "1")
    assert "the result is out of range" in refuses(f"nanos::truncate_{name}(event)", -(2**63))


def test_constants() -> None:
    for unit, name in (("micros", "MICROSECOND"), ("weeks", "WEEK"), ("hours", "HOUR")):
        assert gives(f"nanos::NANOS_PER_{name}") == _UNITS[unit]
