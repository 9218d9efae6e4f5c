"""What an expression asks of the place it stands in."""

from collections.abc import Mapping
from typing import Protocol

from walflow.compile.constant import Constant
from walflow.compile.nodes import Path, Root
from walflow.compile.program import FunctionOf, LocalTerm
from walflow.diagnostics import Diagnostic
from walflow_kernel.functions import Function, When
from walflow_kernel.moment import Moment


class Scope(Protocol):
    """What names stand for where the expression stands. Each reports what it does not find, but for `when`."""

    def args(self, root: Root) -> Mapping[str, Constant | None] | None:
        """None for one that is declared and could not be worked out (said already)."""
        ...

    def args_hint(self) -> str | None: ...

    def function(self, path: Path) -> Function | None: ...

    def when(self, path: Path) -> When:
        """When it is known what a function gives; `load` for one that is not there."""
        ...

    def moment(self) -> Moment:
        """For what depends on time or chance, and is wanted at load."""
        ...

    def written(self, path: Path) -> FunctionOf | None:
        """A function that is written in the language; None where the path leads to none of these, which is no mistake."""
        ...

    def local(self, path: Path) -> LocalTerm | None:
        """What a script, a function or a pattern has named."""
        ...

    def constant(self, path: Path) -> Constant | None: ...

    def report(self, diagnostic: Diagnostic) -> None: ...
