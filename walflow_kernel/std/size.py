"""std::size: bytes in a unit."""

from collections.abc import Callable, Mapping

from walflow_kernel.functions import Function, function
from walflow_kernel.std.integer import sized

_UNITS: Mapping[str, int] = {
    **{name: 1000**power for power, name in enumerate(("kilo", "mega", "giga", "tera", "peta"), start=1)},
    **{name: 1024**power for power, name in enumerate(("kibi", "mebi", "gibi", "tebi", "pebi"), start=1)},
    **{name: 1024**power for power, name in enumerate(("kiB", "MiB", "GiB", "TiB", "PiB", "EiB"), start=1)},
}


def _of(unit: int) -> Callable[[int], int]:
    def bytes_in(size: int) -> int:
        return sized(size * unit)

    return bytes_in


FUNCTIONS: Mapping[str, Function] = {name: function(_of(unit)) for name, unit in _UNITS.items()}
