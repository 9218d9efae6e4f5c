"""std::test: assertions in a script. The runner of tests is not here."""

from collections.abc import Mapping
from typing import Final

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, function
from walflow_kernel.text import spliced
from walflow_kernel.values import equal, is_out_of_range, out_of_range

_MOST_SHOWN: Final = 200  # characters


def assert_(name: str, expected: object, got: object) -> bool:
    if is_out_of_range(expected) or is_out_of_range(got):
        raise out_of_range()
    if not equal(expected, got):
        raise CannotApply(f"{_cut(name)}: expected {_shown(expected)}, got {_shown(got)}")
    return True


def suite(*specification: object) -> None:
    """Its arguments are evaluated already, so each assertion in them has passed or failed."""


def test(*specification: object) -> None:
    """Like `suite`."""


def _shown(value: object) -> str:
    try:
        text = spliced(value)
    except CannotApply:
        return "what JSON cannot hold"
    return _cut(f'"{text}"' if isinstance(value, str) else text)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


FUNCTIONS: Mapping[str, Function] = {
    "assert": function(assert_),
    "suite": function(suite),
    "test": function(test),
}
