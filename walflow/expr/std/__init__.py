"""What `intrinsic fn` of the shipped modules stands for, one file a module."""

from collections.abc import Mapping

from walflow.expr.functions import Function
from walflow.expr.std import (
    array,
    base64,
    float as floats,
    integer,
    json,
    math,
    nanos,
    random,
    range as ranges,
    re,
    record,
    size,
    string,
    system,
    type as types,
    url,
)

_MODULES: Mapping[str, Mapping[str, Function]] = {
    "std::array": array.FUNCTIONS,
    "std::base64": base64.FUNCTIONS,
    "std::float": floats.FUNCTIONS,
    "std::integer": integer.FUNCTIONS,
    "std::json": json.FUNCTIONS,
    "std::math": math.FUNCTIONS,
    "std::random": random.FUNCTIONS,
    "std::range": ranges.FUNCTIONS,
    "std::re": re.FUNCTIONS,
    "std::record": record.FUNCTIONS,
    "std::size": size.FUNCTIONS,
    "std::string": string.FUNCTIONS,
    "std::time::nanos": nanos.FUNCTIONS,
    "std::type": types.FUNCTIONS,
    "std::url": url.FUNCTIONS,
    "tremor::system": system.FUNCTIONS,
}

# By the name behind `as`, for instance `std::time::nanos::from_seconds`.
INTRINSICS: Mapping[str, Function] = {
    f"{module}::{name}": function for module, functions in _MODULES.items() for name, function in functions.items()
}
