"""What was written, as text that is the same in every process: a state is of the pipeline that made it, and of no
other.

It is of what an expression means to the compiler, and not of the code that is made of it: a comment more, or a newer
compiler, changes nothing.
"""

from collections.abc import Iterable, Mapping, Set as AbstractSet
from hashlib import sha256
from typing import cast

from walflow.compile.fields import fields_of
from walflow.compile.region import Region
from walflow.diagnostics import Span


def identity_of(regions: Iterable[Region], *also: object) -> str:
    """`also`: what else a state depends on."""
    written = _text([*map(tuple, regions), *also], frozenset())
    return sha256(written.encode()).hexdigest()[:32]


def _text(value: object, above: frozenset[int]) -> str:
    """`above`: what this is a part of. A part that has come before is a function that calls itself."""
    if isinstance(value, Span):
        return ""
    if value is None or isinstance(value, str | bytes | int | float):
        return repr(value)
    if id(value) in above:
        return "…"
    above |= {id(value)}
    if isinstance(value, Mapping):
        members = cast("Mapping[object, object]", value).items()
        return f"{{{','.join(sorted(f'{_text(key, above)}:{_text(one, above)}' for key, one in members))}}}"
    if isinstance(value, AbstractSet):
        return f"{{{','.join(sorted(_text(one, above) for one in cast('AbstractSet[object]', value)))}}}"
    name = type(value).__qualname__
    if isinstance(value, list | tuple):
        return f"{name}[{','.join(_text(one, above) for one in cast('Iterable[object]', value))}]"
    if (names := fields_of(value)) is not None:
        return f"{name}({','.join(_text(getattr(value, one), above) for one in names)})"
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', name)}"
    return f"{name}{_text(getattr(value, '__dict__', None), above)}"
