"""What `intrinsic fn` of the shipped modules stands for, one file a module."""

from collections.abc import Callable, Mapping

from walflow.expr.std import nanos

# By the name behind `as`, for instance `std::time::nanos::from_seconds`. They raise CannotApply.
INTRINSICS: Mapping[str, Callable[..., object]] = {
    **{f"std::time::nanos::{name}": function for name, function in nanos.FUNCTIONS.items()},
}
