"""std::type."""

from collections.abc import Callable, Mapping
from types import NoneType

from walflow_kernel.functions import Function, function

_NAMES: Mapping[type, str] = {
    NoneType: "null",
    bool: "bool",
    int: "integer",
    float: "float",
    str: "string",
    bytes: "binary",
    list: "array",
    dict: "record",
}


def as_string(value: object) -> str:
    return _NAMES.get(_kind(value), type(value).__name__)  # a type of another distribution's codec


def is_number(value: object) -> bool:
    return _kind(value) in {int, float}


def _is(kind: type) -> Callable[[object], bool]:
    def is_kind(value: object) -> bool:
        return _kind(value) is kind

    return is_kind


def _kind(value: object) -> type:
    return type(value)


FUNCTIONS: Mapping[str, Function] = {
    "as_string": function(as_string),
    "is_number": function(is_number),
    **{f"is_{name}": function(_is(kind)) for kind, name in _NAMES.items()},
}
