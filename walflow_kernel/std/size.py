"""std::size: bytes in a unit."""

import math
from collections.abc import Callable, Mapping

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, function
from walflow_kernel.std.integer import sized

_UNITS: Mapping[str, int] = {
    **{name: 1000**power for power, name in enumerate(("kilo", "mega", "giga", "tera", "peta"), start=1)},
    **{name: 1024**power for power, name in enumerate(("kibi", "mebi", "gibi", "tebi", "pebi"), start=1)},
    **{name: 1024**power for power, name in enumerate(("kiB", "MiB", "GiB", "TiB", "PiB", "EiB"), start=1)},
}


def _of(unit: int) -> Callable[[int | float], int | float]:
    def bytes_in(size: float) -> int | float:
        made = size * unit
        if isinstance(made, int):
            return sized(made)
        if math.isinf(made):
            raise CannotApply("the result is out of range")
        return made

    return bytes_in


FUNCTIONS: Mapping[str, Function] = {name: function(_of(unit)) for name, unit in _UNITS.items()}
