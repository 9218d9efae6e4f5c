"""What an expression is made into."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Final

Evaluate = Callable[[object, Mapping[str, object]], object]
"""What it is for an event and its metadata. Raises CannotEvaluate."""

# When the event at hand came in, in nanoseconds since 1970: whoever evaluates sets it, once a block.
INGEST_NS: Final[ContextVar[int]] = ContextVar("INGEST_NS", default=0)


def always(value: object) -> Evaluate:
    return lambda event, meta: value
