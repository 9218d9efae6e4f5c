"""What `walflow check` warns of: a file a warning. Each file here is registered by being here, and has one
`WarningKind`.

walflow check --list-warnings      all of them
docs/reference/warnings.md         made from them
# check: allow NAME                in a flow file: permits one
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from walflow.diagnostics import Diagnostic, Span


class WarningKind(NamedTuple):
    """`name`: what `# check: allow NAME` permits. `means`: a sentence for the list."""

    name: str
    means: str


def warning(kind: WarningKind, message: str, span: Span | None = None, hint: str | None = None) -> Diagnostic:
    return Diagnostic("warning", message, span, hint, kind.name)


@cache
def registered() -> Mapping[str, WarningKind]:
    """By name. Those of walflow's connectors, a `Risk` each, are among them."""
    files = [import_module(f"{__name__}.{file.name}") for file in iter_modules(__path__)]
    kinds = [value for file in files for value in vars(file).values() if isinstance(value, WarningKind)]
    return {kind.name: kind for kind in sorted(kinds)}
