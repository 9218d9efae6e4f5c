"""What an expression needs to know about its place."""

from collections.abc import Mapping
from typing import Protocol

from walflow.compile.constant import Constant
from walflow.compile.nodes import Expr, Path, Root
from walflow.compile.program import FunctionOf, LocalTerm
from walflow.diagnostics import Diagnostic
from walflow_kernel.functions import Function, When
from walflow_kernel.moment import Moment


class Scope(Protocol):
    """The meaning of names at the place of the expression. Each method but `when` reports a name that it does not find."""

    def args(self, root: Root) -> Mapping[str, Constant | None] | None:
        """The value of an arg is None if it could not be evaluated, which was reported already."""
        ...

    def args_hint(self) -> str | None: ...

    def function(self, path: Path) -> Function | None: ...

    def when(self, path: Path) -> When:
        """When the result of a function is known. For a function that does not exist: `load`."""
        ...

    def moment(self) -> Moment:
        """For an expression that depends on time or chance but must be known at load."""
        ...

    def written(self, path: Path) -> FunctionOf | None:
        """A function that is written in the language. None: the path leads to no such function, which is no mistake."""
        ...

    def local(self, path: Path) -> LocalTerm | None:
        """A name in a script, a function or a pattern."""
        ...

    def constant(self, path: Path) -> Constant | None: ...

    def evaluated(self, node: Expr) -> Constant | None:
        """The value of a `match`, a `for` or a call of a function of the file, which is known at load."""
        ...

    def has_constant(self, path: Path) -> bool:
        """Reports nothing."""
        ...

    def report(self, diagnostic: Diagnostic) -> None: ...
