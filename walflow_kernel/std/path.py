"""std::path."""

from collections.abc import Mapping

from walflow_kernel.functions import Function, function
from walflow_kernel.paths import is_index
from walflow_kernel.values import is_array, is_record

Array = list[object]
Record = dict[str, object]


def try_default(base: Record | Array | None, segments: Array, otherwise: object) -> object:
    """Strings are keys of records, numbers are indexes of arrays. A path that leads to nothing is no error."""
    if base is None:
        return otherwise
    found: object = base
    for segment in segments:
        if is_record(found):
            if not isinstance(segment, str) or segment not in found:
                return otherwise
            found = found[segment]
        elif is_array(found) and is_index(segment) and segment < len(found):
            found = found[segment]
        else:
            return otherwise
    return found


FUNCTIONS: Mapping[str, Function] = {"try_default": function(try_default)}
