"""The functions behind `intrinsic fn … as NAME`: those that distributions register in the group `walflow.functions`.

The entry point has the name of the module of its functions (`std::array`). It names a mapping of them, made by
`walflow_kernel.functions.function`. Ours are registered in the same way. A function of another distribution is not
trusted: if it raises, or returns something that is no value, that is an error of the event.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import cast

from walflow.extras import extra_with
from walflow.plugins import NotLoadable, Plugins, discover
from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function
from walflow_kernel.shipped import NEEDS, missing
from walflow_kernel.values import complaint
from walflow_kernel.windows.functions import WindowFunction

GROUP = "walflow.functions"
OURS = "walflow"

Functions = Mapping[str, Function]


@cache
def registered() -> Plugins[Functions]:
    """By module. Raises NotLoadable if two distributions register the same module."""
    return discover(GROUP, "module of functions", _checked)


@cache
def intrinsic(name: str) -> Function | None:
    """`std::array::len`. None if it does not exist. Raises NotLoadable."""
    module, _, function = name.rpartition("::")
    if module not in registered():
        return None
    found = registered()[module].get(function)
    if found is None or module in registered().of(OURS):
        return found
    return replace(found, apply=_guarded(found.apply))


def extra_for(function: Function) -> str | None:
    """The extra that it needs and that is not installed. None if nothing is missing."""
    modules = [getattr(function.apply, "__module__", "")]
    if isinstance(function, WindowFunction) and function.aggregate is not None:
        modules.append(function.aggregate.result.__module__)
    lacking = missing(need for module in modules for need in NEEDS.get(module, ()))
    return extra_with(lacking[0]) if lacking else None


def _checked(named: str, found: object) -> Functions:
    functions = cast("Mapping[object, object]", found) if isinstance(found, Mapping) else None
    if functions is None or not all(isinstance(one, Function) for one in functions.values()):
        raise NotLoadable(f"{named} is no mapping of names to walflow_kernel.functions.function(…)")
    return cast("Functions", functions)


def _guarded(apply: Callable[..., object]) -> Callable[..., object]:
    def guarded(*arguments: object) -> object:
        try:
            found = apply(*arguments)
        except (CannotApply, RecursionError, MemoryError):
            raise
        except Exception as failed:
            raise CannotApply(f"{type(failed).__name__}: {failed}") from failed
        if not isinstance(found, bytes) and (reason := complaint(found)) is not None:
            raise CannotApply(f"it gave what is no value: {reason}")
        return found

    return guarded
